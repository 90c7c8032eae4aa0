#!/usr/bin/env bash
# ci/tests.sh fast|slow: the tests of this machine's server.  "fast" is the README's test
# command: it builds and installs each extension, and runs its regression and isolation
# tests, the TAP tests that are not marked slow, ALTER EXTENSION UPDATE, and the lab's tests
# that are not marked slow.  "slow" is what that leaves out.
# The lab's tests run concurrently with those of the extensions: both wait more than they compute.
# Ends with one line of counts.
. "$(dirname "$0")/lib.sh"

case ${1:-} in
    fast) export FAST=1 lab_tests="not slow" ;;
    slow) export SLOW=1 lab_tests="slow" ;;
    *) die "usage: ci/tests.sh fast|slow" ;;
esac
failed=0
NO_TESTS=1 "$TOP/ci/check.sh" host
log=$BUILD/check/lab.log
say "testing the lab"
"$TOP/lab/run" test -m "$lab_tests" -n 3 --dist loadfile >"$log" 2>&1 &
lab=$!
BUILT=1 "$TOP/ci/check.sh" host || failed=1
if [ "$1" = fast ]; then "$TOP/ci/update.sh" || failed=1; fi
say "waiting for the lab's tests"
wait "$lab" || failed=1
grep -vE '^[.sxX]+ +\[ *[0-9]+%\]$' "$log" || true
read -r passed bad <"$BUILD/check/host.count"
# count WORD: the number before it in pytest's closing line.
count() { tail -n 1 "$log" | grep -oE "[0-9]+ $1" | cut -d' ' -f1 || true; }
lab=$(count passed)
lab_bad=$(count failed)
# Printed again at the end, where a truncated log still has them.
cat "$BUILD/check/host.failed" 2>/dev/null || true
[ "$failed" = 1 ] || [ "$1" = slow ] || say "all fast tests passed; make check-all also runs the slow ones"
echo "$((passed + ${lab:-0})) passed, $((bad + ${lab_bad:-0})) failed"
exit "$failed"
