#!/usr/bin/env bash
# ci/container.sh: run the steps of Dockerfile without a container tool, each stage in a
# copy of a pristine root that has this release's PostgreSQL, as the official image has;
# start the server by the image's command and use the extensions.  Needs root.
. "$(dirname "$0")/lib.sh"
. "$TOP/ci/pristine.sh"

THIS_RELEASE=$(sed -n "s/^VERSION_CODENAME=//p" /etc/os-release)
stages=()
environment=

# step COMMAND...: run in the stage's root, and show the log if that fails.
step() {
    "$@" >>"$log.steps.log" 2>&1 || { tail -n 40 "$log.steps.log" >&2; die "failed: $* (whole log: $log.steps.log)"; }
}

# from [NAME]: the stage begins with a root that has a server, and the variables that the image sets.
from() {
    local major version
    pristine "$THIS_RELEASE-${1:-image}"
    stages+=("$root")
    : >"$log.steps.log"
    installed postgresql
    version=$(inside root "dpkg-query -W -f='\${Package} \${Version}\n' 'postgresql-[0-9]*' | sed -n 's/^postgresql-//p' | head -n 1")
    major=${version%% *}
    environment="PG_MAJOR=$major PG_VERSION=${version#* }; export PG_MAJOR PG_VERSION DEBIAN_FRONTEND=noninteractive"
    bin=/usr/lib/postgresql/$major/bin
}

# starts COMMAND: the image's command as its user, on a new cluster; then the extensions.
starts() {
    step inside postgres "PATH=$bin:\$PATH; export PATH
        initdb -D /tmp/data -A trust --no-sync >/dev/null
        $1 -D /tmp/data -c unix_socket_directories=/tmp -c listen_addresses= >/tmp/log 2>&1 &
        for i in 1 2 3 4 5 6 7 8 9 10; do pg_isready -q -h /tmp && break; sleep 1; done
        for extension in $EXTENSIONS; do psql -X -h /tmp -v ON_ERROR_STOP=1 -c \"CREATE EXTENSION \$extension\" || { cat /tmp/log; exit 1; }; done
        psql -X -h /tmp -v ON_ERROR_STOP=1 -c 'CREATE TABLE t (data appendable_bytea); INSERT INTO t SELECT sha256(g::text::bytea) FROM generate_series(1, 9) g' \
            -c 'UPDATE t SET data = data || data' -c 'EXPLAIN (ANALYZE, LIGHT) SELECT count(*) FROM t' -c 'SELECT * FROM ram_tablespace_check()' || exit 1
        pg_ctl -D /tmp/data -m fast stop"
}

while read -r word rest; do
    case $word in
        ARG | '#'* | '') ;;
        FROM) from "$(expr "$rest" : '.* AS \(.*\)' || true)" ;;
        RUN) step inside root "$environment; $rest" ;;
        COPY)
            case $rest in
                "--from=build /made /") step as_root cp -a "${stages[0]}/made/." "$root/" ;;
                ". "*) clone root "${rest#. }" ;;
                *) die "unknown step: COPY $rest" ;;
            esac ;;
        CMD) starts "$("$(find_python)" -c 'import json, shlex, sys; print(shlex.join(json.loads(sys.argv[1])))' "$rest")" ;;
        *) die "unknown step: $word" ;;
    esac
done <"$TOP/Dockerfile"
for root in "${stages[@]}"; do as_root rm -rf "$root"; done
echo "the steps of Dockerfile: passed"
