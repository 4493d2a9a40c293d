"""Messages that cannot be read: what is left of them, and those that end connections."""

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.broker.prefetch import Arrival, Prefetch, Session, fault_of
from adapters.broker.unreadable import (
    KEPT_PROPERTIES,
    Place,
    Stoppages,
    UnreadableCount,
    remains_of,
)
from mediation.model.messages import Notification
from mediation.packaging.records import decode, encode

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)


def left(body: bytes = b"", **properties: str) -> Notification:
    return remains_of(body, properties, id="m", source="urn:s", time=NOW, topic=None)


@given(st.binary(max_size=100), st.dictionaries(TEXTS, TEXTS, max_size=5), TEXTS)
def test_what_is_left_can_be_stored(body: bytes, properties: dict[str, str], id: str) -> None:
    notification = remains_of(body, properties, id=id, source="urn:s", time=NOW, topic=None)
    record = encode(notification)
    "".join(record.properties.values()).encode()
    assert decode(record.body, record.properties) == notification


def test_what_is_left_is_bounded() -> None:
    notification = left(b"x" * 2**24, a="1", b="x" * KEPT_PROPERTIES, c="2")
    assert len(notification.payload) < 100
    assert notification.properties == {"a": "1"}


class _Session(Session[int]):
    def __init__(self) -> None:
        super().__init__()
        self.acknowledged: list[int] = []

    def acknowledge(self, key: int) -> None:
        self.acknowledged.append(key)


async def test_what_fails_to_be_read_is_yielded_with_the_reason() -> None:
    def read(arrival: Arrival[int, str]) -> Notification | None:
        if arrival.message == "bad":
            raise ValueError("odd")
        return left(a=arrival.message)

    prefetch = Prefetch(8, read, lambda arrival: left(salvaged=arrival.message))
    session = _Session()
    for key, message in enumerate(["first", "bad", "last"]):
        prefetch.add(Arrival(session, key, message, 0, False, 0.0))
    prefetch.add(Arrival(session, 3, "cut", 0, False, 0.0, fault="it is too long"))
    found = []
    async with asyncio.timeout(60):
        async for delivery in prefetch.deliveries():
            found.append((fault_of(delivery), dict(delivery.notification.properties)))
            delivery.settle()
            if len(found) == 4:
                prefetch.close()
    assert found == [
        ("", {"a": "first"}),
        ("it cannot be read (ValueError: odd)", {"salvaged": "bad"}),
        ("", {"a": "last"}),
        ("it is too long", {"salvaged": "cut"}),
    ]
    assert session.acknowledged == [0, 1, 2, 3]


def test_the_message_that_ends_connections_is_told(caplog: pytest.LogCaptureFixture) -> None:
    stoppages = Stoppages("stomp")
    place = Place("/queue/a", "ID:7", within=True)
    stoppages.ended(place, "no frame", after=3)
    assert stoppages.text == ""
    stoppages.ended(place, "no frame", after=2)
    stoppages.ended(place, "no frame", after=2)
    assert "ID:7 of /queue/a" in stoppages.text and "no frame" in stoppages.text
    assert [each.message for each in caplog.records] == ["adapter.message_ends_connection"]
    stoppages.came(2)
    assert stoppages.text, "these came before it"
    stoppages.came(3)
    assert stoppages.text == ""
    stoppages.ended(place, "no frame", after=3)
    assert stoppages.text == "", "others have come behind it"


def test_another_place_is_another_message() -> None:
    stoppages = Stoppages("stomp")
    for id in "abab":
        stoppages.ended(Place("/queue/a", id, within=False), "no frame", after=1)
        assert stoppages.text == ""


def test_few_of_many_have_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    count = UnreadableCount("stomp")
    for number in range(1000):
        count.add("/queue/a", str(number), "it is too long")
    assert count.total == 1000
    assert 10 < len(caplog.records) < 30
    assert caplog.records[0].__dict__["id"] == "0"
