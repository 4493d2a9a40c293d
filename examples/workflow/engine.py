"""The engine of one run: subscribes all who listen, starts steps as notifications come, and
unsubscribes all. Killed and started again it goes on: what it knows is in ``engine.db``.

Usage: engine.py FOLDER-OF-THE-RUN     with a file run.json in it, which the portal writes
"""

import asyncio
import json
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
from service import now, publish, read_status
from state import State
from steps import STEPS, Status, ready

from dragoman.client import Client, GatewayError, Subscription, WseClient, WsnClient

LEASE = timedelta(days=1)
FIRST_LEASE = timedelta(minutes=2)
"""Until it is renewed. One that was granted just before a kill, and not noted, soon ends."""
CATALOGUED = {
    "xpath": "/w:Status[w:state = 'done' or w:step = 'run']",
    "namespaces": {"w": "http://example.org/workflow"},
}
"""What the catalogue is subscribed to: the gateway passes by whatever else there is."""


class Engine:
    def __init__(self, folder: Path, http: aiohttp.ClientSession) -> None:
        self._run = json.loads((folder / "run.json").read_text())
        self._name, self._topic = folder.name, self._run["topic"]
        self._gateway = self._run["gateway"]
        self._state, self._http = State(folder / "engine.db"), http
        self._box = ""

    async def run(self) -> None:
        """Run from where it stands to the end."""
        async with WsnClient(self._gateway) as wsn, WseClient(self._gateway) as wse:
            box = await self._state.once(
                "mailbox", lambda: self._post(f"{self._gateway}/mailboxes", {})
            )
            self._box = f"{self._gateway}/mailboxes/{box['key']}"
            consumers = {"engine": box["address"], **self._run["consumers"]}
            # Two get WS-Notification, two WS-Eventing; who publishes need not know.
            clients = {"engine": wsn, "provenance": wsn, "monitor": wse, "catalogue": wse}
            held = [
                (client, await self._subscribe(client, name, consumers[name]))
                for name, client in clients.items()
            ]
            await self._orchestrate(wsn, held)
            for client, subscription in held:
                with suppress(GatewayError):  # It was ended before the engine was killed.
                    await client.unsubscribe(subscription)
            async with self._http.delete(self._box):
                pass

    async def _subscribe(self, client: Client, name: str, consumer: str) -> Subscription:
        wanted: dict[str, Any] = CATALOGUED if name == "catalogue" else {}
        return await self._state.once(
            name, lambda: client.subscribe(consumer, topic=self._topic, lease=FIRST_LEASE, **wanted)
        )

    async def _orchestrate(
        self, publisher: Client, held: list[tuple[Client, Subscription]]
    ) -> None:
        """Start what is ready, and take what comes, until all consumers have the end of the run."""
        loop, renew_at = asyncio.get_running_loop(), 0.0
        while len(self._state.named("recorded")) < len(self._run["consumers"]):
            if loop.time() > renew_at:
                for client, subscription in held:
                    await client.renew(subscription, LEASE)
                renew_at = loop.time() + LEASE.total_seconds() / 2
            failed = self._state.named("failed")
            begun = self._state.named("invoked", "done", "failed")
            for step in [] if failed else ready(self._state.named("done"), begun):
                await self._invoke(step)
            if not self._state.named("invoked"):
                end = Status("run/end", "run", "failed" if failed else "succeeded", now())
                await self._state.once("end", lambda: publish(publisher, end, self._topic))  # noqa: B023
            await self._take()

    async def _invoke(self, step: str) -> None:
        """Ask the factory for a step. It runs once, also if it is asked for again after a kill."""
        one = STEPS[step]
        asked = {"run": self._name, "step": step, "topic": self._topic, "gateway": self._gateway}
        files = {"inputs": one.inputs, "outputs": one.outputs}
        await self._post(f"{self._run['factory']}services/{one.program}", asked | files)
        self._state.invoked(step)

    async def _take(self) -> None:
        """Take what waits in the mailbox: it is in the database before it is acknowledged."""
        batch = await self._post(f"{self._box}/receive", {"max": 10, "wait": 20, "lease": 5})
        messages = batch["messages"]
        if messages:
            statuses = [read_status(message["payload"] or "") for message in messages]
            self._state.take([status for status in statuses if status is not None])
            await self._post(f"{self._box}/acknowledge", {"lease": batch["lease"]})

    async def _post(self, url: str, body: dict[str, Any]) -> dict[str, Any]:
        async with self._http.post(url, json=body, raise_for_status=True) as answer:
            return await answer.json() if answer.content_length else {}


async def main(folder: Path) -> None:
    async with aiohttp.ClientSession() as http:
        await Engine(folder, http).run()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
