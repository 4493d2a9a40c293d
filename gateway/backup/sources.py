"""What of a gateway is backed up, and what else has to be kept, by its settings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import make_url

from gateway.backup.creation import Sources
from gateway.databases import driver_url
from gateway.settings.effective import masked_url
from gateway.settings.settings import FILE, Settings
from gateway.sources.room import KEY_FILE

AUDIT = "audit.jsonl"


def sources_of(settings: Settings) -> Sources:
    """The files of a gateway with *settings*."""
    elsewhere = {FILE: Path(FILE)}
    if settings.identities is not None:
        elsewhere["identities.toml"] = settings.identities
    if settings.source_key is not None:
        elsewhere[KEY_FILE] = settings.source_key
    data = [settings.data / KEY_FILE] if settings.source_key is None else []
    audit = settings.audit or settings.data / AUDIT
    journal = settings.data / "journal.db" if settings.scheme == "embedded" else None
    return Sources(_sqlite_file(settings), journal, tuple(data), elsewhere, audit)


def left_out(settings: Settings) -> Iterator[str]:
    """Say, a sentence each, what has to be kept beside the backup."""
    if settings.store is not None and _sqlite_file(settings) is None:
        url = masked_url(settings.store.get_secret_value())
        yield (
            "The store is not in it: dump it now, after this, for instance with pg_dump "
            f"--format=custom --file=store.dump '{url}'."
        )
    if settings.scheme not in ("embedded", "memory"):
        yield "Messages that are at the broker are not in it: they stay there."
    files = ", ".join(f"{name} ({path})" for name, path in _named_files(settings))
    if files:
        yield f"Files that the settings name and that are not in it: {files}."


def _sqlite_file(settings: Settings) -> Path | None:
    """The file of the store; None where it is a server's, or in memory."""
    if settings.store is None:
        return settings.data / "store.db"
    url = make_url(driver_url(settings.store.get_secret_value()))
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database))


def _named_files(settings: Settings) -> Iterator[tuple[str, Path]]:
    kept = {"data", "identities", "audit", "source_key"}
    for name, value in settings.model_dump().items():
        if name not in kept:
            yield from ((name, path) for path in _paths(value))


def _paths(value: Any) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _paths(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _paths(one)
