"""Viewers at gateways in this process: what they see, what is in the way, and how they end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from filters import Refused
from gateway.client import Client
from gateway.client.delivery_checks import CheckState
from gateway.web.console.viewer.calls import TransportChoice
from gateway.web.console.viewer.versions import SPOKEN
from gateway.web.console.viewer.viewer import MESSAGES, OCTETS, Viewer, Wanted, Way
from gateway.web.console.viewer.viewers import AT_A_TIME, Viewers
from mediation.client import SPECS
from mediation.model.versions import Version
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

BLOCKING = {"consumers": [{"address": "127.0.0.1", "via": "http://127.0.0.1:1"}]}
"""Of a gateway whose messages are forwarded to where nobody listens."""


@contextlib.asynccontextmanager
async def viewing(
    here: Running, *, quiet: float = 60.0, idle: float = 60.0
) -> AsyncIterator[Viewers]:
    """Viewers of the gateway *here*."""
    transport = here.gateway.transport
    transports = TransportChoice([], transport, transport, here.gateway.policy)
    viewers = Viewers(transports, quiet=quiet, idle=idle)
    try:
        yield viewers
    finally:
        await viewers.stop()


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[Running, Running]]:
    """A gateway, and a second one that a viewer of the first subscribes at."""
    async with running(tmp_path / "here") as here, running(tmp_path / "there") as there:
        yield here, there


def states(viewer: Viewer) -> list[CheckState]:
    return [one.state for one in viewer.checks]


async def accepted(viewer: Viewer) -> None:
    await until(lambda: viewer.ended or states(viewer)[1] is CheckState.PASSED)
    assert not viewer.ended, viewer.ended


async def publish(
    there: Running, count: int = 1, payload: bytes = b"<a><b/></a>", topic: str = "storms"
) -> None:
    async with Client(there.url) as client:
        for _ in range(count):
            await client.publish(payload, topic=topic)


def subscriptions(run: Running) -> int:
    return len(run.gateway.subscriptions.entries)


async def test_messages_are_sent(two: tuple[Running, Running]) -> None:
    """In every version that a viewer speaks."""
    here, there = two
    async with viewing(here) as viewers:
        for version in SPOKEN:
            viewer = viewers.begin(Wanted(there.url, version, topic=f"storms/{version.name}"))
            await accepted(viewer)
            await publish(there, topic=f"storms/{version.name}")
            await until(lambda: viewer.messages)  # noqa: B023  (It is awaited here.)
            assert states(viewer) == [CheckState.PASSED] * 4, version
            [payload] = await viewer.payloads_of(viewer.messages[0])
            assert "<b" in payload, version
            await viewer.close()
            # The leases of Grid events cannot be ended, but shortened.
            assert subscriptions(there) == 0 or version is Version.GRID_EVENTS, version
            assert viewer.ended == "it was stopped"


async def test_messages_are_fetched(two: tuple[Running, Running]) -> None:
    """In every version that a viewer speaks."""
    here, there = two
    async with viewing(here) as viewers:
        for version in SPECS:
            topic = f"storms/{version.name}"
            viewer = viewers.begin(Wanted(there.url, version, topic=topic, way=Way.PULL))
            await accepted(viewer)
            await publish(there, 3, topic=topic)
            await until(lambda: viewer.received == 3)  # noqa: B023  (It is awaited here.)
            assert [one.number for one in viewer.messages] == [1, 2, 3], version
            await viewer.close()
            assert subscriptions(there) == 0, version


async def test_over_soap_tcp(tmp_path: Path) -> None:
    """The broker is asked over it, or the messages come over it, or both."""
    async with (
        running(tmp_path / "here") as here,
        running(tmp_path / "there", soap_tcp_port=0) as there,
        viewing(here) as viewers,
    ):
        both = (there.soap_tcp, Way.SOAP_TCP)
        for url, way in ((there.url, Way.SOAP_TCP), (there.soap_tcp, Way.PUSH), both):
            for version in SPECS:
                topic = f"storms/{version.name}"
                viewer = viewers.begin(Wanted(url, version, topic=topic, way=way))
                await accepted(viewer)
                [entry] = there.gateway.subscriptions.entries
                scheme = "soap.tcp" if way is Way.SOAP_TCP else "http"
                assert entry.target.scheme == scheme
                await publish(there, 3, topic=topic)
                await until(lambda: viewer.received == 3)  # noqa: B023  (It is awaited here.)
                assert states(viewer)[:3] == [CheckState.PASSED] * 3, (url, version)
                [payload] = await viewer.payloads_of(viewer.messages[0])
                assert "<b" in payload
                await viewer.close()
                assert subscriptions(there) == 0, (url, version)


async def test_something_is_in_the_way(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "here") as here,
        running(tmp_path / "there", **BLOCKING) as there,
        viewing(here, quiet=0.01) as viewers,
    ):
        viewer = viewers.begin(Wanted(there.url, topic="storms"))
        await accepted(viewer)
        await until(lambda: "looking" in viewer.checks[3].text)
        await publish(there)
        await until(lambda: states(viewer)[3] is CheckState.FAILED)
        assert "something is in the way" in viewer.checks[3].text
        assert "http://127.0.0.1:" in viewer.checks[3].text
        assert viewer.received == 0
        await viewer.close()
        assert subscriptions(there) == 0


@pytest.mark.parametrize(
    ("wanted", "check", "text"),
    [
        ({"url": "http://127.0.0.1:1"}, 0, "cannot reach http://127.0.0.1:1: "),
        ({"url": "http://169.254.169.254/"}, 0, "The setting egress_allow can allow it"),
        ({"url": "http://user:word@127.0.0.1:8080/"}, 0, "a user or a password"),
        ({"topic": "a|"}, 1, "refused: "),
        ({"way": Way.PULL, "url": "http://127.0.0.1:1"}, 0, "cannot reach"),
        ({"url": "soap.tcp://127.0.0.1:1"}, 0, "cannot reach soap.tcp://127.0.0.1:1: connection"),
        ({"url": "soap.tcp://169.254.169.254/"}, 0, "The setting egress_allow can allow it"),
        ({"version": Version.GRID_EVENTS, "xpath": "//a"}, 0, "there is no XPath"),
    ],
)
async def test_why_there_is_no_subscription(
    two: tuple[Running, Running], wanted: dict[str, object], check: int, text: str
) -> None:
    here, there = two
    async with viewing(here) as viewers:
        viewer = viewers.begin(Wanted(**{"url": there.url, **wanted}))  # type: ignore[arg-type]
        await until(lambda: viewer.ended)
        assert text in viewer.ended
        assert states(viewer)[check] is CheckState.FAILED
        assert "word" not in viewer.ended.replace("password", "")


async def test_the_gateway_ends_the_subscription(two: tuple[Running, Running]) -> None:
    here, there = two
    async with viewing(here) as viewers:
        viewer = viewers.begin(Wanted(there.url, Version.WSE_2004_08, topic="storms"))
        await accepted(viewer)
        [entry] = there.gateway.subscriptions.entries
        await there.api("DELETE", f"/subscriptions/{entry.subscription.id}")
        await until(lambda: viewer.ended)
        assert viewer.ended.startswith("the broker ended the subscription")


async def test_nobody_looks_at_it(two: tuple[Running, Running]) -> None:
    here, there = two
    async with viewing(here, idle=3.0) as viewers:
        viewer = viewers.begin(Wanted(there.url, topic="storms"))
        await until(lambda: viewer.ended)
        assert viewer.ended == "nobody looked at it for 3 seconds"
        assert subscriptions(there) == 0
        viewer.seen()  # It stays as it is.


async def test_what_is_kept_is_bounded(two: tuple[Running, Running]) -> None:
    here, there = two
    async with viewing(here) as viewers:
        viewer = viewers.begin(Wanted(there.url, topic="storms"))
        await accepted(viewer)
        await publish(there, 5)
        await until(lambda: viewer.received == 5)
        viewer.pause()
        await publish(there, MESSAGES)
        await until(lambda: viewer.received == MESSAGES + 5)
        assert [one.number for one in viewer.messages] == [1, 2, 3, 4, 5]
        viewer.resume()
        assert len(viewer.messages) == MESSAGES and viewer.dropped == 5
        await publish(there, 6, b"<a>" + b"x" * 900_000 + b"</a>")
        await until(lambda: viewer.received == MESSAGES + 11)
        assert sum(len(one.message.octets) for one in viewer.messages) <= OCTETS
        viewer.clear()
        assert viewer.messages == ()


async def test_so_many_at_a_time(two: tuple[Running, Running]) -> None:
    here, there = two
    async with viewing(here) as viewers:
        begun = [viewers.begin(Wanted(there.url)) for _ in range(AT_A_TIME)]
        with pytest.raises(Refused, match="viewers run already"):
            viewers.begin(Wanted(there.url))
        await begun[0].close()
        viewers.begin(Wanted(there.url))
        await asyncio.gather(*(accepted(one) for one in viewers.all if not one.ended))
    with pytest.raises(Refused, match="stopping"):
        viewers.begin(Wanted(there.url))
    assert subscriptions(there) == 0
