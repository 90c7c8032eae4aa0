#!/usr/bin/env bash
# ci/coverage.sh [EXTENSION...] [lab]: which lines the tests execute.  The C code is built
# with gcov's counters and without optimization, installed into a private copy of this
# machine's server, and tested there; the lab's Python code is measured by coverage.py.
# The tests are those of make check, with ALL=1 those of make check-all.  Counters of
# processes that are killed, or stopped in immediate mode, are lost, so lines that run
# only in these count as not executed.
# The result is build/bench/coverage/, like a benchmark's; "lab/run docs --keep" keeps it.
. "$(dirname "$0")/lib.sh"

[ $# -gt 0 ] || set -- $EXTENSIONS $UNSHIPPED lab
packages gcovr
pg_config=$(pg_config_of host)
mine=$OUT/coverage
copy=$mine/server
mkdir -p "$mine"

# copy_server: the server's programs, libraries and files at their places relative to each
# other; its headers are linked.
copy_server() {
    local top folder
    top=$("$pg_config" --bindir)
    for folder in pkglibdir sharedir includedir; do
        folder=$("$pg_config" --$folder)/
        until [[ $folder == "$top"/* ]]; do top=$(dirname "$top"); done
    done
    rm -rf "$copy"
    for folder in bindir pkglibdir sharedir includedir; do
        folder=$("$pg_config" --$folder)
        folder=${folder#"$top"/}
        mkdir -p "$copy/$(dirname "$folder")"
        case $folder in
            include*) ln -s "$top/$folder" "$copy/$folder" ;;
            *) [ -e "$copy/$folder" ] || cp -a "$top/$folder" "$copy/$folder" ;;
        esac
    done
    copied=$copy/$(realpath -m --relative-to="$top" "$("$pg_config" --bindir)")/pg_config
}

as_root rm -rf "$mine/build"
copy_server
for part in "$@"; do
    rm -f "$mine/$part.json"
    git -C "$TOP" describe --always --dirty --exclude '*' >"$mine/$part.revision" 2>/dev/null || true
    if [ "$part" = lab ]; then
        say "measuring the lab's Python code"
        rm -f "$mine"/.coverage*
        selected=(-m "not slow")
        [ "${ALL:-}" != 1 ] || selected=()
        COVERAGE_FILE=$mine/.coverage "$TOP/lab/run" test "${selected[@]}" >"$mine/lab.log" 2>&1 || say "tests of the lab failed (log: $mine/lab.log)"
        (cd "$mine" && "$OUT/venv/bin/python" -m coverage combine -q --data-file .coverage && "$OUT/venv/bin/python" -m coverage json -q --data-file .coverage -o lab.json) ||
            die "no coverage of the lab (log: $mine/lab.log)"
        continue
    fi
    say "measuring $part"
    PG_CONFIG=$copied PG_LEAN_BUILD=$mine/build COPT="--coverage -O0 -D_FORTIFY_SOURCE=0" FAST=$([ "${ALL:-}" = 1 ] || echo 1) \
        "$TOP/ci/check.sh" host "$part" >"$mine/$part.log" 2>&1 || say "tests of $part failed (log: $mine/$part.log)"
    work=$(PG_LEAN_BUILD=$mine/build bash -c '. "$1/ci/lib.sh"; work_of host' work "$TOP")/$part
    # Sources that a test compiles again have other counters.
    gcovr --root "$work" --filter "$work/src/" --exclude-directories '.*/test/.*' --json "$mine/$part.json" "$work" >"$mine/$part.gcovr.log" 2>&1 ||
        { tail -n 20 "$mine/$part.gcovr.log" >&2; die "no coverage of $part"; }
done
"$TOP/lab/run" coverage "$mine" --pg-config "$pg_config"
