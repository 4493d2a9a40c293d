"""Trials of an adapter in front of a real broker, the same for each: a subclass names the broker.

As `adapters.testing.AdapterContract`, for what only a broker between the two can do: be cut off,
fall silent, serve native programs.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from adapters import EVERYTHING_WANTED, Adapter, AdapterUnavailable, Interest, load
from adapters.testing import AdapterContract, DialectContract, Inbox
from filters import Expression
from tests.rigs.adapters import (
    CALM,
    NO_XML,
    SECONDS,
    STORM,
    cut_while_publishing,
    fall_silent_while_publishing,
    judge_wrapped,
    publish_repeatedly,
    published,
    reasons,
    run_without_a_word,
    storm,
)
from tests.rigs.brokers import Node, Wire, wire_to
from tests.rigs.waiting import until


class ContractOverAWire(AdapterContract):
    """The contract of an adapter, over a wire to a broker that the tests of outages cut."""

    durable = True
    wire: Wire
    url: str
    settings: dict[str, str]

    def port(self, broker: Any) -> int:
        return int(broker.port)

    def url_at(self, broker: Any, port: int) -> str:
        return str(broker.at(port))

    def make_settings(self) -> dict[str, str]:
        """Settings of one test: what keeps it from what others left in the broker."""
        return {}

    @pytest_asyncio.fixture(autouse=True)
    async def _over_a_wire(self, broker: Node) -> AsyncIterator[None]:
        self.settings = self.make_settings()
        async with wire_to(self.port(broker)) as self.wire:
            self.url = self.url_at(broker, self.wire.port)
            yield

    async def interrupt(self) -> None:
        await self.wire.cut()

    async def resume(self) -> None:
        await self.wire.join()

    def make_adapter(self, data: Path) -> Adapter:
        return load(self.url, data=data, settings=self.settings)


class SelectorContractOverAWire(ContractOverAWire, DialectContract):
    """The same of a broker that evaluates message selectors of JMS."""

    def selecting(self, dialect: str, value: str) -> Expression:
        return Expression(f"severity = '{value}'", dialect)

    def broken(self, dialect: str) -> Expression:
        return Expression("severity = = 9", dialect)  # Only the broker sees that.


class BrokerTrials:
    """What all trials need: an adapter that runs, in front of the fixture ``broker``."""

    def running(
        self, url: str, name: str, data: Path, *interests: Interest, **settings: str
    ) -> AbstractAsyncContextManager[Adapter]:
        """Run an adapter with queues of *name*, and a folder *data*."""
        raise NotImplementedError


class FaultTrials(BrokerTrials):
    """What a broker and the network do to any adapter."""

    heartbeat: ClassVar[tuple[str, float]]
    """The shortest heartbeat, and the seconds within which a silent broker is noticed by it."""
    wants_while_cut: ClassVar[bool]
    """True if `want` works without a connection, because the broker's queue has all topics."""
    second_publishes: ClassVar[bool]
    """True if a second gateway of the same name may publish, though not consume."""

    def secure_url(self, broker: Any) -> str:
        """The URL of the broker's port for TLS, by the name in its certificate."""
        raise NotImplementedError

    async def test_a_connection_is_cut_and_heals(
        self, broker: Node, name: str, tmp_path: Path
    ) -> None:
        async with (
            wire_to(broker.port) as wire,
            self.running(broker.at(wire.port), name, tmp_path) as adapter,
        ):
            inbox = Inbox(adapter, SECONDS)
            first, second, third = map(storm, range(3))
            await adapter.publish([first, second])
            settled, pending = await inbox.take(2, settle=False)
            settled.settle()
            await asyncio.sleep(0.1)  # Nothing tells that the broker has read the acknowledgement.
            await wire.cut()
            with pytest.raises(AdapterUnavailable) as refused:
                await adapter.publish([third])
            assert refused.value.retry_after >= 1
            if self.wants_while_cut:
                await adapter.want(CALM)
            else:
                with pytest.raises(AdapterUnavailable):
                    await adapter.want(CALM)
            pending.settle()  # Its connection is gone: that says nothing.
            await wire.join()
            await published(adapter, third)
            again, fresh = await inbox.take(2)
            assert (again.notification, again.redelivered) == (second, True)
            assert (fresh.notification, fresh.redelivered) == (third, False)
            pending.settle()
            await adapter.want(CALM)
            await adapter.publish([calm := storm(4, "calm")])
            assert (await inbox.take(1))[0].notification == calm

    async def test_publishers_in_flight_are_told_when_the_connection_is_cut(
        self, broker: Node, name: str, tmp_path: Path
    ) -> None:
        async with (
            wire_to(broker.port) as wire,
            self.running(broker.at(wire.port), name, tmp_path) as adapter,
        ):
            await cut_while_publishing(wire, adapter)

    async def test_a_silent_broker_is_noticed(
        self, broker: Node, name: str, tmp_path: Path
    ) -> None:
        heartbeat, within = self.heartbeat
        async with (
            wire_to(broker.port) as wire,
            self.running(broker.at(wire.port), name, tmp_path, heartbeat=heartbeat) as adapter,
        ):
            await fall_silent_while_publishing(wire, adapter, within=within)

    async def test_a_publisher_that_repeats_itself(
        self, broker: Node, name: str, tmp_path: Path
    ) -> None:
        async with (
            wire_to(broker.port) as wire,
            self.running(broker.at(wire.port), name, tmp_path) as adapter,
        ):
            await publish_repeatedly(wire, adapter)

    async def test_a_second_gateway_of_the_same_name(
        self, broker: Node, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        one, other = tmp_path / "first", tmp_path / "second"
        async with self.running(broker.url, name, one) as first:
            inbox = Inbox(first, SECONDS)
            await published(first, early := storm())  # It has the name, however slow the broker.
            assert (await inbox.take(1))[0].notification == early
            async with self.running(broker.url, name, other, EVERYTHING_WANTED) as second:
                refusal = f"another gateway uses the name '{name}'"
                await until(lambda: refusal in reasons(caplog), SECONDS)
                with pytest.raises(AdapterUnavailable, match=refusal) as told:
                    await second.want(STORM)
                assert "?name=" in told.value.text, "what mends it"
                assert second.capabilities.reporting is not None
                state = second.capabilities.reporting()
                assert state is not None
                assert told.value.text.endswith(state.last_error)
                publisher = second if self.second_publishes else first
                await publisher.publish([sent := storm()])
                assert (await inbox.take(1))[0].notification == sent

    async def test_what_is_logged_without_a_fault(
        self, broker: Node, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        await run_without_a_word(self.running(broker.url, name, tmp_path), caplog)

    async def test_tls(
        self, broker: Any, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        url = self.secure_url(broker)
        async with self.running(url, name, tmp_path, ca=str(broker.ca)) as adapter:
            sent = replace(storm(), payload=b"<n>%s</n>" % (b"x" * 2**20))
            await adapter.publish([sent])
            assert (await Inbox(adapter, SECONDS).take(1))[0].notification == sent
        async with self.running(url, name, tmp_path) as adapter:  # The machine does not know it.
            assert "certificate verify failed" in reasons(caplog).lower()
            with pytest.raises(AdapterUnavailable):
                await adapter.publish([storm()])


class NativeTrials(BrokerTrials):
    """What programs that use the broker directly may send."""

    def send(self, program: Any, name: str, body: bytes, media_type: str | None) -> None:
        """Publish *body* on the topic ``storm`` of the gateway *name*, through *program*."""
        raise NotImplementedError

    @pytest.mark.parametrize(("body", "media_type", "text", "encoding"), NO_XML)
    async def test_what_is_no_xml_arrives_once(
        self,
        broker: Node,
        name: str,
        tmp_path: Path,
        program: Any,
        body: bytes,
        media_type: str | None,
        text: str | None,
        encoding: str | None,
    ) -> None:
        async with self.running(broker.url, name, tmp_path) as adapter:
            inbox = Inbox(adapter, SECONDS)
            self.send(program, name, body, media_type)
            (delivery,) = await inbox.take(1)
            await adapter.publish([last := storm()])
            assert await inbox.until(last.id) == []
        judge_wrapped(delivery.notification.payload, media_type, text, encoding)
