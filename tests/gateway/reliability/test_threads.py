"""Several threads, as several processes would, on one store at each side: what only locks of real
stores can get wrong."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import pytest

from gateway.reliability.endpoint import Endpoint
from gateway.reliability.party import Channel, Party, anonymous
from gateway.reliability.source import Message
from gateway.reliability.storage import StorageManager, StorageUnavailable, Transaction, run
from gateway.reliability.stores.database import DatabaseStore
from gateway.reliability.stores.memory import MemoryStore
from gateway.reliability.values import Answer, Delivered, Outgoing
from mediation.model.messages import EndpointReference
from mediation.reliable_messaging.policy import Policy
from tests.rigs.postgresql import fresh_database, needs_postgresql
from tests.rigs.reliable_ends import CLIENT, SERVICE, WIRE_1_1, content_of

MESSAGES = 10
"""Of each sending thread."""
DEADLINE = 120.0
QUICK = Policy(interval=0.2, ceiling=1.0, tries=1000, ack_after=0.02, ack_every=4, window=8)


class Side:
    """A side with several workers. Each has an `Endpoint` of its own, as if it were a process."""

    def __init__(self, name: str, address: str, store: StorageManager) -> None:
        self.name = name
        self.store = store
        self.got: list[tuple[str, int, str]] = []
        self._ids = count(1)
        self._address = address

    def endpoint(self) -> Endpoint:
        return Endpoint(
            Party(
                self.store,
                lambda: f"urn:{self.name}:{next(self._ids)}",
                lambda: 0.5,
                address=self._address,
                policy=QUICK,
                applications={"": self.take},
            )
        )

    def take(self, tx: Transaction, delivered: Delivered) -> Answer | None:
        content = content_of(delivered.envelope)
        self.got.append((delivered.identifier, delivered.number, content))
        if self.name == "client":
            return None
        return Answer("urn:example:Reply", f'<r xmlns="urn:example">{content}</r>'.encode())


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def stores(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[StorageManager, StorageManager]]:
    if request.param == "memory":
        yield MemoryStore(), MemoryStore()
    elif request.param == "sqlite":
        made = [DatabaseStore(f"sqlite:///{tmp_path}/{name}.db") for name in ("client", "service")]
        yield made[0], made[1]
        for store in made:
            store.close()
    else:
        needs_postgresql()
        with fresh_database() as one, fresh_database() as other:
            made = [DatabaseStore(url) for url in (one, other)]
            yield made[0], made[1]
            for store in made:
                store.close()


@pytest.mark.slow
@pytest.mark.parametrize("back", ["called", "anonymous"])
def test_each_message_comes_once_and_in_order(
    stores: tuple[StorageManager, StorageManager], back: str
) -> None:
    client, service = Side("client", CLIENT, stores[0]), Side("service", SERVICE, stores[1])
    wsa = WIRE_1_1.wsa
    acks_to = EndpointReference(CLIENT, wsa) if back == "called" else anonymous(wsa)
    channel = Channel(EndpointReference(SERVICE, wsa), WIRE_1_1, acks_to, offers=True)
    stop = threading.Event()
    random = Random(7)

    def store(endpoint: Endpoint, name: str, message: Message, tx: Transaction) -> None:
        endpoint.send(tx, time.time(), name, channel, message)

    def send(name: str) -> None:
        endpoint = client.endpoint()
        for number in range(MESSAGES):
            body = f'<o xmlns="urn:example">{name} {number}</o>'.encode()
            message = Message("urn:example:Order", body, wants_reply=True)
            run(client.store, partial(store, endpoint, name, message))
        run(client.store, lambda tx: endpoint.end(tx, time.time(), name, channel))

    def post(side: Side, endpoint: Endpoint, outgoing: Outgoing) -> None:
        other = (service if side is client else client).endpoint()
        if random.random() < 0.1:
            return
        reply = other.received(outgoing.envelope, time.time())
        other_side = service if side is client else client
        for each in reply.outgoing:
            post(other_side, other, each)
        if random.random() < 0.1:
            return
        answer = reply.answer.envelope if reply.answer else None
        told = endpoint.sent(outgoing, time.time(), delivered=True, answer=answer)
        for each in told.outgoing:
            post(side, endpoint, each)

    def work(side: Side) -> None:
        endpoint = side.endpoint()
        while not stop.is_set():
            try:
                found = endpoint.due(time.time())
                for outgoing in found:
                    post(side, endpoint, outgoing)
            except StorageUnavailable:
                continue  # Another one was in the way.
            if not found:
                stop.wait(0.02)

    names = ["a", "b"]
    wanted = {f"{name} {number}" for name in names for number in range(MESSAGES)}
    with ThreadPoolExecutor(8) as pool:
        workers = [pool.submit(work, side) for side in (client, client, service, service)]
        senders = [pool.submit(send, name) for name in names]
        end = time.monotonic() + DEADLINE
        while not is_over(client, wanted) and time.monotonic() < end:
            if any(worker.done() for worker in workers):
                break
            stop.wait(0.05)
        stop.set()
        for each in (*senders, *workers):
            each.result()
    for side in (service, client):
        check(side, wanted)


def is_over(client: Side, wanted: set[str]) -> bool:
    return {content for _, _, content in client.got} == wanted


def check(side: Side, wanted: set[str]) -> None:
    # A transaction that is rolled back, and done again, calls the application again: what counts
    # is the last call.
    calls = {(identifier, number): content for identifier, number, content in side.got}
    counts = Counter(calls.values())
    assert set(counts) == wanted
    assert set(counts.values()) == {1}
    for identifier in {identifier for identifier, _ in calls}:
        mine = sorted(
            (number, content) for (each, number), content in calls.items() if each == identifier
        )
        assert [number for number, _ in mine] == list(range(1, len(mine) + 1))
        by_name: dict[str, list[int]] = {}
        for _, content in mine:
            name, _, place = content.partition(" ")
            by_name.setdefault(name, []).append(int(place))
        assert all(places == sorted(places) for places in by_name.values())
