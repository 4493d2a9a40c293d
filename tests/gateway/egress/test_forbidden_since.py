"""An operator forbids an address to which connections are kept, by the name of their consumer."""

import asyncio

import pytest

from filters import Refused
from gateway.egress import AddressPolicy, FailureKind, SendFailed
from gateway.model.host_decisions import Decision, HostDecision, HostDecisions
from gateway.web.destinations import host_of
from tests.rigs.scripted_peers import ACCEPTED, consuming, keeping, message, read_request, sending
from tests.rigs.soap_tcp import consuming as consuming_tcp
from tests.rigs.soap_tcp import transporting, until

FORBIDDEN = HostDecision("127.0.0.1", Decision.FORBIDDEN, "user:a", 1.0)


async def test_kept_connections_are_not_used() -> None:
    known = HostDecisions()
    policy = AddressPolicy(loopback=True, decisions=known)
    async with consuming(keeping) as consumer, sending(policy) as transport:
        request = message(f"http://localhost:{consumer.port}/")
        await transport.send(request)
        known.replace([FORBIDDEN])
        lane = transport.lane(request.target)
        assert lane is None or lane.post(request, lambda _: None) is None
        with pytest.raises(SendFailed) as failure:
            await transport.send(request)
        assert failure.value.kind is FailureKind.FORBIDDEN
        known.replace([])
        await transport.send(request)
        assert consumer.connections == 2


async def test_one_that_is_given_back_is_not_handed_on() -> None:
    """What is under way ends as it does; the next that waits for its connection gets none."""
    known, answered = HostDecisions(), asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            await answered.wait()
            writer.write(ACCEPTED)

    policy = AddressPolicy(loopback=True, decisions=known)
    async with consuming(late) as consumer, sending(policy) as transport:
        request = message(f"http://localhost:{consumer.port}/")
        sent = [asyncio.ensure_future(transport.send(request)) for _ in range(12)]
        await until(lambda: consumer.connections == 8)
        known.replace([FORBIDDEN])
        answered.set()
        results = await asyncio.gather(*sent, return_exceptions=True)
    kinds = [one.kind for one in results if isinstance(one, SendFailed)]
    assert kinds == [FailureKind.FORBIDDEN] * 4


async def test_over_soap_tcp() -> None:
    known = HostDecisions()
    policy = AddressPolicy(loopback=True, decisions=known)
    async with consuming_tcp() as consumer, transporting(policy=policy) as transport:
        consumer.host = "localhost"
        request = consumer.request("one")
        await transport.send(request)
        known.replace([FORBIDDEN])
        assert transport.lane(request.target) is None
        with pytest.raises(SendFailed) as failure:
            await transport.send(request)
        assert failure.value.kind is FailureKind.FORBIDDEN


@pytest.mark.parametrize(
    ("named", "host"),
    [
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("http://[::FFFF:c000:207]:80", "192.0.2.7"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("bücher.Example", "xn--bcher-kva.example"),
        ("http://Mole.Example:8080", "mole.example"),
    ],
)
def test_hosts_as_they_are_kept(named: str, host: str) -> None:
    assert host_of(named) == host


@pytest.mark.parametrize("named", ["mole.example.", "127.1", "a b", "mole.example:80", ""])
def test_what_is_no_host(named: str) -> None:
    with pytest.raises(Refused):
        host_of(named)
