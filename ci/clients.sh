#!/usr/bin/env bash
# ci/clients.sh: run test/clients on the installed server: what drivers give and take
# for a column of appendable_bytea, compared with a column of bytea.
#
# Starts a private server on the loopback interface with nothing preloaded, and stops
# it.  Packages come from the languages' registries, as this machine has them set
# up, into build/clients; a language whose toolchain is missing, or whose packages are not available, is
# "skipped".  CLIENTS="python go ..." chooses some; "languages" are the server's procedural
# languages (test/t/020_languages.pl with Debian's packages of them).
. "$(dirname "$0")/lib.sh"

"$TOP/ci/server.sh" host
pg_config=$(pg_config_of host)
bin=$("$pg_config" --bindir)
work=$BUILD/clients
mkdir -p "$work"

"$TOP/ci/install.sh"

# ---- the server ----
as_root rm -rf "$work/server"
mkdir -p "$work/server"
as_root chown "$SERVER_USER" "$work/server"
stop() { as_server "$bin/pg_ctl" -D "$work/server/data" -m immediate stop >/dev/null 2>&1 || true; }
trap stop EXIT
as_server "$bin/initdb" -D "$work/server/data" -U postgres -A trust --no-sync >/dev/null
export PGHOST=127.0.0.1 PGUSER=postgres PGDATABASE=postgres PGPORT
for _ in 1 2 3 4 5; do
    PGPORT=$((20000 + RANDOM % 12000))
    as_server "$bin/pg_ctl" -D "$work/server/data" -l "$work/server/log" -w -t 120 -o \
        "-c listen_addresses=127.0.0.1 -p $PGPORT -c unix_socket_directories='' -c fsync=off -c autovacuum=off" start >/dev/null && break
    PGPORT=
done
[ -n "$PGPORT" ] || { tail -n 20 "$work/server/log" >&2; die "the server for the clients did not start"; }
"$bin/psql" -X -q -v ON_ERROR_STOP=1 <<'SQL'
SET client_min_messages = warning;
CREATE EXTENSION appendable_bytea;
CREATE TABLE plain (id int PRIMARY KEY, data bytea) WITH (fillfactor = 80);
CREATE TABLE own (id int PRIMARY KEY, data appendable_bytea) WITH (fillfactor = 80);
CREATE TABLE plain_json (id int PRIMARY KEY, data json);
CREATE TABLE own_json (id int PRIMARY KEY, data appendable_json);
CREATE TABLE plain_jsonb (id int PRIMARY KEY, data jsonb);
CREATE TABLE own_jsonb (id int PRIMARY KEY, data appendable_jsonb);
ALTER DATABASE postgres SET appendable_bytea.store_differences = on;
SQL

# ---- the languages ----
# Each has a folder with the sources copied into it, so that nothing is made in the repository.
folder() {
    mkdir -p "$work/$1"
    cp -r "$TOP/test/clients/$1/." "$work/$1/"
    cd "$work/$1"
}

skipped() { echo "skipped $1: $2" | tee -a "$work/summary"; }

# client NAME PREPARE RUN: get packages and build, then run.
client() {
    local name=$1 prepare=$2 run=$3
    if ! (folder "$name" && timeout 150 bash -c "set -euo pipefail; $prepare") >"$work/$name.log" 2>&1; then
        tail -n 5 "$work/$name.log" >&2
        skipped "$name" "its packages are not available (whole log: $work/$name.log)"
        return 0
    fi
    if ! (cd "$work/$name" && timeout 240 bash -c "set -euo pipefail; $run") >"$work/$name.out" 2>&1; then
        failed=1
        echo "not ok $name" >>"$work/summary"
    fi
    tee -a "$work/summary" <"$work/$name.out" | cut -c1-2000
}

failed=0
: >"$work/summary"
export DOCUMENT=$TOP/appendable_bytea/docs/clients.md FOLLOWING=$TOP/appendable_bytea/docs/following.md PYTHONDONTWRITEBYTECODE=1 VENV=$work/venv GOFLAGS=-mod=mod CARGO_TARGET_DIR=$work/cargo
for language in ${CLIENTS:-languages python node java go rust dotnet}; do
    say "clients: $language"
    case $language in
        languages)
            major=$(major_of "$pg_config")
            # the packages are those of the server's minor release
            release=$(dpkg-query -W -f='${Version}' "postgresql-$major" 2>/dev/null || true)
            for name in plpython3 plperl pltcl; do
                [ -e "$("$pg_config" --pkglibdir)/$name.so" ] || (packages "postgresql-$name-$major${release:+=$release}") >>"$work/summary.log" 2>&1 ||
                    skipped "$name" "its package is not available"
            done
            if SKIP_REGRESS=1 PROVE_TESTS=test/t/020_languages.pl "$TOP/ci/check.sh" host appendable_bytea >"$work/languages.out" 2>&1; then
                echo "ok procedural languages: $(tail -n 1 "$work/languages.out")" | tee -a "$work/summary"
            else
                failed=1
                echo "not ok procedural languages" | tee -a "$work/summary"
                tail -n 40 "$work/languages.out" >&2
            fi
            ;;
        python)
            if PYTHON=$(find_python); then
                export PYTHON
                # shellcheck disable=SC2016
                client python '[ -e $VENV/.ready ] || { $PYTHON -m venv $VENV; $VENV/bin/pip install -q --disable-pip-version-check -r requirements.txt; touch $VENV/.ready; }' \
                    '$VENV/bin/python clients.py $DOCUMENT'
            else
                skipped python "no Python with the venv module"
            fi
            ;;
        node)
            # shellcheck disable=SC2016
            if command -v npm >/dev/null; then client node 'npm install --silent --no-audit --no-fund' 'node clients.js; node follow.js $FOLLOWING'
            else skipped node "no npm"; fi
            ;;
        java)
            # shellcheck disable=SC2016
            if command -v mvn >/dev/null && command -v javac >/dev/null; then
                client java 'mvn -q -B dependency:copy-dependencies -DoutputDirectory=jars; javac Clients.java' 'java -cp "jars/*:." Clients $DOCUMENT'
            else skipped java "no mvn or no javac"; fi
            ;;
        go)
            if command -v go >/dev/null; then client go 'go mod tidy; go build -o clients .' './clients'
            else skipped go "no go"; fi
            ;;
        rust)
            # shellcheck disable=SC2016
            if command -v cargo >/dev/null; then client rust 'cargo build -q' '$CARGO_TARGET_DIR/debug/clients'
            else skipped rust "no cargo"; fi
            ;;
        dotnet) skipped dotnet "there is no program for Npgsql yet" ;;
    esac
done
good=$(grep -c '^ok ' "$work/summary" || true)
bad=$(grep -c '^not ok ' "$work/summary" || true)
echo "clients: $good as with bytea, $bad different, $(grep -c '^skipped ' "$work/summary" || true) skipped"
[ "$failed" = 0 ] && [ "$bad" = 0 ]
