"""The demo: one module a part, of the same shape as a benchmark (see pg_lean.bench), run in this order."""

#: Modules of this package in the order of the report, what most people ask for first.  A module that is not there is skipped.
ORDER = ("parallel", "append", "explain", "waits", "fastload", "temp_buffers")
