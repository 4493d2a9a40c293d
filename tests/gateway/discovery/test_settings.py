"""What the settings of a node make of it."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from benchmarks.queries import thing
from filters.queries import document_text
from gateway.discovery.node_factory import make_catalogue, settings_limits
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


def test_there_is_room_for_all_advertisements_that_are_kept() -> None:
    settings = DiscoverySettings(key=Path("a"), certificate=Path("b"), advertisements=200_000)
    catalogue = make_catalogue(settings)
    # As an advertisement has it that describes this with a document of 1 KB.
    one = thing(1, random.Random(1))
    document = b"<advertisement>" + one.documents[0] + b"x" * 1000 + b"</advertisement>"
    text = document_text(one.documents)
    catalogue.add("one", replace(one, documents=(document,), document_text=text))
    assert catalogue.weight * settings.advertisements < catalogue.max_bytes
