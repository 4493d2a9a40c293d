"""The library for applications is the consumer of a sequence: each event comes to its function once,
in order, though the gateway and the consumer are ended and started again."""

from pathlib import Path

import pytest

from gateway.client.reliable import Delivery, Receiver
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running
from tests.rigs.ports import free_ports
from tests.rigs.receivers import served
from tests.rigs.reliable_consumers import policy
from tests.rigs.waiting import until

SETTINGS = {"adapter": "embedded:", "retry_delays": ",".join(["0.1"] * 30)}


@pytest.mark.slow
async def test_both_are_started_again(tmp_path: Path) -> None:
    got: list[str] = []
    speaker, [port] = Speaker(), free_ports(1)

    def receiver() -> Receiver:
        def take(delivery: Delivery) -> None:
            got.append(delivery.body.split(b"<n>")[1].split(b"<")[0].decode())

        made = Receiver(f"sqlite:///{tmp_path / 'consumer.db'}")
        made.service("/events", take)
        return made

    async def have(last: int) -> None:
        await until(lambda: got == [str(number) for number in range(1, last + 1)])

    last = 0
    for start in range(3):
        async with running(tmp_path / "gateway", **SETTINGS) as run:
            with served(receiver(), port=port) as url:
                if start == 0:
                    body = speaker.wse_subscribe(f"{url}/events")
                    body = body.replace("</e:Delivery>", f"{policy()}</e:Delivery>")
                    await run.subscribe(speaker, body)
                for number in range(last + 1, last + 4):
                    await run.publish(f'<t:event xmlns:t="urn:t"><n>{number}</n></t:event>')
                last += 3
                await have(last)
                await run.quiet()
            # What is published while the consumer is away waits for it.
            last += 1
            await run.publish(f'<t:event xmlns:t="urn:t"><n>{last}</n></t:event>')
            with served(receiver(), port=port):
                await have(last)
                await run.quiet()
    await have(12)
