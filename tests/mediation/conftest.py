"""Fixtures of this floor's tests."""

from pathlib import Path

import pytest

from tests.rigs.schemas import Validator


@pytest.fixture(scope="session")
def validator(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Validator:
    """The specifications' schemas; where they are not, it takes whatever is well-formed, and
    ``test_the_validator_refuses`` says so."""
    scratch = tmp_path_factory.mktemp("schemas")
    try:
        folder = request.getfixturevalue("shared")
    except pytest.skip.Exception:
        return Validator(None, scratch)
    return Validator(folder / "specs/schemas", scratch)


@pytest.fixture(scope="session")
def shared_or_none(request: pytest.FixtureRequest) -> Path | None:
    """The folder of reference material; None where there is none."""
    try:
        folder: Path = request.getfixturevalue("shared")
    except pytest.skip.Exception:
        return None
    return folder
