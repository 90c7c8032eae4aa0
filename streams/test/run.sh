#!/usr/bin/env bash
# streams/test/run.sh (make streams): build the server, start a private PostgreSQL, and run
# the unit tests, the tests over HTTP, kills under retries, and the protocol's official suite with one
# server and with two behind a proxy that alternates between them.
#
#   KILLS=4    how often the server is killed under retries
#   STOPS=3    how often PostgreSQL is stopped in immediate mode under retries
#   SUITE=0    leave out the official suite (it is a package of npm)
#   DOWN=30    seconds without PostgreSQL that followers survive
#   APPENDS=500  appends of each case whose WAL is counted
#   ROUNDS=9   rounds of the comparison with other servers (ONLY=^TestBenchCompare)
#   TURN=2500  milliseconds of a server's turn in a round
#   PLUGIN=FOLDER  source of Caddy's plugin of the protocol (packages/caddy-plugin, revision in caddy/go.mod): Caddy
#              is built with it, to compare with (CADDY=FILE is one that is built); the reference server comes from npm
#   ONLY=^TestServerWAL  run these tests alone; with ONLY=^$ SUITE=1, the suite alone
#   FUZZ=60    instead, random inputs for so many seconds each (fuzz_test.go); one that fails is left in src/testdata
#   MUTANTS=1  plant bugs instead (mutants.py; ONLY=TEXT: those with this text)
#   KEEP=FILE  write the results to this file, too (results/streams/)
#   LABEL=host  the PostgreSQL server (ci/lib.sh; of host, PG_CONFIG's); appendable_bytea must be installed there
#
# Everything made is in build/streams-LABEL, except the sockets, and the data of a server in a root, which are in /tmp.
. "$(dirname "$0")/../../ci/lib.sh"

label=${LABEL:-host}
here=$(cd "$(dirname "$0")" && pwd)
work=$BUILD/streams-$label
[ -d "$(work_of "$label")" ] || copy_tree "$label" common
bin=$(on "$label" server "$(pg_config_of "$label") --bindir")
command -v go >/dev/null || die "the package golang is required"
mkdir -p "$work"

say "building"
(cd "$here/../src" && go vet . && go build -o "$work/streams" . && go test -c -o "$work/unit" .)
say "unit tests"
(cd "$here/../src" && "$work/unit" -test.v -test.run '^(TestUnit|Fuzz)' | grep -E '^(---|ok|PASS|FAIL)')

# ---- the private server ----
# The socket of a server in a root is in its /tmp; a link here leads to it, because the path of a socket must be short.
sockets=$(mktemp -d /tmp/streams-XXXXXX)
case $label in
    host | *-assert) data=$work/server/data ;;
    *)
        data=/tmp/streams-server/data
        as_root ln -s "$(root_of "$label")$sockets" "$sockets/socket"
        ;;
esac
pids=""
stop() {
    local pid
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    [ ! -x "$work/standby" ] || "$work/standby" stop || true
    on "$label" server "'$bin/pg_ctl' -D '$data' -m immediate stop" >/dev/null 2>&1 || true
    on "$label" root "rm -rf '${sockets%/socket}'" || true
    as_root rm -rf "${sockets%/socket}"
}
trap stop EXIT
# how the test stops PostgreSQL at once and starts it again
cat >"$work/restart" <<SH
#!/usr/bin/env bash
. "$TOP/ci/lib.sh"
[ "\$1" = start ] || on "$label" server "'$bin/pg_ctl' -D '$data' -m immediate -w stop"
[ "\$1" = stop ] || on "$label" server "'$bin/pg_ctl' -D '$data' -l '$data.log' -w -t 120 -o \"-c listen_addresses='' -c unix_socket_directories='$sockets' -c max_connections=100 -c max_prepared_transactions=5 -c checkpoint_timeout=1h\" start" >/dev/null
SH
# and how it gets a standby of that server, at another port of the same sockets
cat >"$work/standby" <<SH
#!/usr/bin/env bash
. "$TOP/ci/lib.sh"
standby=$(dirname "$data")/standby
on "$label" server "'$bin/pg_ctl' -D '\$standby' -m immediate -w stop" >/dev/null 2>&1 || true
[ "\$1" = start ] || exit 0
on "$label" server "rm -rf '\$standby'; '$bin/pg_basebackup' -h '$sockets' -U postgres -D '\$standby' -R -c fast --no-sync"
on "$label" server "'$bin/pg_ctl' -D '\$standby' -l '\$standby.log' -w -t 120 -o \"-c port=5433 -c listen_addresses='' -c unix_socket_directories='$sockets' -c max_connections=100 -c max_prepared_transactions=5\" start" >/dev/null
SH
chmod +x "$work/restart" "$work/standby"
owner=$(on "$label" server "id -un")
on "$label" root "rm -rf '$(dirname "$data")'; mkdir -p '$sockets' '$(dirname "$data")'; chown '$owner' '$sockets' '$(dirname "$data")'; chmod 755 '$sockets'"
on "$label" server "'$bin/initdb' -D '$data' -U postgres -A trust --no-sync -E UTF8" >/dev/null
"$work/restart" start
[ ! -e "$sockets/socket" ] || sockets=$sockets/socket

export STREAMS_TEST_PROGRAM=$work/streams STREAMS_TEST_SOCKETS=$sockets STREAMS_TEST_KILLS=${KILLS:-4} STREAMS_TEST_STOPS=${STOPS:-3}
export STREAMS_TEST_APPENDS=${APPENDS:-500} STREAMS_TEST_DOWN=${DOWN:-30} STREAMS_TEST_RESTART="$work/restart" STREAMS_TEST_STANDBY="$work/standby"
export STREAMS_TEST_ROUNDS=${ROUNDS:-9} STREAMS_TEST_MILLISECONDS=${TURN:-2500} STREAMS_TEST_DATA=$work

if [ -n "${KEEP:-}" ]; then
    {
        printf 'date     %s\ncommit   %s\n' "$(date -u +%F)" "$(git -C "$TOP" rev-parse --short HEAD)$([ -z "$(git -C "$TOP" status --porcelain -uno -- . ':!results')" ] || echo -dirty)"
        printf 'server   %s\nmachine  %s x %s, Linux %s\n\n' "$("$bin/postgres" --version 2>/dev/null || on "$label" server "'$bin/postgres' --version")" "$(nproc)" \
            "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(uname -r)"
    } >"$KEEP"
    exec > >(tee -a "$KEEP")
fi
if [ -n "${FUZZ:-}" ]; then
    failed=0
    # shellcheck disable=SC2013
    for target in $(sed -n 's/^func \(Fuzz[A-Za-z]*\)(.*/\1/p' "$here/../src/fuzz_test.go"); do
        found=
        # at the end of its time Go may say "context deadline exceeded", of itself: https://github.com/golang/go/issues/75804
        (cd "$here/../src" && go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZ}s" -fuzzminimizetime 1s -parallel 1 .) >"$work/$target.log" 2>&1 ||
            { [ "$(grep -c '^    ' "$work/$target.log")" = 1 ] && grep -q '^    context deadline exceeded$' "$work/$target.log"; } || found="; FAILED" failed=1
        printf '%s: %s inputs in %s s%s\n' "$target" "$(sed -n 's/^fuzz: .* execs: \([0-9]*\).*/\1/p' "$work/$target.log" | tail -n 1)" "$FUZZ" "$found"
        [ -z "$found" ] || tail -n 30 "$work/$target.log" >&2
    done
    exit $failed
fi
if [ -n "${MUTANTS:-}" ]; then
    say "planted bugs"
    # shellcheck disable=SC2086
    python3 "$here/mutants.py" "$work/mutants" ${ONLY:-}
    exit
fi
if [[ ${ONLY:-} =~ TestBench ]] && command -v npm >/dev/null; then
    say "the reference server"
    mkdir -p "$work/reference"
    cp "$here"/reference/* "$work/reference/"
    (cd "$work/reference" && npm ci --ignore-scripts --silent --no-audit --no-fund)
    export STREAMS_TEST_NODE=$work/reference/server.mjs
fi
export STREAMS_TEST_CADDY=${CADDY:-}
if [ -n "${PLUGIN:-}" ]; then
    say "Caddy with the plugin"
    rm -rf "$work/caddy"
    cp -r "$here/caddy" "$work/caddy"
    (cd "$work/caddy" && go mod edit -replace "github.com/durable-streams/durable-streams/packages/caddy-plugin=$PLUGIN" && go build -o caddy .)
    export STREAMS_TEST_CADDY=$work/caddy/caddy
fi
say "tests over HTTP"
(cd "$here/../src" && "$work/unit" -test.v -test.timeout 60m -test.run "${ONLY:-^TestServer}" 2>"$work/tests.log" | grep -v '^===')

[ "${SUITE:-$([ -n "${ONLY:-}" ] || echo 1)}" = 1 ] || exit 0
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
psql() { "$("$(pg_config_of host)" --bindir)/psql" -X -q -v ON_ERROR_STOP=1 -h "$sockets" -U postgres "$@"; }
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
