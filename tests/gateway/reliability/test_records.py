"""Records that are changed."""

from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from gateway.reliability.records import InvokerMessage, changed, made
from tests.gateway.reliability.stores.contract import incoming, message, outgoing
from tests.gateway.reliability.stores.contract.samples import FULL_INCOMING, FULL_OUTGOING


def test_as_of_dataclasses() -> None:
    one, other, third = incoming("urn:1"), outgoing("key"), message(3)
    assert changed(one, last_seen=9.0, closed=True) == replace(one, last_seen=9.0, closed=True)
    assert changed(other, count=4) == replace(other, count=4)
    assert changed(third, tries=2, next_at=1.5) == replace(third, tries=2, next_at=1.5)
    assert (one, other) == (incoming("urn:1"), outgoing("key"))
    assert hash(changed(third)) == hash(third)


@pytest.mark.parametrize(
    "record",
    [FULL_INCOMING, FULL_OUTGOING, message(3), InvokerMessage(1, b"<m/>")],
    ids=lambda one: type(one).__name__,
)
def test_made_of_values(record: Any) -> None:
    kind: Any = type(record)
    values = [getattr(record, field.name) for field in fields(record)]
    again = made(kind, values)
    assert (again, type(again), hash(again)) == (record, kind, hash(record))
    with pytest.raises(FrozenInstanceError):
        setattr(again, fields(record)[0].name, 2)
    with pytest.raises(TypeError):
        made(kind, values[:-1])


def test_a_field_that_is_none() -> None:
    with pytest.raises(KeyError):
        changed(message(3), nothing=1)
