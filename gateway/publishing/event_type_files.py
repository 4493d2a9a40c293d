"""The folder of the setting ``grid_events.schemas``: XML Schemas of own types of events."""

from pathlib import Path

from filters import Reason, Refused
from mediation.grid_events import (
    MOST_BYTES,
    NO_TYPES,
    DeclaredTypes,
    TypeSchema,
    read_type_schema,
)


def read_event_types(folder: Path | None) -> DeclaredTypes:
    """Read the schemas of *folder*, every file ``NAME.xsd``; None: there are none.

    Raises:
        Refused: One cannot be read, or declares no types of events; the text says which, and why.
    """
    if folder is None:
        return NO_TYPES
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".xsd")
        return DeclaredTypes(map(_read, paths))
    except OSError as error:
        why = f"{error.filename or folder} cannot be read ({error.strerror or error})"
        raise Refused(Reason.MESSAGE_INVALID, f"grid_events.schemas: {why}") from error
    except Refused as refused:
        raise Refused(refused.reason, f"grid_events.schemas: {refused.text}") from refused


def _read(path: Path) -> TypeSchema:
    if not path.is_file():  # A pipe would have the start wait for ever.
        raise Refused(Reason.MESSAGE_INVALID, f"{path}: this is no file")
    try:
        with path.open("rb") as file:
            return read_type_schema(file.read(MOST_BYTES + 1), path.stem)
    except Refused as refused:
        raise Refused(refused.reason, f"{path}: {refused.text}") from refused
