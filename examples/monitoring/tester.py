"""The test publisher: one event now and then, and one that no filter lets through.

Usage: tester.py GATEWAY SOURCE [SECONDS BETWEEN]
"""

import asyncio
import sys
import time

from sensing import NAMESPACE

from gateway.client import GatewayError
from gateway.client.grid_events import Event, Publisher


async def test(gateway: str, source: str, seconds: float) -> None:
    number = 0
    async with Publisher(gateway) as publisher:
        while True:
            await asyncio.sleep(seconds)
            number += 1
            for where in (source, "stranger.elsewhere.example"):
                event = Event(
                    event_namespace=NAMESPACE, event_type="test.tick", source=where,
                    timestamp=time.time_ns() // 1_000_000, seq_no=number,
                    message=f"test event {number}",
                )  # fmt: skip
                try:
                    await publisher.publish(event)
                except GatewayError as error:
                    print(f"{where}: {error}", file=sys.stderr)


if __name__ == "__main__":
    between = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
    asyncio.run(test(sys.argv[1], sys.argv[2], between))
