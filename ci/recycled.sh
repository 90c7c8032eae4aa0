#!/usr/bin/env bash
# ci/recycled.sh [CYCLES]: instructions of CREATE TEMP TABLE and DROP TABLE without and
# with recycled_temp, counted by valgrind's callgrind in a single-user server: the
# statements and their commits, the mean of so many cycles (40) after as many that fill caches.
# CASES="text key" counts these only; a table of "unpooled" is never kept.  The first case is a session that creates and drops one
# table: what it costs more than a session without a statement, including the end.
# The library must be installed in the server of PG_CONFIG.  LABEL=18 runs all of it in that
# server's root (see ci/lib.sh), for which it installs the library and valgrind there.
. "$(dirname "$0")/lib.sh"

cycles=${1:-40}
warm=40
if [ "${LABEL:-host}" != host ]; then
    "$TOP/ci/server.sh" "$LABEL"
    pg_config=$(pg_config_of "$LABEL")
    copy_tree "$LABEL" ci common recycled_temp
    on "$LABEL" server "make -s -C recycled_temp PG_CONFIG=$pg_config all" >&2
    on "$LABEL" root "make -s -C recycled_temp PG_CONFIG=$pg_config install" >&2
    in_root "$LABEL" root "command -v valgrind >/dev/null || apt-get install -y -qq --no-install-recommends valgrind libc6-dbg" </dev/null >&2
    on "$LABEL" server "LABEL=host CASES='${CASES:-}' PG_CONFIG=$pg_config ci/recycled.sh $cycles"
    exit
fi
command -v valgrind >/dev/null || die "valgrind is not installed"
bindir=$("${PG_CONFIG:-pg_config}" --bindir)
work=$(mktemp -d -p "$BUILD")
chmod 755 "$work"
[ "$(id -u)" != 0 ] || chown "$SERVER_USER" "$work"
trap 'rm -rf "$work"' EXIT
as_server "$bindir/initdb" -D "$work/data" -A trust --no-sync >"$work/initdb.log" 2>&1 || die "initdb failed: $(tail -n 3 "$work/initdb.log")"

twenty=$(seq -s ', ' -f 'c%g int' 20)
declare -A statements=(
    [integers]="CREATE TEMP TABLE t (a int, b int, c int, d int)"
    [text]="CREATE TEMP TABLE t (a int, b int, c int, d text)"
    [twenty]="CREATE TEMP TABLE t ($twenty)"
    [select]="CREATE TEMP TABLE t AS SELECT 1 AS a, 2 AS b, 3 AS c, 'x'::text AS d"
    [key]="CREATE TEMP TABLE t (a int PRIMARY KEY, b int, c int, d int)"
    [index]="CREATE TEMP TABLE t (a int, b int, c int, d text)|CREATE INDEX ON t (a)"
    [default]="CREATE TEMP TABLE t (a int DEFAULT 1, b int, c int, d int)"
    [unpooled]="CREATE TEMP TABLE t (a int CHECK (a > 0), b int, c int, d text)"
    [permanent]="CREATE TABLE t (a int, b int, c int, d int)"
    [other]="SELECT 1"
)
# run NAME COUNT FILE OPTION...: the statements so many times
run() {
    local i name=$1 count=$2 file=$3
    shift 3
    for ((i = 0; i < count; i++)); do
        tr '|' '\n' <<<"${statements[$name]}"
        [ "$name" = other ] || echo "DROP TABLE t"
    done | as_server valgrind --tool=callgrind --callgrind-out-file="$file" --collect-atstart=no \
        --toggle-collect=PortalRun --toggle-collect=CommitTransactionCommand \
        "$bindir/postgres" --single -D "$work/data" -c fsync=off -c shared_buffers=64MB -c autovacuum=off "$@" postgres >"$work/log" 2>&1 ||
        die "$(tail -n 5 "$work/log")"
}
total() { sed -n 's/^summary: //p;s/^totals: //p' "$1" | tail -n 1; }
# cost NAME OPTION...: instructions of one cycle
cost() {
    local name=$1
    shift
    run "$name" "$warm" "$work/few" "$@"
    run "$name" $((warm + cycles)) "$work/many" "$@"
    echo $((($(total "$work/many") - $(total "$work/few")) / cycles))
}
# whole COUNT OPTION...: instructions of a whole session with so many cycles
whole() {
    local count=$1
    shift
    for ((i = 0; i < count; i++)); do
        echo "${statements[text]}"
        echo "DROP TABLE t"
    done | as_server valgrind --tool=callgrind --callgrind-out-file="$work/whole" \
        "$bindir/postgres" --single -D "$work/data" -c fsync=off -c shared_buffers=64MB -c autovacuum=off "$@" postgres >"$work/log" 2>&1 ||
        die "$(tail -n 5 "$work/log")"
    total "$work/whole"
}
printf '%-10s %12s %12s %6s\n' statements without with ratio
pool=(-c shared_preload_libraries=recycled_temp -c recycled_temp.enabled=on)
for name in ${CASES:-session integers text twenty select key index default unpooled permanent other}; do
    if [ "$name" = session ]; then
        without=$(($(whole 1) - $(whole 0)))
        with=$(($(whole 1 "${pool[@]}") - $(whole 0 "${pool[@]}")))
    else
        without=$(cost "$name")
        with=$(cost "$name" "${pool[@]}")
    fi
    printf '%-10s %12d %12d %6s\n' "$name" "$without" "$with" "$(awk -v a="$with" -v b="$without" 'BEGIN { printf "%.2f", a / b }')"
done
