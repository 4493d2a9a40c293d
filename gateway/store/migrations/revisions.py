"""The revisions of the schema: which there are, and which of them an older program can use.

A revision is *backward compatible* when a program that was written for the one before goes on
working with it: it adds, and takes nothing away (expand, and contract a release later). Each file
says so itself.
"""

import functools
from importlib import import_module
from pathlib import Path

FOLDER = Path(__file__).parent
LAST_FROM_EARLIER = "a2f1684c"
"""The last commit that upgrades what is older than the first of `revisions`."""


@functools.cache
def revisions() -> tuple[str, ...]:
    """All revisions, the newest last: a file's name begins with its revision."""
    return tuple(sorted(_files()))


def newest() -> str:
    """The revision that this program is written for."""
    return revisions()[-1]


def steps(current: str | None, wanted: str) -> tuple[str, ...]:
    """The revisions from behind *current* to *wanted*."""
    return tuple(one for one in revisions() if (current or "") < one <= wanted)


def last_incompatible(those: tuple[str, ...]) -> str | None:
    """The last of *those* revisions that is not backward compatible: the oldest for which a program
    that goes on with all of them can have been written. None where all of them are compatible."""
    return next((one for one in reversed(those) if not _is_compatible(one)), None)


def why_unusable(revision: str, oldest: str | None = None) -> str | None:
    """The reason why this program cannot use a database of *revision*; None where it can.

    Args:
        oldest: The oldest revision whose programs can use it, as the database says.
    """
    known = revisions()
    if revision in known:
        return None
    if len(revision) == len(known[0]) and revision < known[0]:
        return (
            f"has the schema {revision}, and this version of Dragoman upgrades from {known[0]} on;"
            f" open it once with Dragoman of commit {LAST_FROM_EARLIER}, or use another store"
        )
    if oldest is not None and oldest <= newest():
        return None
    return (
        f"has the schema {revision}, which a newer Dragoman wrote; install that version, or use"
        " another store"
    )


@functools.cache
def _files() -> dict[str, str]:
    """The name of the module of each revision."""
    return {path.name[:4]: path.stem for path in (FOLDER / "versions").glob("[0-9]*_*.py")}


def _is_compatible(revision: str) -> bool:
    module = import_module(f"gateway.store.migrations.versions.{_files()[revision]}")
    return bool(module.backward_compatible)
