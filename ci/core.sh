#!/usr/bin/env bash
# ci/core.sh LABEL [SETTING...]: PostgreSQL's own regression suite, once on the
# bare server and once with every library of the project preloaded and its
# features forced on (the extensions' test/core.conf).  A difference between the
# two outputs of any test fails.  SETTINGs ("name = value") apply to both runs, with a
# "+" in front to the second one only.
# TESTS="test_setup temp ..." runs only these, for settings with which all take too long; BUT="join_hash ..." leaves these out.
# SUITE=18 takes the suite of that major version, for a server whose source is no longer offered (the archive
# removes that of a release candidate): the two runs are compared with each other, not with expected output.
# Installs the extensions (recycled_temp is none yet); BUILT=1 tests those that ci/check.sh installed before.
. "$(dirname "$0")/lib.sh"

[ $# -ge 1 ] || die "usage: ci/core.sh LABEL [SETTING...]"
label=$1
shift
major=${label%-assert}
[ "$label" = host ] && major=$("$(pg_config_of host)" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
suite=${SUITE:-$major}
source=$("$TOP/ci/source.sh" "$suite")
pg_config=$(pg_config_of "$label")
owner=$SERVER_USER
case $label in host | *-assert) ;; *) owner=$(in_root "$label" root 'id -u postgres') ;; esac
tag=$(printf '%s' "$*${TESTS:+ some}${BUT:+ but}" | tr -cs 'a-z0-9_=' '-')
logs=$BUILD/core/$label${tag:+-$tag}
rm -rf "$logs"
mkdir -p "$logs"
work=$(work_of "$label")/core
seen=$(seen_work_of "$label")/core
as_root rm -rf "$work"
as_root mkdir -p "$work"
as_root cp -r "$source/src/test/regress" "$work/regress"
# A scan on 19 pins one buffer more than on 18, where the test leaves just enough for it.
[ "$suite" = "$major" ] || as_root sed -i 's/^SELECT test_temp_pin(10, 94);/SELECT test_temp_pin(10, 93);/' "$work/regress/sql/temp.sql"
if [ -n "${TESTS:-}${BUT:-}" ]; then
    awk -v only=" ${TESTS:-} " -v but=" ${BUT:-} " '$1 == "test:" { line = ""
        for (i = 2; i <= NF; i++) if ((only == "  " || index(only, " " $i " ")) && !index(but, " " $i " ")) line = line " " $i
        if (line) print "test:" line }' "$source/src/test/regress/parallel_schedule" | as_root tee "$work/regress/parallel_schedule" >/dev/null
fi
{
    for setting in "$@"; do [[ "$setting" == +* ]] || echo "$setting"; done
    echo "fsync = off"
} | as_root tee "$work/bare.conf" >/dev/null
libraries=
# RECYCLED=1: with recycled_temp, which must be the first library and refuses to load on other versions;
# RECYCLED=only: with no other library
[[ " 15 16 17 18 19 " == *" $major "* ]] || RECYCLED=
[ "${RECYCLED:-}" != only ] || EXTENSIONS=
for ext in ${RECYCLED:+recycled_temp} $EXTENSIONS; do
    [ -e "$TOP/$ext/$ext.control" ] && libraries="$libraries${libraries:+,}$ext"
done
{
    cat "$work/bare.conf"
    for setting in "$@"; do [[ "$setting" != +* ]] || echo "${setting#+}"; done
    echo "shared_preload_libraries = '$libraries'"
    for ext in ${libraries//,/ }; do cat "$TOP/$ext/test/core.conf"; done
} | as_root tee "$work/loaded.conf" >/dev/null
as_root chown -R "$owner" "$work"

[ "${BUILT:-}" = 1 ] || "$TOP/ci/install.sh" "$label"
# regress.so and the two contrib modules that the suite loads from its own folder.
on "$label" server "cd $seen/regress
    gcc -shared -fPIC -O1 -w -I\$($pg_config --includedir-server) -o regress.so regress.c
    for m in refint autoinc; do cp \$($pg_config --pkglibdir)/\$m.so .; done"

run() {
    on "$label" server "
        export LC_ALL=C PATH=\$($pg_config --bindir):\$PATH
        mkdir -p $seen/$1/out $seen/$1/testtablespace && cd $seen/$1
        \$(dirname \$($pg_config --pgxs))/../test/regress/pg_regress --inputdir=$seen/regress --outputdir=$seen/$1/out --dlpath=$seen/regress \
            --bindir=\$($pg_config --bindir) --temp-instance=$seen/$1/instance --temp-config=$seen/$1.conf --no-locale --encoding=UTF8 \
            --max-concurrent-tests=20 --schedule=$seen/regress/parallel_schedule" >"$logs/$1.log" 2>&1 || true
    on "$label" server "cat $seen/$1/out/log/postmaster.log $seen/$1/instance/log/postmaster.log $seen/$1/log/postmaster.log 2>/dev/null || true" >"$logs/$1.server.log"
    if grep -qE 'TRAP:|PANIC:|was terminated by signal' "$logs/$1.server.log"; then
        grep -E 'TRAP:|PANIC:|was terminated by signal' "$logs/$1.server.log" | head >&2
        die "core's suite ($1) crashed PostgreSQL $label"
    fi
    # pg_regress says at its end how many tests there were
    grep -qE '^(1\.\.[0-9]+$| All [0-9]+ tests passed| [0-9]+ of [0-9]+ tests failed)' "$logs/$1.log" ||
        { tail -n 20 "$logs/$1.log" >&2; die "core's suite ($1) did not run to its end on PostgreSQL $label"; }
}

say "core's regression suite on PostgreSQL $label: bare ${*:+($*)}"
run bare
say "core's regression suite on PostgreSQL $label: with $libraries"
run loaded

# but_lists FILE: the output of psql's test without its lists of relations, in which
# tables that recycled_temp keeps are visible.
but_lists() {
    grep -vE '^ *(pg_temp_[0-9]+|tableam_display|Schema|List of [a-z ]+) *(\||$)|^[-+]+$|^\([0-9]+ rows?\)$|^-\[ RECORD|^(Name|Type|Owner|Persistence|Size|Description) +\|' "$1"
}

tests=0
different=()
for f in "$work"/bare/out/results/*.out; do
    tests=$((tests + 1))
    with=$work/loaded/out/results/$(basename "$f")
    cmp -s "$f" "$with" || { [ "$(basename "$f")" = psql.out ] && [[ ,$libraries, == *,recycled_temp,* ]] &&
        cmp -s <(but_lists "$f") <(but_lists "$with"); } || different+=("$(basename "$f" .out)")
done
for t in "${different[@]}"; do
    diff -U3 "$work/bare/out/results/$t.out" "$work/loaded/out/results/$t.out" >>"$logs/core.diffs" || true
done
if grep -hE 'WARNING: .*(leak|refcount|buffer)' "$logs/loaded.server.log" | head -n 3 >"$logs/leaks" && [ -s "$logs/leaks" ]; then
    cat "$logs/leaks" >&2
    different+=(leaks)
fi
[ ${#different[@]} -eq 0 ] || { head -n 120 "$logs/core.diffs" >&2; say "FAILED: ${different[*]} (diffs: $logs/core.diffs)"; }
of=
[ "$suite" = "$major" ] || of=" (that of $suite${BUT:+ without $BUT})"
echo "core's suite on PostgreSQL $label$of: $((tests - ${#different[@]})) passed, ${#different[@]} failed"
echo "$((tests - ${#different[@]})) ${#different[@]}" >"$BUILD/core/$label${tag:+-$tag}.count"
fewest=150
[ -z "${TESTS:-}" ] || fewest=1
[ "$tests" -ge "$fewest" ] && [ ${#different[@]} -eq 0 ]
