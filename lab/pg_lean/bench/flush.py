"""Sorted and coalesced flush of temp buffers against writing them one by one."""

from pg_lean.bench import Bench, Result, Unavailable

TITLE = "Flushing temp buffers: sorted and coalesced against one by one"
PRELOAD = ("parallel_temp",)


def run(bench: Bench) -> Result:
    bench.server.need_function("pg_flush_local_buffers()")
    raise Unavailable("being written")
