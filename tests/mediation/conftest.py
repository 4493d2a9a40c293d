"""Fixtures of this floor's tests."""

from pathlib import Path

import pytest

from tests.mediation.schemas import Validator


@pytest.fixture(scope="session")
def validator(shared: Path) -> Validator:
    """The specifications' schemas."""
    return Validator(shared / "specs/schemas")
