"""`Posts`: send messages over HTTP, and take the answers on the connections."""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from filters import Refused
from gateway.client.calling import Answer, Caller
from gateway.client.errors import GatewayError
from gateway.client.reliable.send_limits import SendLimits
from gateway.client.reliable.transaction_threads import MAX_COMMIT
from gateway.client.sequence_binding import CheckSignature, SignEnvelope
from gateway.reliability.batches import AcknowledgementAnswer, acknowledge_all
from gateway.reliability.connection_answers import (
    ConnectionAnswer,
    acknowledgement_in,
    largest_of_each,
)
from gateway.reliability.endpoint import Endpoint
from gateway.reliability.storage import Conflict, StorageUnavailable
from gateway.reliability.values import Outgoing
from mediation.model.versions import Soap
from mediation.soap.envelopes import http_headers

log = logging.getLogger("dragoman.reliable")

T = TypeVar("T")

IN_FLIGHT = 64
"""Messages of one sequence that are on their way, or wait for a connection."""
AT_A_TIME = 8
"""Connections for the messages of one sequence."""
TO_A_HOST = 96
ALONE = 256
"""Messages of no sequence of ours that may wait for one host."""
WAITING, MOST_WAITING = 8, 0.1
"""The time that acknowledgements wait for others, in times that it took to take the ones before;
and the most seconds."""


class Runner(Protocol):
    """The part of `Workers` that `Posts` uses."""

    endpoint: Endpoint
    caller: Caller
    sign: SignEnvelope | None
    """Signs what is sent, where that is to be signed."""
    check: CheckSignature | None
    """Checks what is answered, where that is to be signed."""

    @property
    def stopping(self) -> bool: ...

    def begin(self, work: Coroutine[Any, Any, None]) -> None: ...

    def look_soon(self) -> None:
        """Look at the store: there is room for more."""

    async def on_thread(self, work: Callable[..., T], *args: Any) -> T: ...

    async def once(self, work: Callable[[], T]) -> T:
        """Run *work* on a thread; not again where others were in its way."""


class Posts:
    """Messages on their way, and those that wait for it. To be used in the event loop of
    *workers*."""

    def __init__(self, workers: Runner) -> None:
        self._workers = workers
        self._in_flight: dict[str, set[str]] = defaultdict(set)
        self._lanes = SendLimits(self._post, workers.begin, AT_A_TIME, TO_A_HOST)
        self._alone: Counter[str] = Counter()
        self._came: dict[str, list[ConnectionAnswer]] = defaultdict(list)
        self._taking: set[str] = set()
        self._acknowledged: list[tuple[str, str, AcknowledgementAnswer]] = []
        self._acknowledging = False
        self._took = 0.0

    @property
    def alone(self) -> int:
        """Count the messages of no sequence of ours that are on their way, or wait."""
        return self._alone.total()

    def room(self, key: str) -> int:
        """Count how many more messages of a sequence may be sent now."""
        return IN_FLIGHT - len(self._in_flight.get(key, ()))

    def post(self, outgoing: Outgoing) -> None:
        """Send something, unless the same is on its way.

        What is of no sequence of ours, an acknowledgement, say, is dropped where much of its kind
        waits for its host: it is asked for again.
        """
        if self._workers.stopping:
            return
        key, what = outgoing.key or "", outgoing.label.removesuffix(" again")
        host = _host_of(outgoing.to.address)
        if outgoing.key is not None:
            if what in self._in_flight[key]:
                return
            self._in_flight[key].add(what)
        elif self._alone[host] >= ALONE:
            log.info("%s is dropped: %d others wait for %s", outgoing.label, ALONE, host)
            return
        else:
            self._alone[host] += 1
        # Messages that go again have connections of their own: a service may hold all others open
        # until it has the message before theirs, which was lost (Apache CXF does).
        again = " again" if outgoing.label.endswith(" again") else ""
        self._lanes.add(host, (key or host) + again, (outgoing, key, what, host))

    async def _post(self, item: tuple[Outgoing, str, str, str]) -> None:
        outgoing, key, what, host = item
        acknowledged: AcknowledgementAnswer | None = None
        sign, body = self._workers.sign, outgoing.envelope
        try:
            if sign is not None:
                body = await asyncio.to_thread(sign, body)
            answer = await self._workers.caller.call(
                "POST",
                outgoing.to.address,
                body=body,
                headers=_headers(outgoing.wire.soap, outgoing.action),
            )
            came = self._came_of(outgoing, answer)
            check = self._workers.check
            if check is not None and came is not None and came.envelope is not None:
                await asyncio.to_thread(check, came.envelope)
            if came is not None:
                acknowledged = acknowledgement_in(came)
                if acknowledged is None and (came.envelope is not None or outgoing.ends):
                    await self._sent(came)
        except GatewayError as error:
            log.info("%s: %s", outgoing.label, error)
        except Exception:
            log.exception("the answer to %s could not be taken", outgoing.label)
        finally:
            if acknowledged is None:
                self._is_done(outgoing.key, what, host)
        if acknowledged is not None:  # The next message need not wait for its commit.
            self._acknowledged.append((key, what, acknowledged))
            if not self._acknowledging:
                self._acknowledging = True
                self._workers.begin(self._take_acknowledgements())

    def _is_done(self, key: str | None, what: str, host: str) -> None:
        """Note that something is not on its way any more."""
        if key is not None:
            self._in_flight[key].discard(what)
            if not self._in_flight[key]:
                del self._in_flight[key]
        else:
            self._alone[host] -= 1
            if not self._alone[host]:
                del self._alone[host]
        self._workers.look_soon()

    async def _take_acknowledgements(self) -> None:
        """Take the acknowledgements that came, and those that come meanwhile (group commit)."""
        some: list[tuple[str, str, AcknowledgementAnswer]] = []
        try:
            while self._acknowledged:
                # Nothing waits for them, and acknowledgements that come meanwhile cost little more.
                await asyncio.sleep(min(WAITING * self._took, MOST_WAITING))
                some, self._acknowledged = self._acknowledged, []
                take = partial(self._take_all, [each for _, _, each in some])
                for outgoing in await self._workers.once(take):
                    self.post(outgoing)
                for key, what, _ in some:
                    self._is_done(key, what, "")
                some = []
        except StorageUnavailable as error:
            log.info("acknowledgements are not taken: %s", error)
        except Exception:
            log.exception("acknowledgements could not be taken")
        finally:
            self._acknowledging = False
            # Those that are not taken count as lost: their messages are sent again.
            left, self._acknowledged = self._acknowledged, []
            for key, what, _ in [*some, *left]:
                self._is_done(key, what, "")

    def _came_of(self, outgoing: Outgoing, answer: Answer) -> ConnectionAnswer | None:
        """The answer, where the message was taken. Only an envelope is one: servers in between
        answer with pages."""
        said = answer.body if answer.body and "xml" in answer.content_type else None
        key, party = outgoing.key, self._workers.endpoint.party
        if said is None and not 200 <= answer.status < 300:
            log.info("%s: %s", outgoing.label, answer.words)
            if key is not None:
                definite = 400 <= answer.status < 500 and answer.status not in _PASSING
                party.refused(key, answer.words, time.time(), definite=definite)
            return None
        if key is not None and answer.status < 300:
            party.refusals.forget(key)
        return ConnectionAnswer(outgoing, said, answer.content_type)

    async def _sent(self, came: ConnectionAnswer) -> None:
        """Take an answer that does more than acknowledge."""
        key = came.outgoing.key
        if key is None:
            await self._take([came])
            return
        self._came[key].append(came)
        if key in self._taking:
            return  # The task that takes answers of this sequence takes this one next.
        self._taking.add(key)
        try:
            while taken := self._came.pop(key, None):
                await self._take(taken)
        finally:
            self._taking.discard(key)

    async def _take(self, answers: list[ConnectionAnswer]) -> None:
        for each in await self._workers.on_thread(self._taken, answers):
            self.post(each)

    def _taken(self, answers: list[ConnectionAnswer]) -> list[Outgoing]:
        found: list[Outgoing] = []
        for came in answers:
            try:
                reply = self._workers.endpoint.sent(
                    came.outgoing,
                    time.time(),
                    delivered=True,
                    answer=came.envelope,
                    content_type=came.content_type,
                )
            except Conflict:
                raise
            except (Refused, StorageUnavailable) as error:
                log.info("the answer to %s: %s", came.outgoing.label, error)
                continue
            found.extend(reply.outgoing)
        return found

    def _take_all(self, answers: Sequence[AcknowledgementAnswer]) -> list[Outgoing]:
        """Take acknowledgements, without those that another one contains."""
        began = time.thread_time()
        found: list[Outgoing] = []
        kept = largest_of_each(answers)
        for start in range(0, len(kept), MAX_COMMIT):
            some = kept[start : start + MAX_COMMIT]
            replies = acknowledge_all(self._workers.endpoint.party, some, time.time())
            for each, reply in zip(some, replies, strict=True):
                if isinstance(reply, Exception):
                    log.info("an acknowledgement for %s: %s", each.key, reply)
                else:
                    found.extend(reply.outgoing)
        self._took = time.thread_time() - began
        return found


_PASSING = frozenset({408, 425, 429})
"""The statuses of HTTP after which the same request may be taken later."""


@lru_cache(1024)
def _host_of(address: str) -> str:
    return urlsplit(address).netloc


@lru_cache(256)
def _headers(soap: Soap, action: str) -> Mapping[str, str]:
    return MappingProxyType(dict(http_headers(soap, action)))
