"""The copy of a store before its migration, after one that was killed."""

import shutil
from pathlib import Path

import pytest

from gateway.store.sqlite_copy import copy_beside
from tests.gateway.store.test_migrations import make_0023
from tests.rigs.stores import sqlite_url


def test_what_a_killed_copy_left_takes_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_0023(sqlite_url(tmp_path))
    store, part = tmp_path / "store.db", tmp_path / "store-schema-0023.part"
    part.write_bytes(bytes(store.stat().st_size))
    usage = type(shutil.disk_usage(tmp_path))
    free = store.stat().st_size * 3 // 2  # Of the disk, with nothing but the store on it.

    def full(_: Path) -> object:
        return usage(free, 0, free - (part.stat().st_size if part.exists() else 0))

    monkeypatch.setattr("shutil.disk_usage", full)
    assert copy_beside(store, "0023") == tmp_path / "store-schema-0023.db"
    assert not part.exists()
