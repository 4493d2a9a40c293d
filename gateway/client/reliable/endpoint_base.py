"""Base of ReliableClient and Receiver: store, registered functions, workers."""

import asyncio
import logging
import os
import re
import threading
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self
from urllib.parse import unquote

from gateway.client.application_calls import Calls
from gateway.client.reliable.deliveries import (
    PAGE,
    Completed,
    GivenUp,
    left_of,
)
from gateway.client.reliable.workers import Workers
from gateway.reliability.loading import load_store
from gateway.reliability.records import OutgoingSequence
from gateway.reliability.storage import StorageManager, Transaction
from gateway.reliability.values import (
    DeadMessageHandler,
    Delivered,
    Notice,
    NoticeKind,
    SequenceCallback,
)
from mediation.reliable_messaging.policy import Policy

log = logging.getLogger("dragoman.reliable")

PATIENT = Policy(tries=10_000)
"""A queue waits for a destination that is away until its sequence expires, a day later."""


def patient(policy: Policy | None) -> Policy:
    """The policy of a queue: what a program does not say is as `PATIENT` has it."""
    if policy is None:
        return PATIENT
    return replace(policy, tries=PATIENT.tries) if policy.tries is None else policy


def new_id() -> str:
    """Make a message id or an identifier of a sequence, which nobody can guess."""
    return f"urn:uuid:{uuid.UUID(bytes=_random_bytes(), version=4)}"


_drawn: deque[bytes] = deque()
"""Random bytes of the system for ids to come. It is asked once for 256 ids: at each call other
threads get their turn."""


def _random_bytes() -> bytes:
    try:
        return _drawn.pop()
    except IndexError:
        octets = os.urandom(16 * 256)
        _drawn.extend(octets[at : at + 16] for at in range(16, len(octets), 16))
        return octets[:16]


os.register_at_fork(after_in_child=_drawn.clear)


def say(notice: Notice) -> None:
    """Log a notice."""
    quiet = notice.kind in (NoticeKind.UNANSWERED, NoticeKind.DECLINED)
    number = f" message {notice.number}:" if notice.number is not None else ""
    level = logging.INFO if quiet else logging.WARNING
    log.log(
        level, "%s: %s:%s %s", in_words(notice.sequence), notice.kind.value, number, notice.text
    )


_KEY = re.compile(r"to (\S+) as ([^\s>]*)>?(\S*)(?: \(\d+\))?")


def in_words(sequence: str) -> str:
    """Name a sequence for people: by its identifier, or, while it has none, by its address, key and
    callbacks."""
    found = _KEY.fullmatch(sequence)
    if found is None:
        return sequence
    address, key, callbacks = found[1], unquote(found[2]), unquote(found[3])
    words = f"{'requests' if callbacks else 'messages'} to {address}"
    words += f" with the key {key!r}" if key else ""
    return words + (f" and callbacks {callbacks!r}" if callbacks else "")


class EndpointBase:
    """Base of a program that runs over a store: started and stopped by ``with``, ``async with`` or
    by hand.

    Args:
        store: A store, or the URL of one, which is closed with this.

    Raises:
        StorageUnavailable: The store cannot be opened.
    """

    _workers: Workers

    def __init__(self, store: StorageManager | str) -> None:
        self._owns_store = isinstance(store, str)
        self.store = load_store(store) if isinstance(store, str) else store
        self._calls = Calls(fallback=lambda: self._workers.loop)
        self._closed = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start, unless it runs: messages that a former process left are delivered.

        Raises:
            StorageUnavailable: The store does not answer.
        """
        with self._lock:
            self._closed = False
            self._workers.start()

    def close(self) -> None:
        """Stop; deliveries under way end first."""
        with self._lock:  # Nothing that comes from now on starts it again.
            self._closed = True
        self._workers.stop()
        if self._owns_store:
            self.store.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self._calls.loop = asyncio.get_running_loop()
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)


def given_up(function: Callable[[GivenUp], Any] | None, calls: Calls) -> SequenceCallback:
    """Make the callback that tells *function* of a sequence that was given up."""

    def told(transaction: Transaction, sequence: OutgoingSequence) -> None:
        if function is not None:
            left, unanswered = left_of(transaction, sequence, max(sequence.count, PAGE))
            reason, address = sequence.failure or "", sequence.target.address
            calls.call(function, GivenUp(transaction, address, reason, left, unanswered))

    return told


def completed(function: Callable[[Completed], Any] | None, calls: Calls) -> SequenceCallback:
    """Make the callback that tells *function* of a sequence that came to its end."""

    def told(transaction: Transaction, sequence: OutgoingSequence) -> None:
        if function is not None:
            count = sequence.next_number - 1
            calls.call(function, Completed(transaction, sequence.target.address, count))

    return told


def dead(function: Callable[[GivenUp], Any] | None, calls: Calls) -> DeadMessageHandler:
    """Make the callback that tells *function* of a message that an application failed to take again
    and again."""

    def told(transaction: Transaction, delivered: Delivered, error: Exception) -> None:
        if function is not None:
            reason = f"message {delivered.number} failed: {type(error).__name__}: {error}"
            calls.call(function, GivenUp(transaction, delivered.identifier, reason))

    return told
