#!/usr/bin/env bash
# ci/clean.sh: remove build/ (test servers, roots, work trees, reports).
. "$(dirname "$0")/lib.sh"
as_root rm -rf "$BUILD"
