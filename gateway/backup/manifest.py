"""The manifest of a backup: what is in it, of which moment, made by which version."""

import json
import re
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from adapters.embedded import SCHEMA_VERSION
from gateway.backup.errors import BackupError
from gateway.store.migrations import newest, why_unusable

NAME = "manifest.json"
FORMAT = 1
LARGEST = 2**20
"""Bytes of a manifest."""
_FILE = re.compile(r"(data|settings)/[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


@dataclass(frozen=True, slots=True)
class File:
    """A file of a backup: ``data/...`` goes into the data folder, ``settings/...`` beside it."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the first member of a backup says.

    Attributes:
        moment: When the databases were as they are in the backup, RFC 3339.
        schema: The revision of the store's schema; None where no store is in the backup.
        oldest_schema: The oldest one whose programs can use it.
        journal: The version of the journal; None where there is none.
    """

    moment: str
    schema: str | None
    oldest_schema: str | None
    journal: int | None
    files: tuple[File, ...]
    made_by: str = version("dragoman")
    format: int = FORMAT

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode() + b"\n"


def read_manifest(data: bytes) -> Manifest:
    """Read a manifest, and see that this program can use what it describes.

    Raises:
        BackupError: It is damaged, or was made by a version that is too new or too old.
    """
    try:
        found: dict[str, Any] = json.loads(data)
        if found["format"] != FORMAT:
            raise BackupError(
                f"The backup has format {found['format']!s:.20}, and this version of Dragoman "
                f"reads {FORMAT}; restore it with the version that made it."
            )
        files = tuple(
            File(str(f["name"]), int(f["bytes"]), str(f["sha256"])) for f in found["files"]
        )
        made = Manifest(
            str(found["moment"]), _text(found["schema"]), _text(found["oldest_schema"]),
            found["journal"], files, str(found["made_by"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise BackupError("The backup is damaged: its manifest cannot be read.") from error
    _check(made)
    return made


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _check(made: Manifest) -> None:
    names = [file.name for file in made.files]
    if len(set(names)) < len(names) or not all(map(_FILE.fullmatch, names)):
        raise BackupError("The backup is damaged: its manifest names files that no backup has.")
    why = None if made.schema is None else why_unusable(made.schema, made.oldest_schema)
    if why is not None:
        raise BackupError(
            f"The backup was made by Dragoman {made.made_by:.40}: its store {why}"
            f" (this version has schema {newest()})."
        )
    if made.journal is not None and made.journal > SCHEMA_VERSION:
        raise BackupError(
            f"The backup was made by Dragoman {made.made_by:.40}: its journal has version "
            f"{made.journal}, and this one reads {SCHEMA_VERSION}; install that version."
        )
