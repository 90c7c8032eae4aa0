#!/usr/bin/env bash
# ci/suites.sh [LABEL] [NAME...]: the regression suites of extensions of others that take
# part in planning and executing, from their source packages in Debian, once on a server
# with their libraries alone and once with pg_lean's as well, its features forced on (the
# extensions' test/core.conf).  The outputs must be the same; whether they are what the
# suite expects is not asked, for it may expect another server.  A test whose output differs
# between two runs without pg_lean is left out and listed.  LABEL: see ci/lib.sh (default
# 17); extensions without a package for that server are listed.  SRC=FOLDER has
# sources of some of them, in folders with the names of their libraries, for mirrors
# that have no source packages.
. "$(dirname "$0")/lib.sh"

# name of the library, package (PGV is the major version; - is a module of PostgreSQL's own),
# libraries to preload (-: none), where the suite is in its source, settings
suites() {
    cat <<'END'
pg_stat_statements - pg_stat_statements contrib/pg_stat_statements
auto_explain - auto_explain contrib/auto_explain
pg_wait_sampling postgresql-PGV-pg-wait-sampling pg_wait_sampling .
pg_stat_kcache postgresql-PGV-pg-stat-kcache pg_stat_statements,pg_stat_kcache .
pg_qualstats postgresql-PGV-pg-qualstats pg_stat_statements,pg_qualstats . pg_qualstats.sample_rate=1
hypopg postgresql-PGV-hypopg hypopg .
plprofiler postgresql-PGV-plprofiler plprofiler .
plpgsql_check postgresql-PGV-plpgsql-check plpgsql,plpgsql_check .
pgaudit postgresql-PGV-pgaudit pgaudit .
set_user postgresql-PGV-set-user set_user .
pgextwlist postgresql-PGV-pgextwlist pgextwlist .
hll postgresql-PGV-hll hll .
unit postgresql-PGV-unit unit .
orafce postgresql-PGV-orafce orafce .
periods postgresql-PGV-periods periods .
pg_hint_plan postgresql-PGV-pg-hint-plan pg_hint_plan .
pg_show_plans postgresql-PGV-show-plans pg_show_plans .
credcheck postgresql-PGV-credcheck credcheck .
pgtt postgresql-PGV-pgtt - . session_preload_libraries=pgtt
age postgresql-PGV-age age .
rum postgresql-PGV-rum rum .
pg_cron postgresql-PGV-cron pg_cron . cron.database_name=contrib_regression
END
}

label=17
if [[ ${1:-} =~ ^(host|[0-9]+(-assert)?)$ ]]; then label=$1; shift; fi
"$TOP/ci/server.sh" "$label"
pg_config=$(pg_config_of "$label")
# on_bare COMMAND: run it where that server is, as root, which needs no work tree there.
on_bare() {
    case $label in host | *-assert) sh -ec "$1" ;; *) in_root "$label" root "$1" ;; esac
}
libraries=$(on_bare "$pg_config --pkglibdir")
bin=$(on_bare "$pg_config --bindir")
major=$(on_bare "$pg_config --version" | sed 's/[^0-9]*\([0-9]*\).*/\1/')
# shellcheck disable=SC2086
copy_tree "$label" ci common $EXTENSIONS
for ext in $EXTENSIONS; do
    on "$label" server "make -s -j2 -C $ext PG_CONFIG=$pg_config all" >/dev/null
    on "$label" root "make -s -C $ext PG_CONFIG=$pg_config install" >/dev/null
done
work=$(work_of "$label")/suites
seen=$(seen_work_of "$label")/suites
as_root rm -rf "$work"
on "$label" server "mkdir suites"
ours=$(echo "$EXTENSIONS" | tr ' ' ,)

rows=()
equal=0 bad=0 skipped=0
# skip NAME WHY
skip() {
    say "$1 is not tried: $2"
    rows+=("$(printf '%-20s %s' "$1" "not tried: $2")") skipped=$((skipped + 1))
}

# run NAME WAY LIBRARIES: the suite, its outputs to NAME/WAY/results.  Fails if a process
# died.  A socket's path may have no more than 107 characters.
run() {
    local name=$1 way=$2 ext
    {
        cat "$work/$name/theirs.conf"
        echo "shared_preload_libraries = '$3'"
        if [ "$way" = loaded ]; then for ext in $EXTENSIONS; do cat "$TOP/$ext/test/core.conf"; done; fi
    } | as_root tee "$work/$name/$way.conf" >/dev/null
    on "$label" server "
        export LC_ALL=C PATH=$bin:\$PATH
        mkdir -p $seen/$name/$way
        cp -r $seen/$name/source/. $seen/$name/$way/
        cd $seen/$name/$way
        timeout 600 \$(dirname \$($pg_config --pgxs))/../test/regress/pg_regress --inputdir=$inputs --bindir=$bin --temp-instance=$seen/$name/$way.instance \
            --temp-config=$seen/$name/$way.conf --no-locale --encoding=UTF8 $options $tests" >"$work/$name/$way.log" 2>&1 || true
    # one that was given up leaves its server
    on "$label" server "$bin/pg_ctl -D $seen/$name/$way.instance/data -m immediate -w stop >/dev/null 2>&1 || true
        cat $seen/$name/$way/log/postmaster.log $seen/$name/$way.instance/log/postmaster.log 2>/dev/null || true
        rm -rf $seen/$name/$way.instance" >"$work/$name/$way.server.log"
    ! grep -E 'TRAP:|PANIC:|terminated by signal [0-9]' "$work/$name/$way.server.log"
}

# once FILE: an output in which pg_hint_plan's log of the hints of a statement stands once, and no error is a worker's.
# The log has the hints of each planner run, and parallel_temp plans a statement with a hint twice if it reads temporary
# tables (its reference says so); whether leader or worker meets an error first is chance (AGE has such errors).
once() { sed '/^CONTEXT:  parallel worker$/d' "$1" | awk 'BEGIN { RS = ""; ORS = "\n\n" } !(/^LOG:  pg_hint_plan:/ && substr(last, length(last) - length($0) + 1) == $0) { print } { last = $0 }'; }

# differing NAME WAY OTHER: the tests whose outputs are not the same
differing() {
    local f
    for f in "$work/$1/$2"/results/*.out; do
        cmp -s <(once "$f") <(once "$work/$1/$3/results/$(basename "$f")") || basename "$f" .out
    done
}

while read -r name package preload folder settings <&3; do
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    say "the suite of $name on PostgreSQL $label"
    [ "$preload" != - ] || preload=
    if [ "$package" = - ]; then source=$("$TOP/ci/source.sh" "$major") || source=
    else
        package=${package/PGV/$major}
        there() { on_bare "test -e $libraries/$name.so"; }
        if ! there && [[ $label =~ ^[0-9]+$ ]]; then
            in_root "$label" root "[ -n '${lists_read:-}' ] || apt-get -o Acquire::Check-Valid-Until=false update; apt-get install -y --no-install-recommends $package" </dev/null >/dev/null 2>&1 || true
            lists_read=1
        elif ! there; then (packages "$package") >/dev/null 2>&1 || true; fi
        if ! there; then
            skip "$name" 'not available for this server'
            continue
        fi
        if [ -d "${SRC:-/dev/null}/$name" ]; then source=$SRC/$name
        else source=$("$TOP/ci/source.sh" "$major" "$package" 2>/dev/null) || source=; fi
    fi
    if [ ! -e "$source/$folder/Makefile" ]; then
        skip "$name" 'its source is not available'
        continue
    fi
    as_root mkdir -p "$work/$name"
    as_root cp -r "$source/$folder" "$work/$name/source"
    as_root chown -R --reference="$work" "$work/$name"
    # what its own makefile says of the suite
    asked() { on "$label" server "cd $seen/$name/source && make -s USE_PGXS=1 PG_CONFIG=$pg_config --eval 'asked: ; @echo \$($1)' asked 2>/dev/null" | tail -n 1; }
    tests=$(asked REGRESS)
    options=$(asked REGRESS_OPTS)
    if [ -z "$tests" ] && [[ $options != *--schedule* ]]; then
        skip "$name" 'it has no tests of pg_regress'
        continue
    fi
    conf=$(sed -nE 's/.*--temp-config[= ]*([^ ]+).*/\1/p' <<<"$options")
    inputs=$(sed -nE 's/.*--inputdir[= ]*([^ ]+).*/\1/p' <<<"$options")
    inputs=${inputs:-.}
    options=$(sed -E 's/--(temp-config|temp-instance|inputdir|outputdir|port)[= ]*[^ ]+//g' <<<"$options")
    [[ $options == *--dbname* ]] || options+=" --dbname=contrib_regression"
    # their settings, except the libraries and those that pg_regress sets
    {
        if [ -n "$conf" ]; then cat "$work/$name/source/${conf##*"$folder/"}" 2>/dev/null || cat "$work/$name/source/$conf" 2>/dev/null || true; fi | grep -v '^ *shared_preload_libraries' || true
        printf '%s\n' "fsync = off" "max_worker_processes = 16"
        for s in $settings; do echo "${s%%=*} = '${s#*=}'"; done
    } | as_root tee "$work/$name/theirs.conf" >/dev/null
    died=
    run "$name" bare "$preload" || died="without ours a process died"
    if [ -z "$(ls "$work/$name/bare/results" 2>/dev/null)" ]; then
        tail -n 5 "$work/$name/bare.log" >&2
        skip "$name" 'its suite does not run here'
        continue
    fi
    run "$name" loaded "${preload:+$preload,}$ours" || died=${died:-DIED}
    n=$(find "$work/$name/bare/results" -name '*.out' | wc -l)
    mapfile -t wrong < <(differing "$name" bare loaded)
    unstable=()
    if [ ${#wrong[@]} -gt 0 ]; then
        run "$name" again "$preload" || true
        mapfile -t unstable < <(differing "$name" bare again)
        mapfile -t wrong < <(printf '%s\n' "${wrong[@]}" | grep -vxF "$(printf '%s\n' "${unstable[@]:-/}")" || true)
    fi
    passed=$(grep -cE '^(ok [0-9]|test .* ok|     .* ok)' "$work/$name/bare.log" || true)
    said="$((n - ${#unstable[@]} - ${#wrong[@]})) of $n outputs, $passed as its authors expect"
    [ "$died" != "without ours a process died" ] || said+="; a process died without ours too"
    [ ${#unstable[@]} = 0 ] || said+="; never the same without ours either: ${unstable[*]}"
    if [ "$died" = DIED ] || [ ${#wrong[@]} -gt 0 ]; then
        bad=$((bad + 1))
        rows+=("$(printf '%-20s %s' "$name" "DIFFERENT ${wrong[*]}: $said")")
        for t in "${wrong[@]}"; do diff -U3 "$work/$name/bare/results/$t.out" "$work/$name/loaded/results/$t.out" | head -n 60 >&2 || true; done
    else
        equal=$((equal + 1))
        rows+=("$(printf '%-20s %s' "$name" "equal: $said")")
    fi
done 3< <(suites)

printf '%s\n' "${rows[@]}"
echo "suites: $equal equal, $bad different, $skipped not tried on PostgreSQL $major"
[ "$bad" = 0 ] && [ "$equal" -gt 0 ]
