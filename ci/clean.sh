#!/usr/bin/env bash
# ci/clean.sh: remove build/ (test servers, roots, work trees, reports), and the
# folder of /var/tmp that stands in for it when servers cannot reach build/.
. "$(dirname "$0")/lib.sh"
for folder in "$OUT" "$BUILD"; do
    rm -rf "$folder" 2>/dev/null || as_root rm -rf "$folder"
done
