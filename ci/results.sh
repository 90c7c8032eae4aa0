#!/usr/bin/env bash
# ci/results.sh [LABEL...]: run the benchmarks whose figures the documents
# show, each on every server named (see ci/lib.sh for labels; "host" if none is), take
# their full results into results/, and draw the documents.  Takes more than an hour
# a server, with EFFORT=0.2 a quarter of that (a fifth of the repetitions, at least
# three; all sizes, except some logs of runlog, which are shorter); nothing else should
# run on the machine.  BENCHES='temp append' runs only these.  The benchmark of the front
# page, which takes twelve minutes, always makes all repetitions.
. "$(dirname "$0")/lib.sh"

[ $# -gt 0 ] || set -- host
load=$(cut -d' ' -f1 /proc/loadavg)
awk -v load="$load" 'BEGIN { exit !(load > 0.5) }' && say "the machine is not quiet (load $load): intervals will be wide"
failed=0
for label in "$@"; do
    server=
    "$TOP/ci/install.sh" "$label"
    [ "$label" = host ] || server="--pg-config $label"
    for bench in ${BENCHES:-front temp append runlog explain analytics extend fill gather catalog profile flush progress watched}; do
        say "bench $bench on PostgreSQL $label"
        effort=${EFFORT:-1}
        [ "$bench" = front ] && effort=1
        # shellcheck disable=SC2086
        "$TOP/lab/run" bench "$bench" --effort "$effort" $server || { say "bench $bench failed on PostgreSQL $label: what is kept of it stays as it was"; failed=1; }
        # One benchmark's folder holds one server's result: it is taken before the next server's takes its place.
        "$TOP/lab/run" docs --keep
    done
done
exit "$failed"
