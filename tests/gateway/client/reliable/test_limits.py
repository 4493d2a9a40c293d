"""How much is done at a time."""

import asyncio
import socket

from gateway.client.reliable import ReliableClient
from gateway.client.reliable.limits import Limits
from gateway.client.reliable.workers import ALONE
from gateway.reliability.values import Outgoing
from mediation import EndpointReference
from tests.rigs.reliable_ends import WIRE_1_1


async def test_no_more_at_a_time_whoever_comes_and_goes() -> None:
    limits: Limits[int] = Limits(2)
    now, most = 0, 0

    async def work(key: int, rounds: int) -> None:
        nonlocal now, most
        for _ in range(rounds):
            async with limits.turn(key):
                if key == 0:
                    now += 1
                    most = max(most, now)
                await asyncio.sleep(0)
                if key == 0:
                    now -= 1

    async with asyncio.timeout(30):
        await asyncio.gather(
            *(work(0, 20) for _ in range(5)), *(work(key, 1) for key in range(1, 500))
        )
    assert (now, most, len(limits)) == (0, 2, 0)


async def test_who_waits_and_is_cancelled_has_no_turn() -> None:
    limits: Limits[str] = Limits(1)
    async with limits.turn("host"):
        waits = asyncio.create_task(limits.turn("host").__aenter__())
        await asyncio.sleep(0)
        waits.cancel()
        await asyncio.wait([waits], timeout=30)
        assert len(limits) == 1
    assert len(limits) == 0
    async with asyncio.timeout(30), limits.turn("host"):
        assert len(limits) == 1


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
                client._workers.post(outgoing(url, "Acknowledgement"))
            return len(client._workers._tasks)

        assert client._workers.submit(post()).result(30) == ALONE
        # Where nobody listens any more all of them end.
    assert not client._workers._alone


def test_what_comes_after_the_end_is_not_on_its_way() -> None:
    """It would never be sent again, when the client is started anew."""
    client = ReliableClient("memory:")
    with client:
        pass
    client._workers.post(outgoing("http://127.0.0.1:9/", "message 1", "to nobody"))
    assert not client._workers._in_flight
