"""The consumer at SOAP.TCP, whose messages the system acknowledges."""

import asyncio

import pytest

from gateway.client.consumer import Headers, read_message
from gateway.client.soap_tcp import SoapTcpCaller, SoapTcpConsumer
from mediation.client import Ended, Received
from mediation.model.versions import Soap
from tests.gateway.client.test_cancelled_waits import EVENT, payloads
from tests.rigs.waiting import DEADLINE, until


async def test_a_failing_reader_stops_no_connection_of_soap_tcp(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What comes on it later is acknowledged by the system, so that it comes once only."""
    failures = [RuntimeError("cannot schedule new futures after shutdown")]

    async def read(headers: Headers, octets: bytes) -> tuple[Received, ...] | Ended:
        if failures:
            raise failures.pop()
        return read_message(headers, octets)

    async with asyncio.timeout(DEADLINE), SoapTcpConsumer(read=read) as consumer:
        caller = SoapTcpCaller()
        for number in range(3):
            octets = EVENT.format(consumer.address, number).encode()
            await caller.call(consumer.address, Soap.V1_2, octets, one_way=True)
            await until(lambda: not failures)
        assert payloads([await consumer.receive() for _ in range(2)]) == ["<n>1</n>", "<n>2</n>"]
        caller.close()
    assert "a message could not be read" in caplog.text
