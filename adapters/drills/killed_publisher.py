"""A process that publishes through an adapter until it is killed, and says what was confirmed.

It reads what it works with from its standard input, since URLs have passwords.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import cast

from adapters.drills.workbench import Workbench, started
from adapters.loading import adapter_class, load
from adapters.protocol import Isolating


async def publish(url: str, settings: dict[str, str], data: str, namespace: str) -> None:
    """Publish events one by one, and print the id of each once it is confirmed."""
    kind = cast(type[Isolating], adapter_class(url.partition(":")[0]))
    bench = Workbench(kind, url, settings, "", Path(data), namespace=namespace)
    adapter = load(url, data=Path(data), settings=settings)
    async with started(adapter, bench.interest()):
        while True:
            event = bench.notification()
            await adapter.publish([event])
            print(event.id, flush=True)


if __name__ == "__main__":
    asyncio.run(publish(**json.loads(sys.stdin.readline())))
