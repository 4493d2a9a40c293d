"""An auction in WS-Notification 1.2, followed through a gateway by peers of three specifications.

Usage: .venv/bin/python examples/auction/auction.py
"""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from auctioneer import Auctioneer
from bidder import Bidder, new_value
from peers import AUCTION, parse

from gateway.client import Client, Consumer, subscribed
from gateway.client.signals import end_as_by_interrupt
from mediation.model.versions import Version

TOPIC = f"{{{AUCTION}}}highestBid"
BIDS = (("Ada", 100), ("Bela", 90), ("Cleo", 120), ("Ada", 150))
SECONDS = 60.0
"""To wait for what is to come, at most."""
FOLLOWING = (Version.WSE_2004_08, Version.WSN_1_3)
DRAGOMAN = (sys.executable, "-m", "gateway")
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")},
    "PYTHONPATH": str(ROOT),
}
"""Of the gateway, which has no settings but its own."""


def say(who: str, text: str) -> None:
    print(f"{who:>22}  {text}", flush=True)


@asynccontextmanager
async def gateway() -> AsyncIterator[str]:
    """A gateway that runs with a data folder of its own; its URL."""
    with tempfile.TemporaryDirectory() as data, tempfile.TemporaryFile("w+") as log:
        process = await asyncio.create_subprocess_exec(
            *DRAGOMAN, "serve", "--port", "0", "--data", data, stdout=asyncio.subprocess.PIPE,
            stderr=log, cwd=data, env=ENVIRONMENT,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            async with asyncio.timeout(SECONDS):
                ready = (await process.stdout.readline()).decode()
            if "http://" not in ready:
                log.seek(0)
                raise SystemExit(f"the gateway did not start: {log.read(10_000)}")
            yield ready.partition("http://")[1] + ready.partition("http://")[2].split()[0]
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def dragoman(*arguments: str) -> str:
    """Run a command; what it prints."""
    process = await asyncio.create_subprocess_exec(
        *DRAGOMAN, *arguments, stdout=asyncio.subprocess.PIPE, cwd=ROOT, env=ENVIRONMENT
    )
    async with asyncio.timeout(SECONDS):
        out, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"dragoman {' '.join(arguments)} failed")
    return out.decode().strip()


async def until_subscribed(auctioneer: Auctioneer, number: int) -> None:
    """Wait until the auctioneer has so many subscriptions."""
    if not await asyncio.to_thread(auctioneer.wait_for_subscribers, number, SECONDS):
        raise SystemExit(f"the auctioneer has {auctioneer.subscribers} subscribers, not {number}")


async def hear(who: str, consumer: Consumer) -> None:
    """Print the next notification."""
    async with asyncio.timeout(SECONDS):
        arrived = await consumer.receive()
    for notification in arrived.notifications:
        amount = new_value(parse(notification.payload))
        say(who, f"highest bid {amount} ({notification.topic})")


async def follow(url: str, auctioneer: Auctioneer, bidder: Bidder) -> None:
    """Subscribe at the gateway in three specifications, and bid."""
    async with contextlib.AsyncExitStack() as stack:
        consumers = []
        for version in FOLLOWING:
            client = await stack.enter_async_context(Client(url, version))
            consumer = await stack.enter_async_context(Consumer())
            await stack.enter_async_context(subscribed(client, consumer.address, topic=TOPIC))
            consumers.append((f"consumer, {version.value}", consumer))
            say(consumers[-1][0], "subscribed at the gateway")
        mine = await asyncio.to_thread(bidder.subscribe, f"{url}/soap")
        say("Globus client, wsn-1.2", "subscribed at the gateway")
        for name, amount in BIDS:
            highest = await asyncio.to_thread(auctioneer.bid, name, amount)
            say("auctioneer", f"{name} bids {amount}{'' if highest else ': too low'}")
            if not highest:
                continue
            for who, consumer in consumers:
                await hear(who, consumer)
            told = await asyncio.to_thread(bidder.bids.get, True, SECONDS)
            say("Globus client, wsn-1.2", f"highest bid {told}")
        await asyncio.to_thread(bidder.destroy, mine)


async def main() -> None:
    with Auctioneer("A painting") as auctioneer, Bidder() as bidder:
        say("auctioneer", f"{auctioneer.item} is for sale at {auctioneer.address}")
        async with gateway() as url:
            say("gateway", f"runs at {url}")
            source = await dragoman(
                "sources", "add", auctioneer.address, "--spec", "wsn-1.2", "--topic", TOPIC,
                "--gateway", url, "--output", "json",
            )  # fmt: skip
            await until_subscribed(auctioneer, 1)
            say("gateway", "subscribed at the auctioneer (wsn-1.2)")
            await follow(url, auctioneer, bidder)
            await dragoman("sources", "remove", json.loads(source)["id"], "--gateway", url)
            await until_subscribed(auctioneer, 0)
            say("gateway", "ended its subscription at the auctioneer")
    say("auctioneer", f"sold for {auctioneer.highest_bid}")


if __name__ == "__main__":
    end_as_by_interrupt()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
