"""How much is sent at a time."""

import asyncio
import socket
from collections import Counter

from gateway.client.reliable import ReliableClient
from gateway.client.reliable.posting import ALONE
from gateway.client.reliable.send_limits import SendLimits
from gateway.reliability.values import Outgoing
from mediation.model.messages import EndpointReference
from tests.rigs.reliable_ends import WIRE_1_1


class Work:
    """What is done of each lane, and how much of it at a time."""

    def __init__(self, of_a_lane: int, of_a_host: int) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self.lanes = SendLimits(self.do, self.begin, of_a_lane, of_a_host)
        self.goes_on = asyncio.Event()
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.most_of_all = 0
        self.done: list[tuple[str, int]] = []

    def begin(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]  # A coroutine.
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def do(self, item: tuple[str, int]) -> None:
        self.now[item[0]] += 1
        self.most[item[0]] = max(self.most[item[0]], self.now[item[0]])
        self.most_of_all = max(self.most_of_all, self.now.total())
        await self.goes_on.wait()
        await asyncio.sleep(0)
        self.now[item[0]] -= 1
        self.done.append(item)

    async def end(self) -> None:
        self.goes_on.set()
        async with asyncio.timeout(30):
            while self.tasks:
                await asyncio.wait(self.tasks)


async def test_no_more_at_a_time_of_a_lane() -> None:
    work = Work(2, 100)
    for number in range(20):
        for lane in ("a", "b", "c"):
            work.lanes.add("host", lane, (lane, number))
    await work.end()
    assert sorted(work.done) == [(lane, number) for lane in "abc" for number in range(20)]
    assert work.most == {"a": 2, "b": 2, "c": 2}
    assert len(work.lanes) == 0


async def test_no_more_at_a_time_of_a_host() -> None:
    work = Work(2, 3)
    for number in range(20):
        for lane in ("a", "b", "c"):
            work.lanes.add("host", lane, (lane, number))
    await work.end()
    assert (work.most_of_all, len(work.done), len(work.lanes)) == (3, 60, 0)


async def test_hosts_are_not_in_each_others_way() -> None:
    work = Work(1, 1)
    work.lanes.add("one", "a", ("a", 1))
    work.lanes.add("one", "b", ("b", 1))
    work.lanes.add("other", "c", ("c", 1))
    await asyncio.sleep(0)
    assert work.now == {"a": 1, "c": 1}
    await work.end()
    assert work.most_of_all == 2


async def test_lanes_have_their_turns() -> None:
    work = Work(1, 1)
    for number in range(3):
        work.lanes.add("host", "a", ("a", number))
    work.lanes.add("host", "b", ("b", 0))
    await work.end()
    assert work.done == [("a", 0), ("b", 0), ("a", 1), ("a", 2)]


async def test_what_goes_one_way_begins_together() -> None:
    work = Work(2, 4)
    for number in range(3):
        for lane in ("a", "b", "c"):
            work.lanes.add("host", lane, (lane, number))
    await asyncio.sleep(0)
    assert work.now == {"a": 2, "b": 2}
    await work.end()
    assert work.most == {"a": 2, "b": 2, "c": 2}


async def test_what_comes_while_it_works() -> None:
    work = Work(1, 2)
    work.lanes.add("host", "a", ("a", 0))
    await asyncio.sleep(0)
    work.lanes.add("host", "a", ("a", 1))
    work.lanes.add("host", "b", ("b", 0))
    await asyncio.sleep(0)
    assert work.now == {"a": 1, "b": 1}
    await work.end()
    assert len(work.done) == 3


def outgoing(url: str, label: str, key: str | None = None) -> Outgoing:
    to = EndpointReference(url, WIRE_1_1.wsa)
    return Outgoing(to, b"<a/>", "urn:example:a", WIRE_1_1, label, key)


def test_acknowledgements_for_a_host_that_hangs_are_bounded() -> None:
    client = ReliableClient("memory:")
    with client, socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        url = f"http://{host}:{port}/back"

        async def post() -> int:
            for _ in range(ALONE + 50):
                client._workers.posts.post(outgoing(url, "Acknowledgement"))
            return client._workers.posts.alone

        assert client._workers.submit(post()).result(30) == ALONE
        # Where nobody listens any more all of them end.
    assert not client._workers.posts.alone


def test_what_comes_after_the_end_is_not_on_its_way() -> None:
    """It would never be sent again, when the client is started anew."""
    client = ReliableClient("memory:")
    with client:
        pass
    client._workers.posts.post(outgoing("http://127.0.0.1:9/", "message 1", "to nobody"))
    assert not client._workers.posts._in_flight
