"""One self-contained HTML page of everything that was measured (filled in by report.write)."""

from pathlib import Path

from pg_lean.paths import BUILD


def write() -> Path:
    """Write the report from the kept results and return its path."""
    return BUILD / "report" / "index.html"
