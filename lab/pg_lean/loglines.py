"""Lines as programs write them into logs, the same for the same seed: they compress about as well as such logs do."""

from __future__ import annotations

import random

#: Bytes of a line, evenly spread.
LENGTHS = (200, 2000)

_WORDS = (
    "request response worker started finished failed retrying connection timeout cache miss hit user session token build test step module compile link deploy "
    "container image layer pulled pushed checksum verified skipped file directory created removed updated configuration loaded schema migration applied query "
    "rows returned elapsed memory limit exceeded queue depth message published consumed offset partition leader election tool call argument result assistant"
).split()
_LEVELS = ("DEBUG", "INFO", "INFO", "INFO", "INFO", "WARN", "ERROR")


def line(rng: random.Random, number: int) -> str:
    """One line, with its end: a time, who wrote it, an identifier that no other has, and words with numbers."""
    length = rng.randint(*LENGTHS)
    text = (f"2026-11-22T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.{rng.randrange(10**6):06}Z worker-{rng.randrange(32):02} "
            f"{rng.choice(_LEVELS)} trace={rng.getrandbits(64):016x} ")
    parts = []
    size = len(text)
    while size < length:
        # some words are written far more often than others
        word = _WORDS[int(rng.random() ** 2 * len(_WORDS))]
        part = word if rng.random() < 0.7 else f"{word}={rng.randrange(10 ** rng.randint(1, 7))}"
        parts.append(part)
        size += len(part) + 1
    return (text + " ".join(parts))[:length - 1] + "\n"


def logs(count: int, lines: int, seed: int = 1) -> list[list[str]]:
    """So many logs of so many lines."""
    rng = random.Random(seed)
    return [[line(rng, number) for number in range(lines)] for _ in range(count)]
