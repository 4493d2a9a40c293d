"""Operators approve of hosts, and forbid them: kept in the store, and in force at once.

    undecided --- approve ---> approved    its host need not agree: no probation, no question
        ^  |                      |
        |  +------- forbid -------+----> forbidden    no attempt starts; what waits is held
        +--- reset --- from both

What a forbidden host would get waits in the store, as behind an open breaker: it is sent when the
host is allowed again, and a dead letter when it has waited for as long as the schedule tries.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial

import structlog

from filters import Reason, Refused
from gateway.delivery.dispatchers import Dispatchers
from gateway.model.host_decisions import MOST, Decision, HostDecision, HostDecisions
from gateway.store import Store, StoreUnavailable, host_decisions

LEARN = 1.0
"""Seconds from one look at what other gateways of the store have decided to the next."""
_log = structlog.get_logger("dragoman.delivery")


class DestinationDecisions:
    """The decisions of the gateways that share the store.

    Args:
        known: What is known of them, for those who ask it.
        shared: Whether other gateways use the store.
    """

    def __init__(
        self, store: Store, dispatchers: Dispatchers, known: HostDecisions, *, shared: bool
    ) -> None:
        self._store = store
        self._dispatchers = dispatchers
        self._shared = shared
        self._known = known

    async def learn(self) -> None:
        """Know and obey what the store has.

        Raises:
            StoreUnavailable: It cannot be read.
        """
        changed = self._known.replace(await self._store.submit(host_decisions.load))
        if changed:
            self._dispatchers.obey(changed)

    async def run(self) -> None:
        """Learn what others decide, until the gateway stops."""
        while True:
            await asyncio.sleep(LEARN)
            if self._shared:
                try:
                    await self.learn()
                except StoreUnavailable:
                    continue  # What is known holds; the store says in the log that it is gone.

    async def decide(self, host: str, decision: Decision | None, by: str) -> None:
        """Keep that *by* has decided so about *host*; None: that there is no decision any more. It
        is committed and obeyed on return.

        Raises:
            Refused: ``QUOTA``: there are too many.
            StoreUnavailable: It was not kept.
        """
        change: Callable[..., bool | None]
        if decision is None:
            change = partial(host_decisions.delete, host=host)
        else:
            change = partial(
                host_decisions.write, decision=HostDecision(host, decision, by, time.time())
            )
        if await self._store.submit(change) is False:
            raise Refused(Reason.QUOTA, f"There are {MOST} decisions about hosts already.")
        await self.learn()
        _log.warning(
            "destination.decided",
            host=host,
            decision="none" if decision is None else decision.value,
            by=by,
        )
