"""Records that are changed."""

from dataclasses import replace

import pytest

from gateway.reliability.records import changed
from gateway.reliability.testing import incoming, message, outgoing


def test_as_of_dataclasses() -> None:
    one, other, third = incoming("urn:1"), outgoing("key"), message(3)
    assert changed(one, last_seen=9.0, closed=True) == replace(one, last_seen=9.0, closed=True)
    assert changed(other, count=4) == replace(other, count=4)
    assert changed(third, tries=2, next_at=1.5) == replace(third, tries=2, next_at=1.5)
    assert (one, other) == (incoming("urn:1"), outgoing("key"))
    assert hash(changed(third)) == hash(third)


def test_a_field_that_is_none() -> None:
    with pytest.raises(KeyError):
        changed(message(3), nothing=1)
