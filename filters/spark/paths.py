"""Names of files as Spark takes them: as paths of Hadoop, which may be patterns and URLs."""

import re
from pathlib import Path
from typing import Any

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
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


def is_url(place: str) -> bool:
    """Return whether *place* is the URL of something in one of Hadoop's file systems, such as
    ``s3a://bucket/archive``, and not the name of a file."""
    return _URL.match(place) is not None


def is_remote(place: str) -> bool:
    """Return whether only Spark can read *place*: it is the URL of another file system than this
    machine's."""
    return is_url(place) and not place.startswith("file:")


def absolute(place: str | Path) -> str:
    """Return *place* as Spark takes it wherever it runs: a URL as it is, or an absolute path."""
    return place if isinstance(place, str) and is_url(place) else str(Path(place).absolute())


def is_within(place: str, folder: str) -> bool:
    """Return whether *place* is *folder*, or something in it, as far as their names say; links to
    folders of this machine are followed."""
    if is_remote(place) or is_remote(folder):
        return f"{place.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
    return Path(local_path(place)).resolve().is_relative_to(Path(local_path(folder)).resolve())


def child(place: str, name: str) -> str:
    """Return what is called *name* in the folder *place*."""
    return f"{place.rstrip('/')}/{name}"


def hadoop_path(spark: Any, place: str) -> tuple[Any, Any]:
    """Return *place* as a path of Hadoop, and the file system that it is in."""
    path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(place)
    return path, path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())


def exists(spark: Any, place: str) -> bool:
    """Return whether there is a file or a folder at *place*, an absolute path or a URL."""
    path, system = hadoop_path(spark, place)
    return bool(system.exists(path))


def write_text(spark: Any, text: str, place: str) -> None:
    """Write the file *place*, or another in its place, in UTF-8."""
    path, system = hadoop_path(spark, place)
    file = system.create(path, True)
    try:
        file.write(text.encode())
    finally:
        file.close()
