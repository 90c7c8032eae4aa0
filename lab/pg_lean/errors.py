"""Errors that are the user's to read: printed without a traceback."""


class LabError(Exception):
    """Something the user can put right; `hint` says how."""

    def __init__(self, message: str, hint: str = ""):
        super().__init__(message)
        self.hint = hint


class Unavailable(LabError):
    """A part or benchmark that cannot run here (an extension or privilege is missing); the others continue."""
