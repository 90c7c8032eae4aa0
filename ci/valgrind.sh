#!/usr/bin/env bash
# ci/valgrind.sh [EXTENSION...]: regression tests of the extensions on a server below
# Valgrind's memcheck: PostgreSQL 18 with assertions, built so that Valgrind knows its memory
# contexts.  Fails if an error is found or a test fails.  TESTS='storage tables' runs only these;
# by default some of each, for everything takes thirty times as long as elsewhere.
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $EXTENSIONS
chosen() {
    case $1 in
        parallel_temp) echo "toolkit parallel_tidy parallel_plans parallel_pins gathered_statistics fill_pages fastload_same_rows" ;;
        appendable_bytea) echo "storage type_write rollback forged batch tail compact" ;;
        light_explain) echo "light_explain option roles" ;;
        *) (cd "$TOP/$1/test/sql" && ls -- *.sql | sed 's/\.sql$//' | tr '\n' ' ') ;;
    esac
}

major=18
packages valgrind build-essential bison flex perl libreadline-dev zlib1g-dev liblz4-dev
source=$("$TOP/ci/source.sh" "$major")
prefix=$BUILD/server/$major-valgrind
if [ ! -e "$prefix/.ready" ] || [ ! -e "$prefix/lib/pgsql/pageinspect.so" ]; then
    say "building PostgreSQL $major for Valgrind"
    rm -rf "$prefix" "$BUILD/source/$major-valgrind"
    cp -a "$source" "$BUILD/source/$major-valgrind"
    bash -euc '
        cd "$1"
        ./configure -q --prefix="$2" --libdir="$2/lib/pgsql" --enable-cassert --enable-debug --without-icu --with-lz4 \
            CPPFLAGS=-DUSE_VALGRIND CFLAGS="-O1 -ggdb -fno-omit-frame-pointer"
        make -s -j"$(nproc)"
        make -s install
        make -s -C src/test/regress install
        make -s -j"$(nproc)" -C contrib
        make -s -C contrib install
    ' valgrind "$BUILD/source/$major-valgrind" "$prefix" >"$BUILD/server-$major-valgrind.log" 2>&1 ||
        { tail -n 20 "$BUILD/server-$major-valgrind.log" >&2; die "building PostgreSQL $major failed"; }
    rm -rf "$BUILD/source/$major-valgrind"
    touch "$prefix/.ready"
fi
bin=$prefix/bin
work=$BUILD/work/valgrind
as_root rm -rf "$work"
mkdir -p "$work/logs"
(cd "$TOP" && tar -cf - --exclude='*.o' --exclude='*.so' --exclude='tmp_*' common "$@") | tar -xf - -C "$work"
for ext in "$@"; do
    make -s -j2 -C "$work/$ext" PG_CONFIG="$bin/pg_config" all install >"$work/$ext.build.log" 2>&1 || { tail -n 20 "$work/$ext.build.log" >&2; die "$ext does not build"; }
done
as_root chown -R "$SERVER_USER" "$work"

# a socket's path may have no more than 107 characters
sockets=$(as_server mktemp -d -p /tmp)
server=
stop() {
    [ -z "$server" ] || { as_server "$bin/pg_ctl" -D "$work/data" -m fast -t 300 -w stop >/dev/null 2>&1 || true; wait "$server" || true; }
    server=
}
trap 'stop; as_root rm -rf "$sockets" "$work/data"' EXIT
regress=$(dirname "$("$bin/pg_config" --pgxs)")/../test/regress/pg_regress
failed=0
for ext in "$@"; do
    as_root rm -rf "$work/data"
    as_root install -d -o "$SERVER_USER" -m 700 "$work/data"
    as_server "$bin/initdb" -D "$work/data" -A trust -N --locale=C -E UTF8 >/dev/null
    {
        cat "$TOP/$ext/test/regress.conf"
        printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$sockets'" "fsync = off" "jit = off" "wal_sender_timeout = 0" "checkpoint_timeout = 1h"
    } | as_server tee -a "$work/data/postgresql.conf" >/dev/null
    as_server valgrind --quiet --trace-children=yes --leak-check=no --gen-suppressions=all --suppressions="$source/src/tools/valgrind.supp" \
        --error-markers=VALGRINDERROR-BEGIN,VALGRINDERROR-END --log-file="$work/logs/$ext-%p.log" \
        "$bin/postgres" -D "$work/data" >"$work/$ext.server.log" 2>&1 </dev/null &
    server=$!
    for _ in $(seq 600); do
        if as_server "$bin/psql" -XqAt -h "$sockets" -d postgres -c 'CREATE DATABASE contrib_regression' >/dev/null 2>&1; then break; fi
        kill -0 "$server" 2>/dev/null || die "the server does not start: see $work/$ext.server.log"
        sleep 1
    done
    say "testing $ext below Valgrind"
    # shellcheck disable=SC2046
    (cd "$work/$ext" && as_server "$regress" --bindir="$bin" --host="$sockets" --use-existing --dbname=contrib_regression --inputdir=test ${TESTS:-$(chosen "$ext")}) \
        >"$work/$ext.log" 2>&1 || true
    stop
    good=$(grep -cE '^ok ' "$work/$ext.log" || true)
    bad=$(grep -cE '^not ok ' "$work/$ext.log" || true)
    errors=$(cat "$work/logs/$ext"-*.log | grep -c VALGRINDERROR-BEGIN || true)
    if [ "$bad" != 0 ] || [ "$good" = 0 ] || [ "$errors" != 0 ]; then
        failed=1
        tail -n 5 "$work/$ext.log" >&2
        head -n 60 "$work/$ext/regression.diffs" 2>/dev/null >&2 || true
        cat "$work/logs/$ext"-*.log | grep -A 30 VALGRINDERROR-BEGIN | head -n 120 >&2 || true
    fi
    echo "valgrind: $ext: $good passed, $bad failed, $errors errors of memory"
done
exit "$failed"
