#!/usr/bin/env bash
# ci/quick.sh: the README's test command.  Builds and installs each extension for this
# machine's server and runs its regression and isolation tests, the TAP tests that are
# not marked slow, ALTER EXTENSION UPDATE, and the lab's tests that are not marked slow.
# Ends with one line of counts.
. "$(dirname "$0")/lib.sh"

failed=0
FAST=1 "$TOP/ci/check.sh" host || failed=1
"$TOP/ci/update.sh" || failed=1
"$TOP/lab/run" test -m "not slow" | tee "$BUILD/check/lab.log" || failed=1
read -r passed bad <"$BUILD/check/host.count"
# count WORD: the number before it in pytest's closing line.
count() { tail -n 1 "$BUILD/check/lab.log" | grep -oE "[0-9]+ $1" | cut -d' ' -f1 || true; }
lab=$(count passed)
lab_bad=$(count failed)
[ "$failed" = 0 ] && say "all fast tests passed; make check-all also runs the slow ones"
echo "$((passed + ${lab:-0})) passed, $((bad + ${lab_bad:-0})) failed"
exit "$failed"
