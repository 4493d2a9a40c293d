"""What all tests share: how Hypothesis runs, and where reference material lies."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]

# A run says the same each time and on any machine, however slow; `explore` looks further:
# HYPOTHESIS_PROFILE=explore make test
settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", settings.get_profile("default"), database=None)
settings.register_profile(
    "explore", settings.get_profile("default"), derandomize=False, max_examples=2000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference material, which is not part of the repository."""
    folder = Path(os.environ.get("DRAGOMAN_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"reference material not found: {folder} (DRAGOMAN_SHARED names another)")
    return folder
