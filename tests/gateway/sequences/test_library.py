"""The library for applications sends to a gateway that is killed: what it stored is published,
once, in order."""

import asyncio
from pathlib import Path

import pytest

from gateway.client.reliable import Policy, ReliableClient
from tests.gateway.sequences.test_kill import ENVIRONMENT
from tests.rigs.consumers import consumers
from tests.rigs.processes import GatewayProcess, gateway_process
from tests.rigs.reliable_publishers import ACTION, numbers_in
from tests.rigs.waiting import until

COUNT = 40
QUICK = Policy(interval=0.2, ceiling=0.5, tries=500)


@pytest.mark.slow
async def test_the_gateway_is_killed(tmp_path: Path) -> None:
    async with consumers() as some, gateway_process(tmp_path / "data", ENVIRONMENT) as gateway:
        consumer = some.add()
        await gateway.subscribe(consumer.url)
        # Its port changes with each start, but not its address for the client.
        server, url = await relay_to(gateway)
        client = ReliableClient(f"sqlite:///{tmp_path / 'client.db'}", policy=QUICK)
        async with server, client:
            for number in range(1, COUNT + 1):
                body = b'<e:event xmlns:e="urn:example">%d</e:event>' % number
                await asyncio.to_thread(client.send, url, body, action=ACTION)
                if number in (10, 30):
                    await until(lambda: bool(consumer.received))
                    await gateway.kill()
                    await gateway.start()
            await until(lambda: client.waiting() == 0)
        await gateway.at_rest()
        first: list[int] = []
        for number in numbers_in(receipt.body for receipt in consumer.received):
            if number not in first:
                first.append(number)
        assert first == list(range(1, COUNT + 1))


async def relay_to(gateway: GatewayProcess) -> tuple[asyncio.Server, str]:
    """A relay to wherever the gateway listens now, and the URL of its endpoint there."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while octets := await reader.read(65536):
                writer.write(octets)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, out = await asyncio.open_connection("127.0.0.1", gateway.port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, out), pump(back, writer))

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/soap"
