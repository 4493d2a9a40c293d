"""Which topics take a signature, and whose; the certificates are read again when they change."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog

from filters import Reason, Refused, Topic, TopicPattern
from gateway.security.file_watch import FileWatch
from gateway.security.rights import read_topics
from gateway.signed_topics.settings import SignedTopicsRow
from mediation.event_signatures import EventSignature, EventVerifier, read_trusted_signers

_REMEMBERED = 4096
"""Topics of which it is remembered what they take; then all are forgotten."""
_IDENTIFIER = re.compile(r"e-[0-9a-f]{32}")
_log = structlog.get_logger("dragoman.signed-topics")


class SignersUnusable(Refused):
    """A file of certificates cannot be used; the text names it."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(Reason.MESSAGE_INVALID, f"signed_topics.signers: {path} {why}")


@dataclass(frozen=True, slots=True)
class Requirement:
    """What the signature of an event has to be.

    Attributes:
        names: Common names or identifiers of signers; empty: any that *verifier* trusts.
    """

    verifier: EventVerifier
    names: frozenset[str]
    max_age: timedelta

    def names_signer(self, signature: EventSignature) -> bool:
        """Return True if who signed is one of those that are named."""
        if not self.names or signature.identifier in self.names:
            return True
        # An authority may certify any name, also one that reads like another's identifier.
        return signature.name in self.names and _IDENTIFIER.fullmatch(signature.name) is None


class SignedTopics:
    """Says what topics take, by *rows*, of which the first that has a topic counts.

    Args:
        advertised: What the creator of a topic of the default tenant wants, where no row has it.

    Raises:
        SignersUnusable: A file of certificates cannot be read.
    """

    def __init__(
        self,
        rows: Sequence[SignedTopicsRow],
        advertised: Callable[[Topic], Requirement | None] = lambda _: None,
    ) -> None:
        self._advertised = advertised
        self._rows = [(row, read_topics(row.topics, row.namespaces)) for row in rows]
        self._watch = FileWatch({row.signers for row in rows})
        self._verifiers = {row.signers: _load(row.signers) for row in rows}
        self._known: dict[tuple[str, Topic], Requirement | None] = {}

    def of(self, topic: Topic | None, tenant: str) -> Requirement | None:
        """Return what an event on *topic* of *tenant* has to be signed by; None: it need not be."""
        if topic is None:
            return None
        key = tenant, topic
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = self._find(topic, tenant)
        found = self._known[key]
        # Not remembered: advertisements come and go.
        return self._advertised(topic) if found is None and not tenant else found

    def _find(self, topic: Topic, tenant: str) -> Requirement | None:
        for row, patterns in self._rows:
            if row.tenant == tenant and _holds(patterns, topic):
                return Requirement(self._verifiers[row.signers], row.names, row.max_age)
        return None

    async def watch(self) -> None:
        """Read certificates again when their files have changed. One that cannot be used is logged,
        and what was read before stays."""
        while True:
            for path in await self._watch.changes():
                try:
                    self._verifiers[path] = await asyncio.to_thread(_load, path)
                except SignersUnusable as unusable:
                    _log.error("signed-topics.file-unusable", why=unusable.text)
                else:
                    _log.info("signed-topics.read", file=str(path))
            self._known.clear()


def _holds(patterns: Sequence[TopicPattern], topic: Topic) -> bool:
    return any(pattern.matches(topic) for pattern in patterns)


def _load(path: Path) -> EventVerifier:
    try:
        return EventVerifier(read_trusted_signers(path.read_bytes()))
    except OSError as error:
        raise SignersUnusable(path, f"cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise SignersUnusable(path, f"cannot be used: {error}") from error
