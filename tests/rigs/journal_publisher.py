"""A process that publishes into a journal until it is killed. Run by the tests beside it.

    python -m tests.rigs.journal_publisher FOLDER RUN TASKS COUNT

Each line that it writes is one event: ``a ID`` when a publication was accepted, ``d ID`` when a
message was yielded, before it is settled. With COUNT 0 it never ends; else nothing is yielded.
"""

import asyncio
import os
import sys
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from adapters import EVERYTHING_WANTED, Adapter, load
from mediation.model.messages import Notification


def say(event: str, id: str) -> None:
    os.write(1, f"{event} {id}\n".encode())  # at once, and whole


async def consume(adapter: Adapter) -> None:
    async for delivery in adapter.deliveries():
        say("d", delivery.notification.id)
        delivery.settle()


async def publish(adapter: Adapter, name: str, number: int) -> None:
    for n in range(number) if number else count():
        id = f"{name}/{n}"
        payload = f"<a>{id * (n % 50)}</a>".encode()
        await adapter.publish([Notification(id, "urn:publisher", payload, datetime.now(UTC))])
        say("a", id)


async def main(folder: str, run: str, tasks: str, number: str) -> None:
    adapter = load("embedded:", data=Path(folder), settings={})
    await adapter.start([EVERYTHING_WANTED])
    async with asyncio.TaskGroup() as group:
        if not int(number):
            group.create_task(consume(adapter))
        for task in range(int(tasks)):
            group.create_task(publish(adapter, f"{run}.{task}", int(number)))
    await adapter.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
