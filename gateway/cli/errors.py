"""Errors that end a command."""

ASKED_WRONGLY = 2
"""The exit code of a command that was not told what to do."""


class CommandFailed(Exception):
    """A command could not do its work; the text says why, in one line."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class ReaderGone(Exception):
    """Whoever read our output has enough (``| head``)."""
