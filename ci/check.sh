#!/usr/bin/env bash
# ci/check.sh LABEL [EXTENSION...]: build, install and test extensions on one
# server (see ci/lib.sh for labels).  Prints a closing line of counts; fails if
# anything failed, and leaves what failed in build/check/LABEL*.failed.
# TEST_CONF=test/FILE and PROVE_TESTS='...' pass through to the tests; SKIP_TAP=1
# leaves the TAP tests out, SKIP_REGRESS=1 all others, FAST=1 the TAP tests that have a
# line "# Slow: why"; SLOW=1 runs only these.  PG_LEAN_QUICK=1 takes a minute.  NO_TESTS=1
# builds and installs, BUILT=1 tests what was built and installed before.  COPT='...' are
# further options of the compiler.
. "$(dirname "$0")/lib.sh"

[ $# -ge 1 ] || die "usage: ci/check.sh LABEL [EXTENSION...]"
label=$1
shift
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $EXTENSIONS $UNSHIPPED
[ "$label" = host ] && "$TOP/ci/server.sh" host
pg_config=$(pg_config_of "$label")
logs=$BUILD/check/$label
# A run with another configuration has separate counts and failures.
sum=$logs${TEST_CONF:+-$(basename "$TEST_CONF" .conf)-$1}
mkdir -p "$logs"
rm -f "$sum.count" "$sum.failed"
[ "${BUILT:-}" = 1 ] || copy_tree "$label" common "$@"

# Warnings of other compilers do not stop a build, except in CI.
vars="PG_CONFIG=$pg_config${WERROR:+ WERROR=1}"
[ -n "${TEST_CONF:-}" ] && vars="$vars TEST_CONF=$TEST_CONF"
[ -n "${COPT:-}" ] && vars="$vars COPT='$COPT'"
[ "${PG_LEAN_QUICK:-}" = 1 ] && SKIP_TAP=1
[ "${SLOW:-}" = 1 ] && SKIP_REGRESS=1
[ "${SKIP_TAP:-}" = 1 ] && vars="$vars TAP_TESTS="
[ "${SKIP_REGRESS:-}" = 1 ] && vars="$vars REGRESS= ISOLATION="

# Other extensions may be preloaded by a test, so all are installed before any runs.
for ext in "$@"; do
    [ "${BUILT:-}" != 1 ] || break
    say "building $ext for PostgreSQL $label"
    on "$label" server "make -s -j2 -C $ext $vars all" >"$logs/$ext.build.log" 2>&1 ||
        { tail -n 40 "$logs/$ext.build.log" >&2; die "$ext does not build for PostgreSQL $label"; }
    on "$label" root "make -s -C $ext $vars install" >>"$logs/$ext.build.log" 2>&1 ||
        { tail -n 40 "$logs/$ext.build.log" >&2; die "$ext does not install for PostgreSQL $label"; }
done

[ "${NO_TESTS:-}" != 1 ] || exit 0

# The extensions' tests share nothing, so they run side by side.
# tap_tests EXTENSION: the TAP tests that are run, relative to its folder.
tap_tests() {
    # shellcheck disable=SC2086
    (cd "$TOP/$1" && if [ "${FAST:-}" = 1 ]; then grep -L '^# Slow: ' ${PROVE_TESTS:-test/t/*.pl}
        elif [ "${SLOW:-}" = 1 ]; then grep -l '^# Slow: ' ${PROVE_TESTS:-test/t/*.pl} || true
        else echo ${PROVE_TESTS:-test/t/*.pl}; fi) | tr '\n' ' '
}
test_one() {
    # Fast ones two at a time: they wait more than they compute.
    on "$label" server "make -s -C $1 $vars PROVE_FLAGS=${FAST:+-j2} PROVE_TESTS='$(tap_tests "$1")' installcheck" >"$logs/$1.log" 2>&1
}
if [ "${SLOW:-}" = 1 ]; then
    for ext in "$@"; do
        shift
        [ -z "$(tap_tests "$ext")" ] || set -- "$@" "$ext"
    done
fi
declare -A job
for ext in "$@"; do
    say "testing $ext on PostgreSQL $label"
    rm -f "$logs/$ext.log"
    test_one "$ext" &
    job[$ext]=$!
done

# count_of FILE...: how many of these are there (a pattern without a match is not)
count_of() {
    local f there=0
    for f in "$@"; do [ ! -e "$f" ] || there=$((there + 1)); done
    echo "$there"
}

# progress: how many tests have ended, every half minute while they run.
progress() {
    local ext line all ended
    while :; do
        read -rt 30 <> <(:) || true
        line=
        for ext in "$@"; do
            all=0
            if [ "${SKIP_REGRESS:-}" != 1 ]; then all=$((all + $(count_of "$TOP/$ext"/test/sql/*.sql "$TOP/$ext"/test/specs/*.spec))); fi
            if [ "${SKIP_TAP:-}" != 1 ]; then
                # shellcheck disable=SC2046
                all=$((all + $(cd "$TOP/$ext" && count_of $(tap_tests "$ext"))))
            fi
            ended=$(grep -cE "$ENDED|^(test|t)/.*\.pl \.+ " "$logs/$ext.log" || true)
            line="$line, $ext ${ended:-0} of $all"
        done
        say "tests that ended on PostgreSQL $label: ${line#, }"
    done
}
# one line of pg_regress ("test x ... ok" on 15, TAP since 16) or the isolation tester
ENDED='^((not )?ok [0-9]+ |test .* \.\.\. (ok|FAILED)|     .* \.\.\. (ok|FAILED))'
progress "$@" &
progress=$!
trap 'kill "$progress" 2>/dev/null || true' EXIT

# why_tap FOLDER TEST...: of TAP tests that failed, what their servers died of and the
# end of their logs; in the shell of the server's machine.
why_tap() {
    folder=$1
    shift
    for name in "$@"; do
        echo "why $name failed:"
        grep -hE -A 25 'TRAP:|PANIC:|No space left|out of memory|terminated by signal [^9]' "$folder/${name%%_*}"_*.log | cut -c1-300 | head -n 60
        grep -vE '^(# Running: |ok )' "$folder/regress_log_$name" | tail -n 40 | cut -c1-600
    done
}

failed=0
for ext in "$@"; do
    if ! wait "${job[$ext]}"; then
        failed=1
        on "$label" server "head -n 200 $ext/regression.diffs $ext/output_iso/regression.diffs 2>/dev/null || true" >&2
        tail -n 60 "$logs/$ext.log" >&2
        # The failures are printed last, where a truncated log still has them.
        {
            echo "$ext on PostgreSQL $label:"
            grep -E '^(#|not ok |test .* FAILED|     .* FAILED|  Failed test)' "$logs/$ext.log" | cut -c1-300 | head -n 60 || true
            mapfile -t tap_failed < <(sed -nE 's,^(test/)?t/([^ ]*)\.pl +\(Wstat.*,\2,p' "$logs/$ext.log")
            on "$label" server "$(declare -f why_tap); why_tap $ext/tmp_check/log ${tap_failed[*]}" || true
        } | tee -a "$sum.failed" >&2
        say "FAILED: $ext on PostgreSQL $label (whole log: $logs/$ext.log)"
    fi
done

done_logs=("${@/#/$logs/}")
done_logs=("${done_logs[@]/%/.log}")
# One count over pg_regress ("test x ... ok" on 15, TAP lines since 16), the
# isolation tester and prove.
good=$(cat "${done_logs[@]}" | grep -cE '^(ok [0-9]+ |test .* \.\.\. ok|     .* \.\.\. ok)' || true)
bad=$(cat "${done_logs[@]}" | grep -cE '^(not ok |test .* \.\.\. FAILED|     .* \.\.\. FAILED)' || true)
tap=$(cat "${done_logs[@]}" | sed -n 's/^Files=[0-9]*, Tests=\([0-9]*\),.*/\1/p' | awk '{ s += $1 } END { print s + 0 }')
[ $((good + tap)) -gt 0 ] || { say "no test ran on PostgreSQL $label"; failed=1; }
[ "$failed" = 0 ] || bad=$((bad > 0 ? bad : 1))
echo "PostgreSQL $label: $((good + tap)) passed, $bad failed"
# what tests counted, for results that are kept
sed -n 's/^# counted: //p' "${done_logs[@]}"
echo "$((good + tap)) $bad" >"$sum.count"
exit "$failed"
