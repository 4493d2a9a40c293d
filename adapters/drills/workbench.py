"""The workbench of a trial: adapters to the system, messages, and a forwarder in between."""

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

from adapters.drills.forwarder import Forwarder
from adapters.drills.inbox import Inbox
from adapters.loading import load
from adapters.protocol import (
    Adapter,
    AdapterState,
    AdapterUnavailable,
    Capabilities,
    Interest,
    Isolated,
    Isolating,
)
from filters import Expression, Step, Topic
from filters.dialects import TOPIC_FULL
from mediation.model.messages import Notification

PAYLOAD = b"<drill>%d</drill>"
COMES = 15.0
"""Seconds in which an event comes that the system has."""


class Promise(Enum):
    """What became of a promise: ``ABSENT`` is one that the system does not give, or that was not
    tried."""

    KEPT = "kept"
    ABSENT = "absent"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one trial, in a sentence for people."""

    promise: Promise
    trial: str
    text: str


class Broken(Exception):
    """A promise is broken; the text says what happened, and what to look at."""


class Absent(Exception):
    """A promise is not given, or could not be tried; the text says why."""


@dataclass(slots=True)
class Workbench:
    """Makes adapters with *name* in the system of *url*, each with a folder of its own in *folder*.

    ``namespace`` is that of the topics of the present trial.
    """

    kind: type[Isolating]
    url: str
    settings: Mapping[str, str]
    name: str
    folder: Path
    forwarder: Forwarder | None = None
    used: set[str] = field(default_factory=set)
    """Names under which something was made in the system."""
    namespace: str = ""

    def isolated(self, name: str, *, through: bool = True) -> Isolated:
        """Return URL and settings of an adapter with *name*, reached *through* the forwarder where
        there is one."""
        port = self.forwarder.port if self.forwarder is not None and through else None
        return self.kind.isolate(self.url, self.settings, name=name, through=port)

    def make(self, *, folder: str = "one", name: str = "", through: bool = True) -> Adapter:
        """Make an adapter that is not started; with the same *folder* it is the same gateway
        again."""
        name = name or self.name
        self.used.add(name)
        made = self.isolated(name, through=through)
        return load(made.url, data=self.folder / folder, settings=made.settings)

    @property
    def capabilities(self) -> Capabilities:
        """Those of the adapter."""
        return self.make().capabilities

    @asynccontextmanager
    async def running(self, *interests: Interest) -> AsyncIterator[Adapter]:
        """Run an adapter that has *interests*, once it is connected.

        Raises:
            AdapterUnavailable: It cannot connect.
        """
        async with started(self.make(), *interests) as adapter:
            yield adapter

    def inbox(self, adapter: Adapter) -> Inbox:
        return Inbox(adapter, COMES)

    def begin(self) -> None:
        """Begin a trial, with topics that no other has."""
        self.namespace = f"urn:dragoman:drill:{uuid.uuid4()}"

    def interest(self, expression: str = "drill//.") -> Interest:
        """Make an interest in topics: ``drill``, ``drill//.``, ``drill/*``."""
        return Interest(Expression(f"d:{expression}", TOPIC_FULL, (("d", self.namespace),)))

    def notification(self, path: str = "drill", payload: bytes = PAYLOAD % 0) -> Notification:
        """Make an event on a topic, with an id of its own."""
        root, *children = path.split("/")
        return Notification(
            id=f"urn:uuid:{uuid.uuid4()}",
            source="urn:dragoman:drill",
            payload=payload,
            time=datetime.now(UTC),
            topic=Topic((Step(self.namespace, root), *(Step(None, name) for name in children))),
        )

    def notifications(self, count: int, path: str = "drill") -> list[Notification]:
        return [self.notification(path, PAYLOAD % number) for number in range(count)]


@asynccontextmanager
async def started(adapter: Adapter, *interests: Interest) -> AsyncIterator[Adapter]:
    """Run *adapter* once it is connected.

    Raises:
        AdapterUnavailable: It cannot connect; the text says why.
    """
    try:
        await adapter.start(interests)
        state = state_of(adapter)
        if state is not None and not state.connected:
            raise AdapterUnavailable(
                state.last_error or "it is not connected, and does not say why"
            )
        yield adapter
    finally:
        await adapter.close()


def state_of(adapter: Adapter) -> AdapterState | None:
    """Return the state that *adapter* reports, None where it reports none."""
    reporting = adapter.capabilities.reporting
    return None if reporting is None else reporting()
