"""Where the lab reads and writes: set by lab/run, with defaults for a plain `python -m pg_lean`."""

import os
from pathlib import Path

#: The repository.
TOP = Path(__file__).resolve().parents[2]

#: Results, report and Python environment.
BUILD = Path(os.environ.get("PG_LEAN_BUILD") or TOP / "build")

#: Files of throwaway servers; elsewhere than BUILD only if the server's user cannot enter it.
SERVER_DIR = Path(os.environ.get("PG_LEAN_SERVER_DIR") or BUILD)
