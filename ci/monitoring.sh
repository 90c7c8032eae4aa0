#!/usr/bin/env bash
# ci/monitoring.sh: run the tests of tools that read light_explain's query store, with the tools:
# Prometheus and its exporter from Debian's packages, PEV2 from npm in Chromium, the
# official Python packages of the Model Context Protocol, OpenTelemetry and Perfetto, and the
# OpenTelemetry Collector's OTLP receiver, the Go module go.opentelemetry.io/collector/receiver/otlpreceiver.
#
# The packages come from this machine's registries.  npm's and the receiver are in build/monitoring, and
# Python's in the lab's environment.  If npm is missing, PEV2's tests are left out; if Go is missing or
# older than lab/tests/receiver/go.mod requires and cannot be fetched, those of OTLP.  Debian's packages of
# Prometheus may start services; the tests use separate processes and ports, and stop them.
. "$(dirname "$0")/lib.sh"

packages prometheus prometheus-postgres-exporter chromium fonts-dejavu-core
if command -v npm >/dev/null; then
    mkdir -p "$OUT/monitoring/node"
    cp "$TOP/ci/monitoring.json" "$OUT/monitoring/node/package.json"
    (cd "$OUT/monitoring/node" && npm install --silent --no-audit --no-fund) >"$OUT/monitoring/npm.log" 2>&1 ||
        say "PEV2 is not available (whole log: $OUT/monitoring/npm.log)"
else
    say "no npm: PEV2's tests are left out"
fi
if command -v go >/dev/null; then
    mkdir -p "$OUT/monitoring"
    (cd "$TOP/lab/tests/receiver" && go vet . && go build -o "$OUT/monitoring/receiver" .) >"$OUT/monitoring/go.log" 2>&1 ||
        say "the OTLP receiver was not built (whole log: $OUT/monitoring/go.log)"
else
    say "no go: the tests of OTLP are left out"
fi
"$TOP/lab/run" --version >/dev/null
"$OUT/venv/bin/pip" install -q --disable-pip-version-check -e "$TOP/lab[mcp,otlp,perfetto]" >"$OUT/monitoring.log" 2>&1 ||
    { tail -n 20 "$OUT/monitoring.log" >&2; die "installing the Python packages failed (whole log: $OUT/monitoring.log)"; }
export PEV2_MODULES=$OUT/monitoring/node/node_modules OTLP_RECEIVER=$OUT/monitoring/receiver
exec "$TOP/lab/run" test tests/test_monitoring.py tests/test_readers.py tests/test_mcp.py tests/test_otlp.py tests/test_perfetto.py "$@"
