#!/usr/bin/env bash
# ci/neighbours.sh [LABEL] [NAME...]: pg_lean's libraries together with other libraries
# that also take part in planning and executing, loaded before and after them.  The output of a
# battery of statements must be the same as on a server without them, and
# no process may die.  Debian's packages for that server (default: host, see ci/lib.sh)
# are installed if they can be had; "replicators" runs the test of pglogical and wal2json,
# "repack" that of pg_repack, "auditors" that of recycled_temp with pgaudit and pgtt; SRC=FOLDER_OR_ARCHIVE is pg_tracing's source, or a
# folder with its archive.  What could not be tried is said at the end.
. "$(dirname "$0")/lib.sh"

# plpgsql_check is without its profiler, below which EXECUTE in a trigger finds no
# transition table, with our libraries or without.  A library that refuses to be loaded
# before sessions (pgtt) comes with them, which is after ours.  pg_plan_advice and
# pg_stash_advice come with the server since 19.
#
# name of the library, package (PGV is the major version), library that it needs before it, settings
neighbours() {
    cat <<'END'
pg_stat_statements - - pg_stat_statements.track=all
auto_explain - - auto_explain.log_min_duration=0 auto_explain.log_analyze=on auto_explain.log_buffers=on auto_explain.log_nested_statements=on
pg_overexplain - -
auth_delay - - auth_delay.milliseconds=1
passwordcheck - -
pg_wait_sampling postgresql-PGV-pg-wait-sampling -
pg_stat_kcache postgresql-PGV-pg-stat-kcache pg_stat_statements
pg_qualstats postgresql-PGV-pg-qualstats - pg_qualstats.sample_rate=1
powa postgresql-PGV-powa pg_stat_statements
pgsentinel postgresql-PGV-pgsentinel pg_stat_statements
pg_show_plans postgresql-PGV-show-plans -
pg_hint_plan postgresql-PGV-pg-hint-plan - pg_hint_plan.debug_print=on
pg_plan_advice - - pg_plan_advice.always_store_advice_details=on
pg_stash_advice - pg_plan_advice pg_stash_advice.stash_name=neighbours
hypopg postgresql-PGV-hypopg -
plprofiler postgresql-PGV-plprofiler -
plpgsql_check postgresql-PGV-plpgsql-check -
plugin_debugger postgresql-PGV-pldebugger -
omnidb_plugin postgresql-PGV-omnidb -
pgaudit postgresql-PGV-pgaudit - pgaudit.log=all
pgauditlogtofile postgresql-PGV-pgauditlogtofile pgaudit pgaudit.log=all
set_user postgresql-PGV-set-user -
pgextwlist postgresql-PGV-pgextwlist - extwlist.extensions=light_explain,parallel_temp,appendable_bytea,ram_tablespace
credcheck postgresql-PGV-credcheck -
pg_cron postgresql-PGV-cron - cron.database_name=postgres
pglogical postgresql-PGV-pglogical - wal_level=logical
pg_squeeze postgresql-PGV-squeeze - wal_level=logical
pgautofailover postgresql-PGV-auto-failover -
pg_ivm postgresql-PGV-pg-ivm -
pgtt postgresql-PGV-pgtt - session_preload_libraries=pgtt
age postgresql-PGV-age -
hll postgresql-PGV-hll -
unit postgresql-PGV-unit -
timescaledb postgresql-PGV-timescaledb - timescaledb.telemetry_level=off
pg_tracing source - pg_tracing.sample_rate=1
END
}

# add_package PACKAGE: install it where that server is, if it is available.
add_package() {
    case $label in
        host | *-assert) (packages "$1") >/dev/null 2>&1 || true ;;
        *) in_root "$label" root "[ -n '${lists_read:-}' ] || apt-get -o Acquire::Check-Valid-Until=false update; apt-get install -y --no-install-recommends $1" </dev/null >/dev/null 2>&1 || true
            lists_read=1 ;;
    esac
}

# skip NAME WHY: it could not be tried.
skip() {
    say "$1 is not tried: $2"
    rows+=("$(printf '%-20s %s' "$1" "not tried: $2")") skipped=$((skipped + 1))
}

# hooks_of NAME: how many of the server's hooks a library takes, as its symbols say.
hooks_of() {
    on_bare "$label" "nm -D --undefined-only $libraries/$1.so 2>/dev/null" | grep -oE '[A-Za-z_]+_hook$' | sort -u | wc -l || true
}

# on_bare LABEL COMMAND: run it where that server is, which needs no work tree there.
on_bare() {
    case $1 in host | *-assert) sh -ec "$2" ;; *) in_root "$1" root "$2" ;; esac
}

label=host
if [[ ${1:-} =~ ^(host|[0-9]+(-assert)?)$ ]]; then label=$1; shift; fi
"$TOP/ci/server.sh" "$label"
pg_config=$(pg_config_of "$label")
bin=$(on_bare "$label" "$pg_config --bindir")
libraries=$(on_bare "$label" "$pg_config --pkglibdir")
major=$(on_bare "$label" "$pg_config --version" | sed 's/[^0-9]*\([0-9]*\).*/\1/')
# shellcheck disable=SC2086
copy_tree "$label" ci common $EXTENSIONS $UNSHIPPED
for ext in $EXTENSIONS; do
    on "$label" server "make -s -j2 -C $ext PG_CONFIG=$pg_config all" >/dev/null
    on "$label" root "make -s -C $ext PG_CONFIG=$pg_config install" >/dev/null
done
on "$label" server "make -s -C light_explain PG_CONFIG=$pg_config test/custom/light_test_custom.so" >/dev/null

# the folder of all of this, as seen from here and by the server
base=$(work_of "$label")/neighbours
seen=$(seen_work_of "$label")/neighbours
ours=parallel_temp,appendable_bytea,light_explain,ram_tablespace
as_root rm -rf "$base" # also what a source that may not be written left there
on "$label" server "mkdir neighbours"
trap 'on "$label" server "rm -rf neighbours/data neighbours/template"' EXIT

perl "$TOP/ci/neighbours.pl" "$(seen_work_of "$label")/light_explain/test/custom/light_test_custom.so" | as_root tee "$base/whole.sql" >/dev/null
perl "$TOP/ci/neighbours.pl" "$(seen_work_of "$label")/light_explain/test/custom/light_test_custom.so" fragile | as_root tee "$base/fragile.sql" >/dev/null
on "$label" server "$bin/initdb -D $seen/template -A trust -N --locale=C -E UTF8 >$seen/initdb.log"

# run NAME LIBRARIES SCRIPT SETTING...: what a battery prints, to NAME.out.  Fails if
# a process died.
run() {
    local name=$1 preload=$2 script=$3 extras="${2//,/ }" s
    shift 3
    for s in "$@"; do case $s in session_preload_libraries=*) extras+=" ${s#*=}" ;; esac; done
    {
        echo "shared_preload_libraries = '$preload'"
        echo "listen_addresses = ''"
        printf '%s\n' "autovacuum = off" "fsync = off" "jit = off" "compute_query_id = on" "max_worker_processes = 16" "restart_after_crash = off"
        case $preload in *light_explain*) echo "light_explain.profile = on" ;; esac
        for s in "$@"; do echo "${s%%=*} = '${s#*=}'"; done
    } | as_root tee "$base/settings.conf" >/dev/null
    # a socket's path may have no more than 107 characters
    on "$label" server "
        cd $seen
        rm -rf data
        cp -a template data
        sockets=\$(mktemp -d -p /tmp)
        trap '$bin/pg_ctl -D data -m immediate -w stop >/dev/null 2>&1; rm -rf \$sockets' EXIT
        trap 'exit 1' INT TERM
        cat settings.conf >>data/postgresql.conf
        echo \"unix_socket_directories = '\$sockets'\" >>data/postgresql.conf
        $bin/pg_ctl -D data -l $name.log -w start >/dev/null 2>&1 || { echo 'the server does not start' >$name.out; exit 1; }
        ask() { $bin/psql -XqAt -h \$sockets -d postgres \"\$@\"; }
        for extra in $extras; do
            ask -c 'SET client_min_messages = error' -c \"CREATE EXTENSION IF NOT EXISTS \$extra\" >/dev/null 2>&1 || true
        done
        ask -c 'DROP EXTENSION IF EXISTS light_explain, parallel_temp, appendable_bytea, ram_tablespace' >/dev/null 2>&1 || true
        ask <$script >$name.out 2>&1 || true" || return 1
    ! grep -E 'TRAP:|PANIC:|terminated by signal [0-9]' "$base/$name.log"
}

run none "$ours" whole.sql || die "the battery fails without any other library: see $base/none.log"
run none-fragile "$ours" fragile.sql || die "the battery fails without any other library: see $base/none-fragile.log"
# same_in SCRIPT FILE: how many statements have the server's counters in the output of a
# script, which must be all that it has.
same_in() {
    local same
    same=$(grep -cE '^[0-9]+ same$' "$2" || true)
    [ "$same" = "$(grep -cE "^SELECT '[0-9]+ ' \|\|" "$1" || true)" ] || die "counters differ without any other library, or are missing: see $2"
    [ "$same" -gt 0 ] || die "the battery does not run: see $2"
    echo "$same"
}
same=$(same_in "$base/whole.sql" "$base/none.out")
outside=$(same_in "$base/fragile.sql" "$base/none-fragile.out")

# with_library NAME LIBRARY SCRIPT REFERENCE SETTING...: both load orders.
rows=()
good=0 bad=0 skipped=0
with_library() {
    local name=$1 library=$2 script=$3 reference=$4 order before results=()
    shift 4
    for order in first last; do
        if [[ " $* " == *" session_preload_libraries="* ]]; then
            before=$ours
            [ "$order" = last ] || { results+=("not tried") && continue; }
        elif [ "$order" = first ]; then before="$library,$ours"
        else before="$ours,$library"; fi
        # plprofiler keeps requests for locks from libraries before it, so that no server
        # starts that has pg_stat_statements or appendable_bytea there
        [ "$before" != "$ours,plprofiler" ] || before=parallel_temp,light_explain,ram_tablespace,plprofiler,appendable_bytea
        if run "$name-$order" "$before" "$script" "$@" && cmp -s "$base/$reference.out" "$base/$name-$order.out"; then
            results+=(equal) && good=$((good + 1))
        else
            results+=(DIFFERENT) && bad=$((bad + 1))
            diff "$base/$reference.out" "$base/$name-$order.out" | head -n 20 >&2 || true
        fi
    done
    rows+=("$(printf '%-20s %-10s %-10s %s' "$name" "${results[@]}" "$taken")")
}

while read -r name package needs settings <&3; do
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    say "with $name"
    library=$name reference=none taken=
    case $package in
        source)
            # crashes by itself where a function runs EXPLAIN (the battery's first statement)
            # and in a parallel sort: all of the battery that is outside of functions and serial
            reference=none-fragile
            taken="$outside statements"
            if [ -z "${SRC:-}" ]; then
                skip "$name" 'no source was given (SRC=...)'
                continue
            fi
            add_package libcurl4-openssl-dev
            as_root mkdir -p "$base/source"
            if [ -d "$SRC" ] && [ ! -e "$SRC/Makefile" ]; then
                archive=$(find "$SRC/" -maxdepth 1 -name "$name*.tar*" | sort | tail -n 1)
                [ -z "$archive" ] || SRC=$archive
            fi
            if [ -d "$SRC" ]; then (cd "$SRC" && tar -cf - .) | as_root tar -xf - -C "$base/source"; else as_root tar -xf "$SRC" -C "$base/source"; fi
            as_root chown -R --reference="$base" "$base/source"
            makefile=$(find "$base/source" -maxdepth 2 -name Makefile -printf '%d %P\n' | sort -n | sed -n '1s/^[0-9]* //p')
            if [ -z "$makefile" ]; then
                skip "$name" "$SRC is not its source"
                continue
            fi
            # warnings about a libcurl that is newer than it have another cause
            as_root find "$base/source" -name Makefile -exec sed -i 's/-Werror//g' {} +
            if ! on "$label" server "make -s -C neighbours/source/$(dirname "$makefile") PG_CONFIG=$pg_config with_llvm=no all >neighbours/source.log 2>&1"; then
                tail -n 20 "$base/source.log" >&2
                skip "$name" "it does not build here: see $base/source.log"
                continue
            fi
            library=$seen/source/$(find "$base/source" -name "$name.so" -printf '%P\n' | head -n 1)
            ;;
        *)
            there() { on_bare "$label" "test -e $libraries/$name.so"; }
            if [ "$package" != - ] && [[ $label != *-assert ]] && ! there; then
                add_package "${package/PGV/$major}"
            fi
            if ! there; then
                skip "$name" 'not available for this server'
                continue
            fi
            taken="$(hooks_of "$name") hooks"
            ;;
    esac
    script=whole.sql
    [ "$reference" = none ] || script=fragile.sql
    [ "$needs" = - ] || library=$needs,$library
    # shellcheck disable=SC2086
    with_library "$name" "$library" "$script" "$reference" $settings
done 3< <(neighbours)

# special NAME EXTENSION TEST LIBRARY...: one of our tests that needs other libraries; it leaves out
# parts whose library cannot be installed.
special() {
    local part=$1 ext=$2 test=$3 library found=0
    shift 3
    say "$part"
    for library in "$@"; do
        [[ $label == *-assert ]] || on_bare "$label" "test -e $libraries/$library.so" || add_package "postgresql-$major-${library#pg_}"
        if on_bare "$label" "test -e $libraries/$library.so"; then found=$((found + 1))
        else skip "$library" 'not available for this server'; fi
    done
    [ "$found" -gt 0 ] || return 0
    if on "$label" server "make -s -C $ext PG_CONFIG=$pg_config installcheck REGRESS= ISOLATION= PROVE_TESTS=$test >$seen/$part.log 2>&1"; then
        good=$((good + 1))
    else
        bad=$((bad + 1))
        tail -n 40 "$base/$part.log" >&2
    fi
}
if [ $# -eq 0 ] || [[ " $* " == *" replicators "* ]]; then
    special replicators appendable_bytea test/t/022_replicators.pl pglogical wal2json
fi
if [ $# -eq 0 ] || [[ " $* " == *" repack "* ]]; then
    special repack appendable_bytea test/t/024_repack.pl pg_repack
fi
if [ $# -eq 0 ] || [[ " $* " == *" auditors "* ]]; then
    on "$label" server "make -s -j2 -C recycled_temp PG_CONFIG=$pg_config all" >/dev/null
    on "$label" root "make -s -C recycled_temp PG_CONFIG=$pg_config install" >/dev/null
    special auditors recycled_temp test/t/auditors.pl pgaudit pgtt
fi

printf '%-20s %-10s %-10s\n' "PostgreSQL $label" 'loaded before' 'loaded after'
printf '%s\n' "${rows[@]}"
echo "neighbours: $good equal, $bad different, $skipped not tried; $same statements of light_explain's battery each, or as many as are stated"
[ "$bad" = 0 ] && [ "$good" -gt 0 ]
