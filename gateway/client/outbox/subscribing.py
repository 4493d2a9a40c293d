"""Subscriptions of an inbox at a gateway: made for the topics of its functions, kept in the
database so that a restart finds them, and renewed."""

import json
import logging
import ssl
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select, update

from gateway.client.calling import Caller, endpoint_url
from gateway.client.errors import GatewayError
from gateway.client.outbox.backoff import Backoff
from gateway.client.outbox.runner import Runner
from gateway.client.outbox.tables import digest, states
from gateway.client.outbox.transactions import Transaction

log = logging.getLogger("dragoman.outbox")

WANTED = "P365D"
"""The lease that is asked for: while it lasts, messages wait at the gateway for an inbox that is
away."""
BATCH = 256
OFTEN = 3600.0
"""Seconds at most from one renewal to the next."""
PAUSES = Backoff(0.5, 30.0)


class Subscriptions:
    """Keeps the subscriptions of one inbox at one gateway.

    Args:
        topics: Those that are subscribed to.
        secret: With which the gateway signs what it sends.
    """

    def __init__(
        self,
        runner: Runner,
        database: Any,
        gateway: str,
        address: str,
        topics: Iterable[str],
        secret: str | None,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._runner = runner
        self._database = database
        self._url = f"{endpoint_url(gateway, path='/events')}/subscriptions"
        self._address = address
        self._topics = topics
        self._secret = secret
        self._tls = tls

    async def keep(self) -> None:
        """Subscribe, and renew, until the runner stops."""
        failures = 0
        async with Caller(tls=self._tls) as caller:
            while not self._runner.stopping:
                try:
                    pause = min([OFTEN, *[await self._keep(caller, each) for each in self._topics]])
                    failures = 0
                except Exception as error:
                    failures += 1
                    log.warning("the subscription waits: %s", error)
                    pause = PAUSES.seconds(failures)
                await self._runner.pause(pause)

    async def _keep(self, caller: Caller, topic: str) -> float:
        """Subscribe to *topic*, or renew that.

        Returns:
            Seconds until it should be renewed.

        Raises:
            GatewayError: It was refused, or the gateway does not answer.
        """
        name = f"subscription {digest(self._url, self._address, topic).hex()}"
        found = await self._database.run(lambda transaction: _find(transaction, name))
        if found is not None:
            answer = await self._call(
                caller, "PUT", f"{self._url}/{found}", {"config": {"expires": WANTED}}
            )
            if answer is not None:
                return _renewal(answer)
        answer = await self._call(caller, "POST", self._url, self._wanted(topic))
        if answer is None:
            raise GatewayError(f"{self._url} is not there")
        await self._database.run(lambda transaction: _keep(transaction, name, str(answer["id"])))
        log.info("subscribed to %s", topic)
        return _renewal(answer)

    def _wanted(self, topic: str) -> dict[str, Any]:
        settings: dict[str, Any] = {"mode": "batched", "batchsize": BATCH}
        if self._secret is not None:
            settings["secret"] = self._secret
        return {
            "sink": self._address,
            "protocol": "HTTP",
            "config": {"topic": topic, "expires": WANTED},
            "protocolsettings": settings,
        }

    async def _call(self, caller: Caller, method: str, url: str, value: object) -> Any:
        """The answer; None: there is no such subscription."""
        headers = {"Content-Type": "application/json"}
        answer = await caller.call(method, url, body=json.dumps(value).encode(), headers=headers)
        if answer.status in (404, 410):
            return None
        if answer.status >= 300:
            said = answer.body[:500].decode(errors="replace")
            raise GatewayError(f"the gateway answered {answer.words}: {said}")
        return json.loads(answer.body)


def _renewal(answer: Any) -> float:
    """Seconds until a subscription should be renewed: a quarter of its lease."""
    expires = answer.get("config", {}).get("expires")
    if expires is None:
        return OFTEN
    left = (datetime.fromisoformat(expires) - datetime.now(UTC)).total_seconds()
    return max(1.0, left / 4)


def _find(transaction: Transaction, name: str) -> str | None:
    rows = transaction.rows(select(states.c.value).where(states.c.name == name))
    return str(rows[0][0]) if rows else None


def _keep(transaction: Transaction, name: str, id: str) -> None:
    transaction.insert_new(states, [{"name": name, "value": id, "until": time.time()}])
    transaction.change(
        update(states).where(states.c.name == name).values(value=id, until=time.time())
    )
