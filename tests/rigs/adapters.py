"""What the tests of all adapters of brokers share: an adapter that runs, messages, and what no
broker may make a difference to."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from adapters import Adapter, AdapterUnavailable, Interest
from adapters.testing import Inbox
from filters import Expression, Step, Topic, parse_document
from filters.dialects import TOPIC_FULL
from mediation.model.messages import Notification
from mediation.names import DRAGOMAN_DATA
from tests.rigs.brokers import PASSWORD, Wire
from tests.rigs.waiting import until, until_taken

SECONDS = 90.0
STORM = Interest(Expression("storm//.", TOPIC_FULL))
CALM = Interest(Expression("calm", TOPIC_FULL))

NO_XML = (
    pytest.param(b'{"a": "<&>"}', "application/json", '{"a": "<&>"}', None, id="JSON"),
    pytest.param("Sturm æ".encode(), "text/plain", "Sturm æ", None, id="text"),
    pytest.param(b"<a><b></a>", "application/xml", "<a><b></a>", None, id="broken XML"),
    pytest.param(b"<a/><b/>", "text/xml", "<a/><b/>", None, id="two elements"),
    pytest.param(b"", None, None, None, id="nothing"),
    pytest.param(b"a\r\nb", "text/plain", "YQ0KYg==", "base64", id="line ends"),
    pytest.param(b"\xff\x00\n\n", None, "/wAKCg==", "base64", id="octets"),
    pytest.param(b"a\x00", 'a"<&>', "YQA=", "base64", id="a media type that is none"),
    pytest.param(
        b'<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>', "application/xml",
        '<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>', None, id="a document type",
    ),
    pytest.param(b"no parts", "multipart/related", "no parts", None, id="broken multipart"),
)  # fmt: skip
"""Bodies of native messages with their media types; the text they become, and its encoding."""


def storm(number: int = 0, topic: str = "storm") -> Notification:
    return Notification(
        id=f"urn:uuid:{uuid.uuid4()}",
        source="http://publisher.example/",
        payload=f"<n>{number}</n>".encode(),
        time=datetime.now(UTC),
        topic=Topic((Step(None, topic),)),
    )


@asynccontextmanager
async def started(adapter: Adapter, *interests: Interest) -> AsyncIterator[Adapter]:
    """*adapter* while it runs, with an interest in storms if no other is given."""
    await adapter.start(interests or [STORM])
    try:
        yield adapter
    finally:
        await adapter.close()


async def published(adapter: Adapter, notification: Notification) -> int:
    """Publish until it is confirmed; how often it was not."""
    return await until_taken(lambda: adapter.publish([notification]), AdapterUnavailable, SECONDS)


async def cut_while_publishing(wire: Wire, adapter: Adapter) -> None:
    """Publishers under way are told when the connection is cut."""
    wire.fall_silent()
    under_way = [asyncio.create_task(adapter.publish([storm(n)])) for n in range(5)]
    await asyncio.wait_for(wire.swallowed.wait(), SECONDS)
    assert not any(task.done() for task in under_way)
    await wire.cut()
    async with asyncio.timeout(SECONDS):
        outcomes = await asyncio.gather(*under_way, return_exceptions=True)
    assert all(isinstance(outcome, AdapterUnavailable) for outcome in outcomes)


async def fall_silent_while_publishing(wire: Wire, adapter: Adapter, *, within: float) -> None:
    """A publisher is told *within* so many seconds that a broker which says nothing is lost."""
    wire.fall_silent()
    task = asyncio.create_task(adapter.publish([storm()]))
    async with asyncio.timeout(within):
        with pytest.raises(AdapterUnavailable, match="lost"):
            await task


async def publish_repeatedly(wire: Wire, adapter: Adapter) -> None:
    """What a publisher repeats comes once; what was not confirmed may be repeated."""
    inbox = Inbox(adapter, SECONDS)
    first, second, last = map(storm, range(3))
    await adapter.publish([first, first])
    await adapter.publish([second, first])
    await wire.cut()
    with pytest.raises(AdapterUnavailable):
        await adapter.publish([last])  # Not confirmed, so not remembered.
    await wire.join()
    await published(adapter, last)
    assert set(await inbox.until(last.id)) == {first.id, second.id}


async def run_without_a_word(
    running: AbstractAsyncContextManager[Adapter], caplog: pytest.LogCaptureFixture
) -> None:
    """An adapter that has nothing to say says nothing, and never the password."""
    caplog.set_level(logging.DEBUG)
    async with running as adapter:
        await adapter.publish([storm()])
        await Inbox(adapter, SECONDS).take(1)
    assert [record for record in caplog.records if record.name.startswith("adapters")] == []
    assert PASSWORD not in str([vars(record) for record in caplog.records])


def told(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    """The fields of each *event* in the log of the adapters."""
    return [
        vars(record)
        for record in caplog.records
        if record.name.startswith("adapters") and record.getMessage() == event
    ]


async def until_told(caplog: pytest.LogCaptureFixture, event: str) -> dict[str, Any]:
    """Wait for the first *event* in the log of the adapters; its fields."""
    await until(lambda: told(caplog, event), SECONDS)
    return told(caplog, event)[0]


def reasons(caplog: pytest.LogCaptureFixture) -> str:
    """Why connections could not be opened, or ended; a line each."""
    return "\n".join(each["reason"] for each in told(caplog, "adapter.disconnected"))


def judge_wrapped(
    payload: bytes, media_type: str | None, text: str | None, encoding: str | None
) -> None:
    """*payload* is what a body that is no XML was made."""
    root = parse_document(payload)
    assert root.tag == f"{{{DRAGOMAN_DATA}}}data"
    assert root.get("content-type") == (media_type or "application/octet-stream")
    assert (root.text, root.get("encoding")) == (text, encoding)
