"""Files whose first line is a secret: read each time that it is used, so that another one counts
without a restart."""

from pathlib import Path

from filters import Reason, Refused

LONGEST = 8192
"""Characters."""


class SecretFileUnusable(Refused):
    """The file cannot be read; the text names it, and never repeats what is in it."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(Reason.UNAVAILABLE, f"{path} {why}")


def read_first_line(path: Path) -> str:
    """Read the first line of the file at *path*, without the line end.

    Raises:
        SecretFileUnusable: It cannot be read, or is not text in UTF-8.
    """
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline(LONGEST).rstrip("\r\n")
    except OSError as error:
        raise SecretFileUnusable(path, f"cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:  # Its text would quote the secret.
        raise SecretFileUnusable(path, "is not text in UTF-8") from None
