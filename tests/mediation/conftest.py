"""Fixtures of this floor's tests."""

import pytest

from tests.rigs.schemas import Validator


@pytest.fixture(scope="session")
def validator(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Validator:
    """The specifications' schemas; where they are not, those of the repository.

    ``test_the_validator_refuses`` holds for both.
    """
    scratch = tmp_path_factory.mktemp("schemas")
    try:
        folder = request.getfixturevalue("shared")
    except pytest.skip.Exception:
        return Validator(None, scratch)
    return Validator(folder / "specs/schemas", scratch)


@pytest.fixture(scope="session", params=["repository", "reference"])
def each_validator(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Validator:
    """The schemas of the repository, and those of the reference material."""
    reference = request.param == "reference"
    folder = request.getfixturevalue("shared") / "specs/schemas" if reference else None
    return Validator(folder, tmp_path_factory.mktemp("schemas"))
