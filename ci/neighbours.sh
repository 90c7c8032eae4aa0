#!/usr/bin/env bash
# ci/neighbours.sh [NEIGHBOUR...]: pg_lean's libraries beside libraries of others that
# take part in planning and executing too, loaded before and after them.  What a
# battery of statements prints must be what it prints on a server without them, and
# no process may die.  Debian's packages for the server of PG_CONFIG are installed if
# they can be had; SRC=FOLDER_OR_ARCHIVE is pg_tracing's source.
. "$(dirname "$0")/lib.sh"

# name, package (PGV is the major version), settings
neighbours() {
    cat <<'END'
pg_stat_statements - pg_stat_statements.track=all
auto_explain - auto_explain.log_min_duration=0 auto_explain.log_analyze=on auto_explain.log_buffers=on auto_explain.log_nested_statements=on
pg_wait_sampling postgresql-PGV-pg-wait-sampling -
pg_stat_kcache postgresql-PGV-pg-stat-kcache -
pg_qualstats postgresql-PGV-pg-qualstats pg_qualstats.sample_rate=1
plprofiler postgresql-PGV-plprofiler -
pgaudit postgresql-PGV-pgaudit pgaudit.log=all
hypopg postgresql-PGV-hypopg -
pg_tracing source pg_tracing.sample_rate=1
END
}

"$TOP/ci/server.sh" host
pg_config=$(pg_config_of host)
bin=$("$pg_config" --bindir)
libraries=$("$pg_config" --pkglibdir)
major=$("$pg_config" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
"$TOP/ci/install.sh"
copy_tree host ci light_explain common
work=$(work_of host)
on host server "make -s -C light_explain PG_CONFIG=$pg_config test/custom/light_test_custom.so" >/dev/null

base=$BUILD/neighbours
as_root rm -rf "$base"
as_root mkdir -p "$base"
as_root chown "$SERVER_USER" "$base"
# a socket's path may have no more than 107 characters
sockets=$(as_server mktemp -d /tmp/pgl.XXXXXX)
ours=parallel_temp,appendable_bytea,light_explain
running=
stop() { [ -z "$running" ] || as_server "$bin/pg_ctl" -D "$base/data" -m immediate -w stop >/dev/null 2>&1 || true; running=; }
trap 'stop; as_root rm -rf "$sockets" "$base/data" "$base/template"' EXIT

as_server perl "$work/ci/neighbours.pl" "$work/light_explain/test/custom/light_test_custom.so" | as_server tee "$base/whole.sql" >/dev/null
as_server perl "$work/ci/neighbours.pl" - fragile | as_server tee "$base/fragile.sql" >/dev/null
cd "$base"
as_server "$bin/initdb" -D "$base/template" -A trust -N --locale=C -E UTF8 >"$base/initdb.log"

# run NAME LIBRARIES SCRIPT SETTING...: what a battery prints, to NAME.out.  Fails if
# a process died.
run() {
    local name=$1 preload=$2 script=$3 extra s
    shift 3
    as_server rm -rf "$base/data"
    as_server cp -a "$base/template" "$base/data"
    {
        echo "shared_preload_libraries = '$preload'"
        echo "listen_addresses = ''"
        echo "unix_socket_directories = '$sockets'"
        printf '%s\n' "autovacuum = off" "fsync = off" "jit = off" "compute_query_id = on" "max_worker_processes = 16" "restart_after_crash = off"
        case $preload in *light_explain*) echo "light_explain.profile = on" ;; esac
        for s in "$@"; do [ "$s" = - ] || echo "${s%%=*} = '${s#*=}'"; done
    } | as_server tee -a "$base/data/postgresql.conf" >/dev/null
    as_server "$bin/pg_ctl" -D "$base/data" -l "$base/$name.log" -w start >/dev/null 2>&1 || { echo "the server does not start" | as_server tee "$base/$name.out"; return 1; }
    running=1
    for extra in ${preload//,/ }; do
        as_server "$bin/psql" -XqAt -h "$sockets" -d postgres -c "SET client_min_messages = error" -c "CREATE EXTENSION IF NOT EXISTS $extra" >/dev/null 2>&1 || true
    done
    as_server "$bin/psql" -XqAt -h "$sockets" -d postgres -c "DROP EXTENSION IF EXISTS light_explain, parallel_temp, appendable_bytea" >/dev/null 2>&1 || true
    as_server sh -c '"$1/psql" -XqAt -h "$2" -d postgres <"$3" >"$4" 2>&1' run "$bin" "$sockets" "$script" "$base/$name.out" || true
    stop
    ! grep -E 'TRAP:|PANIC:|terminated by signal [0-9]' "$base/$name.log"
}

run none "$ours" "$base/whole.sql" || die "the battery fails without any neighbour: see $base/none.log"
run none-fragile "$ours" "$base/fragile.sql" || die "the battery fails without any neighbour: see $base/none-fragile.log"
grep -q '^0 same$' "$base/none.out" || die "the battery does not run: see $base/none.out"
differing=$(grep -cE '^[0-9]+ ' "$base/none.out" || true)
same=$(grep -cE '^[0-9]+ same$' "$base/none.out" || true)
[ "$differing" = "$same" ] || die "figures differ without any neighbour: see $base/none.out"

# beside NAME LIBRARY SCRIPT REFERENCE SETTING...: both load orders.
rows=()
good=0 bad=0 skipped=0
beside() {
    local name=$1 library=$2 script=$3 reference=$4 order before=() results=()
    shift 4
    for order in first last; do
        if [ "$order" = first ]; then before="$library,$ours"; else before="$ours,$library"; fi
        # plprofiler keeps requests for locks from libraries before it, so that no server
        # starts that has pg_stat_statements or appendable_bytea there
        [ "$before" != "$ours,plprofiler" ] || before=parallel_temp,light_explain,plprofiler,appendable_bytea
        if run "$name-$order" "$before" "$script" "$@" && cmp -s "$base/$reference.out" "$base/$name-$order.out"; then
            results+=(equal) && good=$((good + 1))
        else
            results+=(DIFFERENT) && bad=$((bad + 1))
            diff "$base/$reference.out" "$base/$name-$order.out" | head -n 20 >&2 || true
        fi
    done
    rows+=("$(printf '%-20s %-10s %-10s' "$name" "${results[@]}")")
}

while read -r name package settings; do
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    say "beside $name"
    library=$name reference=none
    case $package in
        source)
            # crashes in functions, cursors and parallel hash joins by itself
            reference=none-fragile
            if [ -z "${SRC:-}" ]; then
                rows+=("$(printf '%-20s %s' "$name" 'skipped: no source given')") skipped=$((skipped + 1))
                continue
            fi
            mkdir -p "$base/source" 2>/dev/null || as_root mkdir -p "$base/source"
            if [ -d "$SRC" ]; then (cd "$SRC" && tar -cf - .) | as_root tar -xf - -C "$base/source"; else as_root tar -xf "$SRC" -C "$base/source"; fi
            as_root chown -R "$SERVER_USER" "$base/source"
            makefile=$(find "$base/source" -maxdepth 2 -name Makefile -printf '%d %p\n' | sort -n | sed -n '1s/^[0-9]* //p')
            as_server make -s -C "$(dirname "$makefile")" PG_CONFIG="$pg_config" with_llvm=no all >"$base/source.log" 2>&1 ||
                { tail -n 20 "$base/source.log" >&2; die "$name does not build: see $base/source.log"; }
            library=$(find "$base/source" -name "$name.so" | head -n 1)
            ;;
        *)
            if [ ! -e "$libraries/$name.so" ] && [ "$package" != - ]; then
                (packages "${package/PGV/$major}") >/dev/null 2>&1 || true
            fi
            if [ ! -e "$libraries/$name.so" ]; then
                rows+=("$(printf '%-20s %s' "$name" 'skipped: not to be had for this server')") skipped=$((skipped + 1))
                continue
            fi
            ;;
    esac
    script=$base/whole.sql
    [ "$reference" = none ] || script=$base/fragile.sql
    [ "$name" != pg_stat_kcache ] || library=pg_stat_statements,pg_stat_kcache
    # shellcheck disable=SC2086
    beside "$name" "$library" "$script" "$reference" $settings
done < <(neighbours)

printf '%-20s %-10s %-10s\n' "PostgreSQL $major" 'loaded before' 'loaded after'
printf '%s\n' "${rows[@]}"
echo "neighbours: $good equal, $bad different, $skipped skipped; $same statements of light_explain's battery each"
[ "$bad" = 0 ] && [ "$good" -gt 0 ]
