"""Searches that take long: they go on beside everything else, in turns, and are bounded."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from filters.queries import Search, Spent
from gateway.discovery import long_searches, service
from gateway.discovery.long_searches import LongSearches
from gateway.discovery.node_messages import NodeRequest, RunningSearch
from mediation.discovery import Dialect, Fault, Refusal, TopicDiscoveryResponse, queries_of
from tests.rigs.discovery_at_work import (
    CONSUMER,
    PRODUCER,
    AtWork,
    Delivered,
    Published,
    advertise,
    at_work,
    message,
    now,
)
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties
from tests.rigs.stores import sqlite_url
from tests.rigs.waiting import until

DEAR = "count(//*) > 3"


class Held:
    """A node at work whose long searches do not begin before `release`."""

    def __init__(self, node: AtWork, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node = node
        self._monkeypatch = monkeypatch
        self._released = Event()
        node.service._searches._thread._threads.submit(self._released.wait, 30.0)

    def dear(self, speaker: Speaker = CONSUMER, dialect: Dialect = Dialect.XPATH) -> Delivered:
        """A query that is said to take long."""
        text = DEAR if dialect is Dialect.XPATH else "true()"
        return message(speaker.query(now(), text, dialect), queries_of(parties().node_id))

    async def accept(self, asked: Delivered, searching: int) -> None:
        """Have the node take a query, until so many searches go on."""
        self._monkeypatch.setattr(service, "SOON", 0.0)
        self.node.service.accept(asked)
        await until(lambda: len(self.node.service._searches) == searching)
        self._monkeypatch.setattr(service, "SOON", 30.0)

    def release(self) -> None:
        self._released.set()


@asynccontextmanager
async def held(
    folder: Path, monkeypatch: pytest.MonkeyPatch, published: Published | None = None
) -> AsyncIterator[Held]:
    async with at_work(sqlite_url(folder), published) as node:
        one = Held(node, monkeypatch)
        try:
            yield one
        finally:
            one.release()


async def test_others_are_answered_while_a_search_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with held(tmp_path, monkeypatch) as one:
        await advertise(one.node)
        asked = one.dear()
        await one.accept(asked, 1)
        assert await one.node.ask() == 1, "an exact query"
        await one.node.tell(PRODUCER.look_for_nodes(now()), queries_of(parties().node_id))
        assert not asked.settled, "it would be lost in a crash"
        assert len(one.node.published.to(CONSUMER)) == 1
        one.release()
        await until(lambda: asked.settled)
        assert one.node.found() == 1
        assert len(one.node.service._searches) == 0


async def test_a_search_is_begun_anew_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = Published()
    async with held(tmp_path, monkeypatch, published) as one:
        await advertise(one.node)
        asked = one.dear()
        await one.accept(asked, 1)
    assert not asked.settled and not published.to(CONSUMER)
    async with at_work(sqlite_url(tmp_path), published) as node:
        await node.again(asked)
        assert node.found() == 1


async def test_what_was_found_waits_for_the_messaging_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "RETRY", 0.0)
    async with held(tmp_path, monkeypatch) as one:
        await advertise(one.node)
        asked = one.dear()
        await one.accept(asked, 1)
        one.node.published.failures = 2
        one.release()
        await until(lambda: asked.settled)
        assert one.node.found() == 1


async def test_a_message_that_comes_again_meanwhile_is_searched_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with held(tmp_path, monkeypatch) as one:
        await advertise(one.node)
        asked = one.dear()
        await one.accept(asked, 1)
        again = Delivered(asked.notification)
        one.node.service.accept(again)
        await one.node.ask()
        assert len(one.node.service._searches) == 1
        one.release()
        await until(lambda: asked.settled and again.settled)
        assert len(one.node.published.to(CONSUMER)) == 2


async def test_nobody_has_all_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with held(tmp_path, monkeypatch) as one:
        await advertise(one.node)
        for number in range(long_searches.MOST_OF_ONE):
            await one.accept(one.dear(), number + 1)
        monkeypatch.setattr(service, "SOON", 0.0)
        await one.node.again(one.dear())
        [cut] = one.node.published.to(CONSUMER)
        response = CONSUMER.read(cut.payload, now()).message
        assert isinstance(response, TopicDiscoveryResponse)
        assert response.more, "it says that it was cut short"
        await one.accept(one.dear(PRODUCER), long_searches.MOST_OF_ONE + 1)
        monkeypatch.setattr(long_searches, "MOST", long_searches.MOST_OF_ONE + 1)
        monkeypatch.setattr(service, "SOON", 0.0)
        await one.node.again(one.dear(Speaker(None)))  # No room at all: it has nothing yet.


async def test_xquery_never_keeps_others_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with held(tmp_path, monkeypatch) as one:
        asked = one.dear(dialect=Dialect.XQUERY)
        one.node.service.accept(asked)
        await until(lambda: len(one.node.service._searches) == 1)
        one.release()
        await until(lambda: asked.settled)
        [answer] = one.node.published.to(CONSUMER)
        refusal = CONSUMER.read(answer.payload, now()).message
        assert isinstance(refusal, Refusal), "this node has none"
        assert refusal.reason is Fault.UNSUPPORTED_DIALECT


EVIL = "(?:x?.){80}Q"


async def test_a_flood_of_regular_expressions_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one stranger: another one's plain query, and whoever signs, are answered meanwhile."""
    monkeypatch.setattr(service, "SOON", 30.0)
    flooder, other = Speaker(None), Speaker(None)
    released = Event()
    async with at_work(sqlite_url(tmp_path)) as node:
        node.service._searches._of_strangers._threads.submit(released.wait, 30.0)
        try:
            await advertise(node)
            flood = [from_(flooder, "urn:flooder", EVIL, Dialect.REGEX) for _ in range(30)]
            for each in flood:
                node.service.accept(each)
            plain = from_(other, "urn:other", "mole", Dialect.STRING)
            await node.again(plain)
            assert len(node.published.to(other)) == 1
            assert await node.ask() == 1, "who signs"
            assert len(node.service._searches) == long_searches.MOST_OF_STRANGER
            # Another stranger's regular expression has room, and so has one of who signs.
            second = from_(other, "urn:other", "^north", Dialect.REGEX)
            node.service.accept(second)
            await until(lambda: len(node.service._searches) == long_searches.MOST_OF_STRANGER + 1)
            signed = CONSUMER.query(now(), "mole", Dialect.REGEX)
            await node.tell(signed, queries_of(parties().node_id))
            assert node.found() == 1
        finally:
            released.set()
        await until(lambda: all(each.settled for each in (*flood, second)))
        assert node.service._outcomes["dropped-rate"] >= 30 - 10 - 1


def from_(speaker: Speaker, source: str, text: str, dialect: Dialect) -> Delivered:
    """A query of somebody, as the gateway tells publishers apart."""
    asked = message(speaker.query(now(), text, dialect), queries_of(parties().node_id))
    return Delivered(replace(asked.notification, source=source))


# ---- turns ---------------------------------------------------------------------------------------


async def test_searches_go_on_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_searches, "TURN", 0.0)
    done: list[str] = []
    begun = Event()

    def steps(name: str, number: int) -> Iterator[Any]:
        begun.wait(30)
        for _ in range(number):
            done.append(name)
            yield None

    def searching(name: str, number: int) -> RunningSearch:
        asked = SimpleNamespace(signed=True, head=SimpleNamespace(sender=name))
        return RunningSearch(cast(NodeRequest, asked), lambda: Search(steps(name, number), 1))

    them = LongSearches()
    tasks = [
        asyncio.create_task(them.finish(searching(name, number), Spent(10)))
        for name, number in (("long", 6), ("short", 2))
    ]
    await until(lambda: len(them) == 2)
    begun.set()
    async with asyncio.timeout(30):
        await asyncio.gather(*tasks)
    them.close()
    assert done.index("short") <= 2
    assert done[-1] == "long" and len(done) == 8
    assert len(them) == 0
