"""What the settings of a node make of it."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from gateway.discovery.opening import settings_limits
from gateway.discovery.settings import DiscoverySettings


def test_limits_are_settings() -> None:
    settings = DiscoverySettings(
        key=Path("a"), certificate=Path("b"), query_time=2.5, creations_per_minute=7
    )
    limits = settings_limits(settings)
    assert (limits.query_time, limits.creations) == (2.5, 7)


@pytest.mark.parametrize("seconds", [0.0, -1.0, 10.1])
def test_a_query_takes_a_bounded_time(seconds: float) -> None:
    with pytest.raises(ValidationError):
        DiscoverySettings(key=Path("a"), certificate=Path("b"), query_time=seconds)
