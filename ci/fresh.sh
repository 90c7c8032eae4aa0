#!/usr/bin/env bash
# ci/fresh.sh [STATE...]: both commands of the README as a newcomer gives them: for the
# first time, unattended, in a copy of a pristine root, on machines in these states
# (default: all of them but noble-bare, which needs MIRROR_16; eight minutes each on two
# busy processors, those that end in -bare longer: they run the whole demo and every test
# unless PG_LEAN_QUICK=1).
# Needs root, and what ci/lib.sh asks apt for.
#
#   bookworm-bare    no PostgreSQL; root, the clone in /root
#   bookworm-server  a server without headers; a user with sudo
#   bookworm-libpq   libpq-dev, which has a pg_config, but no server; root, the clone in /opt
#   bookworm-older   a server older than the headers on offer; root
#   bookworm-behind  the same, and headers of its minor release are offered nowhere
#   bookworm-nosudo  no PostgreSQL; a user without sudo is told what to ask for, gets it
#   trixie-bare      no PostgreSQL; root
#   trixie-own       17 with its headers; a user with sudo, who needs it only for installing
#   noble-bare       Ubuntu's 16; root
#
# One line for each state, with the tests that passed and what both commands took; logs are in
# build/fresh/STATE*.log.
. "$(dirname "$0")/lib.sh"
. "$TOP/ci/pristine.sh"

STATES="bookworm-bare bookworm-server bookworm-libpq bookworm-older bookworm-behind bookworm-nosudo trixie-bare trixie-own"
# An environment that means another server, which must not be noticed.
ELSEWHERE="PGPORT=9999 PGHOST=/nowhere PGSERVICE=nowhere PGUSER=nobody PGOPTIONS='-c nosuch.setting=1 -c enable_seqscan=off'"

# give NAME COMMAND: the newcomer gives this command in the clone; 0 if it passes.
give() {
    local began=$SECONDS status=0
    say "$state: $2"
    inside "$user" "cd $place && export $ELSEWHERE && $2" >"$log.$1.log" 2>&1 || status=$?
    took="${took:+$took, }$2 $((SECONDS - began)) s"
    return "$status"
}

# both [WHOLE]: both commands pass the first time, and leave what they promise.
both() {
    local quick="PG_LEAN_QUICK=1 "
    [ "${1:-}" != whole ] || [ "${PG_LEAN_QUICK:-}" = 1 ] || quick=
    took=
    expect "make demo failed" give demo "make demo${quick:+ ARGS=--quick}"
    expect "the first line does not say what is changed" eval 'head -n 1 "$log.demo.log" | grep -qE "== make demo installs .*build/"'
    expect "the demo left no report" as_root test -s "$root$place/build/report/index.html"
    expect "packages and compilers talk on the terminal" same "$(grep -cE '^(Setting up|Unpacking|gcc) ' "$log.demo.log")" 0
    expect "make check failed" give check "${quick}make check"
    expect "make check counted nothing" grep -qE '^PostgreSQL host: [1-9][0-9]* passed, 0 failed' "$log.check.log"
    expect "the lab's tests did not run" grep -qE '^[1-9][0-9]* passed' "$log.check.log"
    [ -n "$quick" ] || expect "make check says nothing while it tests" grep -q 'tests that ended on PostgreSQL host: parallel_temp [0-9]* of [1-9]' "$log.check.log"
    passed=$(sed -nE 's/^([0-9]+ passed, [0-9]+ failed)$/\1/p' "$log.check.log" | tail -n 1)
    expect "make clean failed" give clean "make clean"
    expect "make clean left build/" as_root test ! -e "$root$place/build"
    expect "make clean left /var/tmp" same "$(as_root find "$root/var/tmp" -mindepth 1 -name 'pg_lean*')" ""
    expect "something is left in /tmp" same "$(as_root find "$root/tmp" -mindepth 1 -name 'pg_lean*')" ""
}

run_state() {
    case $state in
        bookworm-bare) clone root /root/pg_lean && both whole ;;
        bookworm-server)
            installed postgresql-15
            ann sudo
            clone ann /home/ann/pg_lean
            expect "the state is not what it says" as_root test ! -e "$root/usr/include/postgresql/15/server/postgres.h"
            both
            ;;
        bookworm-libpq)
            installed libpq-dev
            clone root /opt/pg_lean
            both
            ;;
        bookworm-older | bookworm-behind)
            older=$(offered postgresql-15 | tail -n 1)
            newer=$(offered postgresql-15 | head -n 1)
            expect "only one minor release is on offer ($newer)" test "$older" != "$newer"
            installed "postgresql-15=$older" "postgresql-client-15=$older"
            if [ "$state" = bookworm-behind ]; then
                # everything of the release is installed except the headers;
                # apt would bring what has the same source to their version
                installed "postgresql-15=$older" "postgresql-client-15=$older" "postgresql-server-dev-15=$newer" gcc libc6-dev libipc-run-perl perl python3 python3-venv
                inside root "apt-get remove -y -qq postgresql-server-dev-15" >>"$log.prepare.log" 2>&1
                as_root sed -i '/-security/!d' "$root/etc/apt/sources.list"
            fi
            expect "the state is not what it says" same "$(have postgresql-15) $(have postgresql-server-dev-15)" "$older "
            clone root /srv/pg_lean
            both
            asked=$older
            if [ "$state" = bookworm-behind ]; then
                asked=$newer
                expect "no message said that the server was changed" grep -q 'server and headers become' "$log.demo.log"
            fi
            expect "the server is $(have postgresql-15), not $asked" same "$(have postgresql-15)" "$asked"
            expect "the headers are $(have postgresql-server-dev-15), not $asked" same "$(have postgresql-server-dev-15)" "$asked"
            ;;
        bookworm-nosudo)
            ann
            clone ann /home/ann/pg_lean
            expect "a user without sudo continued" eval '! give refused "make check"'
            expect "one line says what is missing" same "$(grep -vc '^make' "$log.refused.log")" 1
            asked=$(sed -n 's/^error: .*ask an administrator for: apt-get install //p' "$log.refused.log")
            expect "no packages were named" test -n "$asked"
            installed "$asked"
            both
            expect "the server's folder was written to" as_root test ! -e "$root/usr/lib/postgresql/15/lib/parallel_temp.so"
            ;;
        trixie-bare)
            clone root /opt/pg_lean
            both whole
            expect "not the release's own server" test -n "$(have postgresql-17)"
            ;;
        trixie-own)
            installed postgresql-17 postgresql-server-dev-17
            ann sudo
            clone ann /home/ann/pg_lean
            both
            ;;
        noble-bare)
            clone root /opt/pg_lean
            both whole
            expect "not the release's own server" test -n "$(have postgresql-16)"
            ;;
        *) die "no state $state; there are: $STATES noble-bare" ;;
    esac
}

# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $STATES ${MIRROR_16:+noble-bare}
if [ $# -eq 1 ]; then
    pristine "$1"
    run_state
    as_root rm -rf "$root"
    echo "fresh $state: ${passed:-0 passed}; $took"
    exit 0
fi
failed=()
for state in "$@"; do "$0" "$state" || failed+=("$state"); done
[ ${#failed[@]} -eq 0 ] || die "failed: ${failed[*]}"
