"""pg_lean's lab: measures the extensions against stock PostgreSQL, side by side, on this machine."""

__version__ = "0.9"
