"""How a command ends other than by having done what it was asked."""


class CommandFailed(Exception):
    """It cannot do it; the text says why, in one line."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class ReaderGone(Exception):
    """Whoever read our output has enough (``| head``)."""
