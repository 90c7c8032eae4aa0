#!/usr/bin/env bash
# ci/arm.sh [EXTENSION...]: the extensions on ARM64, as far as a machine without such a
# processor can tell.  A cross compiler builds them with the headers of Debian's ARM64
# packages, an emulator of processes (qemu-user) runs that server with them, and
# pg_regress asks it from outside, with light_explain on the system clock and on the
# processor's counter.  Times, and races between processors, need a real one.
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $EXTENSIONS
[ "$(uname -m)" = x86_64 ] || die "this is for x86-64 machines: on others make check tests them as they are"
packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
"$TOP/ci/server.sh" host
host=$(pg_config_of host)
bin=$("$host" --bindir)
major=$(major_of "$host")
compiler=aarch64-linux-gnu-gcc

base=$BUILD/arm
root=$base/root
work=$base/work
pg_config=$base/pg_config
as_root rm -rf "$work" "$base/data"
mkdir -p "$base" 2>/dev/null || { as_root mkdir -p "$base"; as_root chown "$(id -un)" "$base"; }

# Debian's packages are unpacked, not installed: this machine stays what it is.
if [ ! -x "$root/usr/lib/postgresql/$major/bin/postgres" ] || [ ! -d "$root/usr/include/postgresql/$major/server" ]; then
    say "unpacking PostgreSQL $major for ARM64 (log: $base/packages.log)"
    rm -rf "$root" "$base/apt"
    mkdir -p "$root" "$base/apt/state/lists/partial" "$base/apt/cache/archives/partial"
    : >"$base/apt/status"
    printf '%s;\n' 'APT::Architecture "arm64"' 'APT::Architectures { "arm64"; }' 'APT::Install-Recommends "false"' 'APT::Sandbox::User "root"' \
        "Dir::State \"$base/apt/state\"" "Dir::State::status \"$base/apt/status\"" "Dir::Cache \"$base/apt/cache\"" >"$base/apt/conf"
    {
        APT_CONFIG=$base/apt/conf apt-get update &&
            APT_CONFIG=$base/apt/conf apt-get install -y --download-only "postgresql-$major" &&
            (cd "$base/apt/cache/archives" && APT_CONFIG=$base/apt/conf apt-get download "postgresql-server-dev-$major" libpq-dev)
    } >"$base/packages.log" 2>&1 || { tail -n 20 "$base/packages.log" >&2; die "no packages of PostgreSQL $major for ARM64 (whole log: $base/packages.log)"; }
    for package in "$base"/apt/cache/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
    rm -rf "$base/apt"
fi
printf '#!/bin/sh\nexec qemu-aarch64 -L %s %s "$@"\n' "$root" "$root/usr/lib/postgresql/$major/bin/pg_config" >"$pg_config"
chmod +x "$pg_config"

mkdir -p "$work"
(cd "$TOP" && tar -cf - --exclude='*.o' --exclude='*.so' --exclude='tmp_*' --exclude=results --exclude=log common "$@") | tar -xf - -C "$work"
for ext in "$@"; do
    say "building $ext for ARM64"
    libraries=$(cd "$work/$ext" && find test -mindepth 2 -name '*_test_*.c' ! -path '*/clock/*' | sed 's/c$/so/')
    # shellcheck disable=SC2086
    make -s -j2 -C "$work/$ext" PG_CONFIG="$pg_config" CC=$compiler WERROR=1 all $libraries >"$base/$ext.build.log" 2>&1 &&
        make -s -C "$work/$ext" PG_CONFIG="$pg_config" CC=$compiler install >>"$base/$ext.build.log" 2>&1 ||
        { tail -n 40 "$base/$ext.build.log" >&2; die "$ext does not build for ARM64"; }
done

# light_explain's clock alone: ARM's, this processor's, and the system's.
clock() {
    local cc=$1 name=$2
    shift 2
    "$cc" -O2 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -I"$work/light_explain/src" -I"$work/common" -isystem "$("$pg_config" --includedir-server)" \
        "$@" -static -o "$work/light_test_clock" "$work/light_explain/test/clock/light_test_clock.c"
    if [ "$cc" = $compiler ]; then qemu-aarch64 "$work/light_test_clock" "$name"; else "$work/light_test_clock" "$name"; fi
}
if [[ " $* " == *" light_explain "* ]]; then
    clock $compiler arch_sys_counter
    clock $compiler system -DLIGHT_NO_COUNTER
    clock gcc system -DLIGHT_NO_COUNTER
fi
as_root chown -R "$SERVER_USER" "$work"

# a socket's path may have no more than 107 characters
sockets=$(as_server mktemp -d -p /tmp)
running=
stop() { [ -z "$running" ] || as_server "$bin/pg_ctl" -D "$base/data" -m fast -w stop >/dev/null 2>&1 || true; running=; }
trap 'stop; as_root rm -rf "$sockets" "$base/data"' EXIT
ask() { as_server "$bin/psql" -XqAt -h "$sockets" -d postgres -c "$1"; }

# The emulated server.  It cannot start other programs, so a cluster of this machine's
# server is what it finds: the two have the same files.  With a "counter" what Linux
# says about clocks is hidden, for it is this processor's.
start() {
    local hide=
    [ "$2" != counter ] || hide='mount -t tmpfs none /sys/devices/system/clocksource;'
    as_root rm -rf "$base/data"
    as_root mkdir "$base/data"
    as_root chown "$SERVER_USER" "$base/data"
    as_server "$bin/initdb" -D "$base/data" -A trust -N --locale=C -E UTF8 >/dev/null
    {
        cat "$work/$1/test/regress.conf"
        printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$sockets'" "fsync = off" "jit = off" "dynamic_shared_memory_type = posix"
    } | as_server tee -a "$base/data/postgresql.conf" >/dev/null
    as_root unshare --mount --propagation private sh -ec "$hide"'
        user=$1 server=$2 root=$3 data=$4
        exec setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups env HOME=/tmp qemu-aarch64 -L "$root" "$server" -D "$data"' \
        start "$SERVER_USER" "$root/usr/lib/postgresql/$major/bin/postgres" "$root" "$base/data" >"$base/$1-$2.log" 2>&1 </dev/null &
    running=1
    for _ in $(seq 600); do
        if ask 'SELECT 1' >/dev/null 2>&1; then return 0; fi
        kill -0 $! 2>/dev/null || break
        sleep 0.2
    done
    tail -n 20 "$base/$1-$2.log" >&2
    die "the emulated server does not start (whole log: $base/$1-$2.log)"
}

regress=$(dirname "$("$host" --pgxs)")/../test/regress/pg_regress
good=0 bad=0
test_one() {
    local ext=$1 clock=$2 tests
    start "$ext" "$clock"
    case $(ask 'SELECT version()') in *aarch64*) ;; *) die "that is no server of ARM64" ;; esac
    ask 'CREATE DATABASE contrib_regression'
    if [ "$clock" = counter ]; then
        ask 'CREATE EXTENSION light_explain'
        [ "$(ask 'SELECT clock FROM light_explain_status()')" = arch_sys_counter ] || die "the processor's counter is not the clock"
        ask 'DROP EXTENSION light_explain'
    fi
    mapfile -t tests < <(cd "$work/$ext/test/sql" && ls -- *.sql | sed 's/\.sql$//')
    say "testing $ext on ARM64, clock: $clock"
    (cd "$work/$ext" && as_server "$regress" --bindir="$bin" --host="$sockets" --use-existing --dbname=contrib_regression --inputdir=test "${tests[@]}") 2>&1 |
        tee "$base/$ext-$clock.out" | grep -E '^(test|ok|not ok)' || true
    [ ! -s "$work/$ext/regression.diffs" ] || head -n 100 "$work/$ext/regression.diffs" >&2
    good=$((good + $(grep -cE '^(test .* ok|ok )' "$base/$ext-$clock.out" || true)))
    bad=$((bad + $(grep -cE '^(test .* FAILED|not ok )' "$base/$ext-$clock.out" || true)))
    stop
    ! grep -E 'TRAP:|PANIC:|terminated by signal' "$base/$ext-$clock.log" || bad=$((bad + 1))
}
for ext in "$@"; do
    [ -d "$work/$ext/test/sql" ] || continue
    test_one "$ext" system
    [ "$ext" != light_explain ] || test_one "$ext" counter
done
echo "PostgreSQL $major on ARM64, emulated: $good passed, $bad failed"
[ "$bad" = 0 ] && [ "$good" -gt 0 ]
