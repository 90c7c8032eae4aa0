#!/usr/bin/env bash
# ci/random.sh host|LABEL-assert [STATEMENTS]: random statements without and with recycled_temp (its
# test/t/random.pl), a million if no number is given.  Counts are kept in
# build/random/LABEL after each session, so that an interrupted run is resumed by
# starting it again; remove the file to begin again.  RECYCLED_SEED=N is the first session.
. "$(dirname "$0")/lib.sh"

[ $# -ge 1 ] || die "usage: ci/random.sh LABEL [STATEMENTS]"
label=$1
state=$BUILD/random/$label/state
as_root mkdir -p "$(dirname "$state")"
as_root chown "$SERVER_USER" "$(dirname "$state")"
status=0
RECYCLED_STATEMENTS=${2:-1000000} RECYCLED_STATE=$state PROVE_TESTS=test/t/random.pl SKIP_REGRESS=1 "$TOP/ci/check.sh" "$label" recycled_temp || status=$?
read -r _ count errors reused different <"$state"
echo "random statements of recycled_temp on PostgreSQL $label: $count, $errors of them errors, $reused tables reused, sessions that differ: ${different:-none}"
exit "$status"
