#!/usr/bin/env bash
# streams/test/run.sh (make streams): build the server, start a private PostgreSQL, and run
# the unit tests, the tests over HTTP, kills under retries, and the protocol's official suite with one
# server and with two behind a proxy that alternates between them.
#
#   KILLS=4    how often the server is killed under retries
#   STOPS=3    how often PostgreSQL is stopped in immediate mode under retries
#   SUITE=0    leave out the official suite (it is a package of npm)
#   APPENDS=500  appends of each case whose WAL is counted
#   ONLY=^TestServerWAL  run these tests alone (make bench-streams)
#   PG_CONFIG  the PostgreSQL server; appendable_bytea must be installed there
#
# Everything made is in build/streams, except the sockets, which are in a folder of /tmp.
. "$(dirname "$0")/../../ci/lib.sh"

here=$(cd "$(dirname "$0")" && pwd)
work=$BUILD/streams
bin=$("$(pg_config_of host)" --bindir)
command -v go >/dev/null || die "the package golang is required"
mkdir -p "$work"

say "building"
(cd "$here/../src" && go vet . && go build -o "$work/streams" . && go test -c -o "$work/unit" .)
say "unit tests"
(cd "$here/../src" && "$work/unit" -test.v -test.run '^TestUnit' | grep -E '^(---|ok|PASS|FAIL)')

# ---- the private server ----
sockets=$(mktemp -d /tmp/streams-XXXXXX)
as_root chown "$SERVER_USER" "$sockets"
as_root chmod 755 "$sockets"
as_root rm -rf "$work/server"
mkdir -p "$work/server"
as_root chown "$SERVER_USER" "$work/server"
pids=""
stop() {
    local pid
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    as_server "$bin/pg_ctl" -D "$work/server/data" -m immediate stop >/dev/null 2>&1 || true
    as_root rm -rf "$sockets"
}
trap stop EXIT
as_server "$bin/initdb" -D "$work/server/data" -U postgres -A trust --no-sync -E UTF8 >/dev/null
as_server "$bin/pg_ctl" -D "$work/server/data" -l "$work/server/log" -w -t 120 -o \
    "-c listen_addresses='' -c unix_socket_directories='$sockets' -c max_connections=100 -c checkpoint_timeout=1h" start >/dev/null

export STREAMS_TEST_PROGRAM=$work/streams STREAMS_TEST_SOCKETS=$sockets STREAMS_TEST_KILLS=${KILLS:-4} STREAMS_TEST_STOPS=${STOPS:-3} STREAMS_TEST_APPENDS=${APPENDS:-500}
export STREAMS_TEST_RESTART="$work/restart"
# how the test stops PostgreSQL at once and starts it again
cat >"$work/restart" <<SH
#!/bin/sh
cd /
run() { if [ "\$(id -un)" = "$SERVER_USER" ]; then "\$@"; else setpriv --reuid=$SERVER_USER --regid=$(id -g "$SERVER_USER") --init-groups "\$@"; fi; }
[ "\$1" = start ] || run $bin/pg_ctl -D $work/server/data -m immediate -w stop
[ "\$1" = stop ] || run $bin/pg_ctl -D $work/server/data -l $work/server/log -w -t 120 -o "-c listen_addresses='' -c unix_socket_directories='$sockets' -c max_connections=100 -c checkpoint_timeout=1h" start
SH
chmod +x "$work/restart"

say "tests over HTTP"
(cd "$here/../src" && "$work/unit" -test.v -test.timeout 20m -test.run "${ONLY:-^TestServer}" 2>"$work/tests.log" | grep -v '^===')

[ "${SUITE:-1}" = 1 ] && [ -z "${ONLY:-}" ] || exit 0
if ! command -v npm >/dev/null; then
    say "skipped: the official suite (no npm)"
    exit 0
fi
# several of its tests measure seconds, and fail on a busy machine: a test has three attempts
say "the protocol's official suite"
mkdir -p "$work/suite"
cp "$here"/suite/* "$work/suite/"
(cd "$work/suite" && npm install --silent --no-audit --no-fund)
port=$((20000 + RANDOM % 12000))
psql() { "$bin/psql" -X -q -v ON_ERROR_STOP=1 -h "$sockets" -U postgres "$@"; }
psql -d postgres -c "CREATE DATABASE suite"
for n in 1 2; do
    cat >"$work/suite$n.json" <<JSON
{"listen": "127.0.0.1:$((port + n))", "database": "host=$sockets user=postgres dbname=suite", "anonymous": "web", "prefix": "/v1/stream/", "long_poll_ms": 2000}
JSON
done
"$work/streams" -config "$work/suite1.json" -setup
psql -d suite <<'SQL'
DO $$ BEGIN IF to_regrole('web') IS NULL THEN CREATE ROLE web; END IF; END $$;
GRANT USAGE ON SCHEMA streams TO web;
GRANT SELECT, INSERT, UPDATE, DELETE ON streams.stream, streams.producer TO web;
SQL
# suite NAME URL
suite() {
    (cd "$work/suite" && STREAMS_URL=$2 STREAMS_LONG_POLL_MS=2000 \
        npx vitest run --testTimeout=60000 --retry=2 --reporter=json --outputFile="$1.json" conformance.test.mjs >"$1.log" 2>&1) || true
    node "$work/suite/summary.mjs" "$work/suite/$1.json" "$1"
}
"$work/streams" -config "$work/suite1.json" >"$work/suite1.log" 2>&1 &
pids="$pids $!"
suite "one server" "http://127.0.0.1:$((port + 1))"
"$work/streams" -config "$work/suite2.json" >"$work/suite2.log" 2>&1 &
pids="$pids $!"
STREAMS_TEST_PROXY=127.0.0.1:$port STREAMS_TEST_TARGETS="http://127.0.0.1:$((port + 1)) http://127.0.0.1:$((port + 2))" \
    "$work/unit" -test.run '^TestProxy$' -test.timeout 0 >"$work/proxy.log" 2>&1 &
pids="$pids $!"
suite "two servers, requests alternating" "http://127.0.0.1:$port"
