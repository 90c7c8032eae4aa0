#!/usr/bin/env bash
# ci/matrix.sh [--servers] [LABEL...]: the project's tests and PostgreSQL's own suite on other
# servers (default: 17, 18 and an assertion-enabled 18; 16 too with MIRROR_16, for no
# Debian release has it).  With ALL=1 the slow tests, too: CI has them on this machine's server only.
# --servers only makes the servers.
. "$(dirname "$0")/lib.sh"

only=
if [ "${1:-}" = --servers ]; then
    only=servers
    shift
fi

if [ $# -eq 0 ]; then
    # the one that takes longest first
    set -- 18-assert 17 18
    if [ -n "${MIRROR_16:-}" ]; then set -- 18-assert 16 17 18; else say "16 is left out: set MIRROR_16 to the address of an Ubuntu mirror to have it"; fi
fi
# Servers are made concurrently: mostly waiting for packages.  Packages that they need on
# this machine is installed first, for there is one package lock.
packages debootstrap dpkg-dev bzip2 xz-utils build-essential bison flex perl libreadline-dev zlib1g-dev liblz4-dev libipc-run-perl
declare -A job
for label in "$@"; do
    "$TOP/ci/server.sh" "$label" &
    job[$label]=$!
done
for label in "$@"; do
    wait "${job[$label]}" || die "no server $label"
done
[ "$only" != servers ] || exit 0
"$TOP/ci/indent.sh" --check || die "the C code is not as pgindent leaves it (run ci/indent.sh)"

# part COMMAND...: a part of the tests.  One that fails is named at the end with the
# last that it said: it may have ended before it could count (a source that a mirror
# does not have, a server that does not start).
failed=0
part() {
    local said=$BUILD/check/part-$label.said
    if ! "$@" 2> >(tee "$said" >&2); then
        failed=$((failed + 1))
        { echo "failed: ${*#"$TOP"/}"; tail -n 12 "$said" | cut -c1-300; } >>"$BUILD/check/parts.failed"
    fi
}

# server LABEL: all parts on one server, one after another.
server() {
    local label=$1 ext fast=1 failed=0
    [ "${ALL:-}" != 1 ] || fast=
    FAST=$fast part "$TOP/ci/check.sh" "$label"
    BUILT=1 part "$TOP/ci/core.sh" "$label"
    case $label in
        *-assert)
            BUILT=1 part "$TOP/ci/core.sh" "$label" "debug_parallel_query = regress"
            for ext in $EXTENSIONS; do
                [ -e "$TOP/$ext/test/assert.conf" ] || continue
                TEST_CONF=test/assert.conf SKIP_TAP=1 part "$TOP/ci/check.sh" "$label" "$ext"
            done
            ;;
        *) part "$TOP/ci/upgrade.sh" "$label" ;;
    esac
    [ "$failed" = 0 ]
}

mkdir -p "$BUILD/check"
rm -rf "$BUILD"/check/*.count "$BUILD"/check/*.failed "$BUILD"/core/*.count
# Two servers at a time: tests wait more than they compute.
failed=0
running=0
for label in "$@"; do
    if [ "$running" = 2 ]; then
        wait -n || failed=$((failed + 1))
        running=1
    fi
    server "$label" &
    running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
    wait -n || failed=$((failed + 1))
    running=$((running - 1))
done
cat "$BUILD"/check/*.count "$BUILD"/core/*.count | awk -v servers="$failed" '{ p += $1; f += $2 } END { print p " passed, " f " failed; servers on which a part failed: " servers }'
cat "$BUILD"/check/*.failed 2>/dev/null || true
[ "$failed" = 0 ]
