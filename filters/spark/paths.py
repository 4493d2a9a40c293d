"""Names of files as Spark takes them: as paths of Hadoop, which may be patterns and URLs."""

import re

_OF_PATTERNS = re.compile(r"[{}\[\]*?\\]")


def escape_pattern(name: str) -> str:
    """Return the pattern that means what is called *name* alone.

    Spark reads whatever a path matches as a pattern (Hadoop's ``FileSystem.globStatus``): of
    ``plant[1]`` it would read the sibling ``plant1``.
    """
    return _OF_PATTERNS.sub(r"\\\g<0>", name)


def local_path(path: str) -> str:
    """The path in a file system that Hadoop's ``file:/a`` or ``file:///a`` means."""
    return path.removeprefix("file:").replace("///", "/", 1) if path.startswith("file:") else path
