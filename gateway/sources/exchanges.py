"""Exchanges with producers: one request, its answer, and what of it matters to a source.

Addresses come from operators and, in registrations, from strangers: each is judged by the egress
policy, here and again on every connection.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from filters import Refused, in_utf_8
from gateway.egress import (
    AddressPolicy,
    AddressRefused,
    Answer,
    Request,
    SendFailed,
    Target,
    Transport,
    parse_target,
    status_words,
)
from gateway.egress.transport import LONGEST_DOCUMENT
from gateway.model.channels import channel_address
from gateway.model.moments import moment_of
from gateway.model.sources import Source
from gateway.parsing import Parsing
from gateway.security.keys import message_urn
from gateway.sources.admission import Admission, Visit
from gateway.sources.requests import (
    PULL_WAIT,
    Written,
    lease_request,
    lease_text,
    options_of,
    producer_of,
    pull_request,
    spec_to,
    subscribe_request,
)
from gateway.sources.states import Granted
from mediation.client import (
    AnsweredFault,
    is_response,
    leasing_in,
    manager_at,
    read_answer,
    read_granted,
    read_pulled,
    write_get_status,
    write_pause,
    write_renew,
    write_resume,
    write_unsubscribe,
)
from mediation.client import Granted as GrantedAnswer
from mediation.eventing.management import Pulled
from mediation.model.delivery_modes import Mode
from mediation.model.expiry import parse_date_time, parse_expiry
from mediation.model.messages import EndpointReference
from mediation.model.specification import Leasing
from mediation.names import MAKE_CONNECTION_ANONYMOUS, WSA_NONE, WSEN
from mediation.packaging.mime import charset_in
from mediation.profiles import PRODUCERS
from mediation.soap.addressing import is_anonymous
from mediation.soap.envelopes import http_headers

SECONDS = 20.0
"""Of one exchange, its answer included."""
SHORTEST_OF_STRANGERS = 30.0
"""Seconds of a lease of strangers' sources, at least: what is granted for less is held for as long,
so that nobody has it renewed more often than each quarter of a minute or so."""
SHORTEST_BY_CALL = 3.0
"""Seconds that a lease of one who is asked by a call is believed to last, at least."""
SCHEMES = ("http", "https")
"""Schemes of producers' addresses: the others have no answers."""
T = TypeVar("T")


class ProducerRefused(Exception):
    """The producer answered with a fault, or with nothing that can be understood."""


class BookmarkRefused(ProducerRefused):
    """The producer cannot go on behind the bookmark that it was told."""


class FeatureRefused(ProducerRefused):
    """The producer does not offer something that the request asks for."""


class NothingYet(ProducerRefused):
    """No event came while the producer waited for one."""


class ContextRefused(ProducerRefused):
    """The producer does not know the context any more in which its events were pulled."""


class ProducerUnreachable(Exception):
    """There was no answer, or one that says: not now."""


_REFUSALS = {
    "InvalidBookmark": BookmarkRefused,
    "UnsupportedFeature": FeatureRefused,
    "TimedOut": NothingYet,
    "InvalidEnumerationContext": ContextRefused,
}
"""What subcodes of WS-Management (DSP0226 1.2, section 14.6) and of WS-Enumeration mean."""


class Exchanges:
    """Speaks with producers as a subscriber.

    Args:
        base: The gateway's URL, without a slash at its end: producers send there.
        admission: Says which exchanges may begin.
        endpoint: The address of the SOAP endpoint, as channels of others are told it; those with
            names are below it.
    """

    def __init__(
        self,
        transport: Transport,
        policy: AddressPolicy,
        parsing: Parsing,
        *,
        base: str,
        admission: Admission | None = None,
        endpoint: str | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._endpoint = endpoint or f"{base}/soap"
        self._transport = transport
        self._policy = policy
        self._parsing = parsing
        self._base = base
        self._admission = admission or Admission()
        self._seconds = seconds

    def location(self, source: Source) -> str:
        """Where the producer of *source* is told to send: the channel's address, or what all keys
        are below; empty where its events are pulled."""
        if leasing_in(source.spec) is not None:
            return channel_address(self._endpoint, source.channel or "")
        return "" if source.mode is Mode.PULL else self._base

    async def subscribe(self, source: Source, key: str, bookmark: bytes | None = None) -> Granted:
        """Subscribe; what the producer sends comes to the address with *key*, and begins behind the
        *bookmark*.

        Raises:
            BookmarkRefused
            ProducerRefused, ProducerUnreachable: as every method here.
        """
        leasing = leasing_in(source.spec)
        if leasing is not None:
            return await self._lease(source, leasing, source.lease)
        at = time.time()
        written = subscribe_request(source, self._base, key, at, bookmark)
        answered = await self._ask(source, source.url, written, read_granted)
        if answered.manager is None:
            raise ProducerRefused("It did not answer Subscribe with a subscription.")
        if source.mode is Mode.PULL and answered.context is None:
            raise ProducerRefused("It did not answer Subscribe with an EnumerationContext.")
        length = self._length(source, answered, at)
        manager = answered.manager
        if not manager.address:  # The store keeps no reference without one.
            manager, _ = manager_at(manager, source.url)
        return Granted(at, length, manager, answered.context)

    async def renew(self, source: Source, manager: EndpointReference) -> Granted:
        """Renew for as long as was asked for at first."""
        leasing = leasing_in(source.spec)
        if leasing is not None:
            return await self._lease(source, leasing, source.lease)
        at = time.time()
        manager, url = manager_at(manager, source.url)
        written = write_renew(
            spec_to(source, manager),
            manager,
            lease_text(source, at),
            message_id=message_urn(),
            source=options_of(source),
        )
        answered = await self._ask(source, url, written, read_granted)
        return Granted(at, self._length(source, answered, at))

    async def check(self, source: Source, manager: EndpointReference) -> None:
        """Ask whether the subscription is still there."""
        if not PRODUCERS[source.profile].checks or leasing_in(source.spec) is not None:
            raise ProducerRefused("It cannot be asked.")
        manager, url = manager_at(manager, source.url)
        written = write_get_status(spec_to(source, manager), manager, message_id=message_urn())
        await self._ask(source, url, written, read_answer)

    async def pause(self, source: Source, manager: EndpointReference) -> None:
        """Have the producer send nothing for a while."""
        if not PRODUCERS[source.profile].pauses or leasing_in(source.spec) is not None:
            raise ProducerRefused("It cannot pause.")
        manager, url = manager_at(manager, source.url)
        try:
            written = write_pause(spec_to(source, manager), manager, message_id=message_urn())
        except Refused as refused:  # WS-Eventing has no such request.
            raise ProducerRefused(refused.text) from refused
        await self._ask(source, url, written, read_answer)

    async def resume(self, source: Source, manager: EndpointReference) -> None:
        """Have the producer send again."""
        manager, url = manager_at(manager, source.url)
        written = write_resume(spec_to(source, manager), manager, message_id=message_urn())
        await self._ask(source, url, written, read_answer)

    async def unsubscribe(self, source: Source, manager: EndpointReference) -> None:
        """End the subscription; where there is no request for that, by a lease that is as short as
        can be."""
        leasing = leasing_in(source.spec)
        if leasing is not None:
            await self._lease(source, leasing, 0.0)
            return
        manager, url = manager_at(manager, source.url)
        spec, options = spec_to(source, manager), options_of(source)
        written = write_unsubscribe(spec, manager, message_id=message_urn(), source=options)
        await self._ask(source, url, written, read_answer)

    async def pull(
        self, source: Source, manager: EndpointReference | None, context: bytes
    ) -> Pulled:
        """Pull events of a subscription, waiting for the first for `PULL_WAIT` seconds. The request
        goes to the source, with what the manager's reference has: some know their subscriptions by
        the one, some by the other.

        Raises:
            NothingYet, ContextRefused
        """
        written = pull_request(source, manager, context)
        try:
            target = checked(source.url, self._policy, trusted=self._is_trusted(source, source.url))
        except Refused as refused:
            raise ProducerRefused(refused.text) from refused
        # Not `_ask`: who waits for events must not take the place of who subscribes.
        seconds = PULL_WAIT + self._seconds
        answer = await self._send(source, target, written, None, seconds=seconds)
        return await self._understand(answer, read_pulled)

    async def _lease(self, source: Source, leasing: Leasing, seconds: float) -> Granted:
        """Subscribe, or renew, by the call that does both."""
        at = time.time()
        written = lease_request(source, self._endpoint, seconds)
        granted = await self._ask(source, source.url, written, leasing.read_granted)
        length = max(SHORTEST_BY_CALL, min(granted, seconds))
        return Granted(at, length, producer_of(source))

    async def _ask(
        self, source: Source, address: str, written: Written, read: Callable[[bytes], T]
    ) -> T:
        try:
            target = checked(address, self._policy, trusted=self._is_trusted(source, address))
        except Refused as refused:
            raise ProducerRefused(refused.text) from refused
        async with self._admission.place(source, target.host):
            visit = self._admission.visit(source, target)
            if visit is None:
                raise ProducerUnreachable(
                    "its host was asked often enough for now, and never answered as a producer"
                )
            answer = await self._send(source, target, written, visit)
        understood = await self._understand(answer, read)
        # Many servers say yes to whatever comes, or send it back.
        if not visit.agreed and answer.body and await self._is_response(answer.document):
            visit.answered()
        return understood

    def _is_trusted(self, source: Source, address: str) -> bool:
        """Whether who is trusted named *address*: the producer names that of its manager."""
        return address == source.url and not self._admission.is_strangers(source)

    async def _is_response(self, body: bytes) -> bool:
        try:
            return await self._parsing.run_answer_parser(len(body), lambda _: is_response(body))
        except Refused:
            return False

    def _length(self, source: Source, answered: GrantedAnswer, at: float) -> float | None:
        """The seconds for which a lease is held."""
        length = _length(answered, at, source.lease)
        if length is None or not self._admission.is_strangers(source):
            return length
        return max(length, SHORTEST_OF_STRANGERS)

    async def _send(
        self,
        source: Source,
        target: Target,
        written: Written,
        visit: Visit | None,
        *,
        seconds: float | None = None,
    ) -> Answer:
        """Send a request; one that may take other *seconds* than usual is a patient one."""
        action, envelope = written
        said = source.spec.wsa is not None or leasing_in(source.spec) is not None
        headers = http_headers(source.spec.soap, action if said else "")
        request = Request(
            target,
            envelope,
            headers,
            soap=source.spec.soap,
            admit=None if visit is None else visit.admit,
            patient=seconds is not None,
        )
        try:
            async with asyncio.timeout(seconds or self._seconds):
                return await self._transport.send(request)
        except SendFailed as failed:
            raise ProducerUnreachable(failed.detail) from failed
        except TimeoutError:
            raise ProducerUnreachable(
                f"no answer within {seconds or self._seconds:.0f} s"
            ) from None

    async def _understand(self, answer: Answer, read: Callable[[bytes], T]) -> T:
        if answer.status in _NOT_NOW:
            raise ProducerUnreachable(status_words(answer.status))
        body = self._document(answer)
        fault = await self._parsing.fault_in(body) if body else None
        if fault is not None:
            said = fault.reason or fault.subcode or fault.code or "no reason"
            kind = _REFUSALS.get(fault.subcode or "", ProducerRefused)
            if kind is NothingYet and fault.namespace == WSEN:
                kind = ContextRefused  # "The enumerator has timed out and is no longer valid."
            raise kind(f"answered with a fault: {said}")
        if not 200 <= answer.status < 300:
            raise ProducerRefused(status_words(answer.status))
        if not body and read is read_answer:
            return read(b"")
        try:
            return await self._parsing.run_answer_parser(len(body), lambda _: read(body))
        except AnsweredFault as error:
            raise ProducerRefused(f"answered with a fault: {error.text}") from error
        except Refused as refused:
            raise ProducerRefused(f"answered what cannot be read: {refused.text}") from refused

    def _document(self, answer: Answer) -> bytes:
        """The body of an answer, in UTF-8."""
        try:
            charset = charset_in(answer.content_type)
            return in_utf_8(answer.body, charset, most=LONGEST_DOCUMENT)
        except Refused as refused:
            raise ProducerRefused(f"answered what cannot be read: {refused.text}") from refused


_NOT_NOW = frozenset({408, 425, 429, 502, 503, 504})


def checked(address: str, policy: AddressPolicy, *, trusted: bool = False) -> Target:
    """The target of requests to *address*; on any port, where it is *trusted* who names it.

    Raises:
        AddressRefused: Nothing may be sent there, or nothing would be answered.
    """
    nowhere = is_anonymous(address) or address == WSA_NONE
    if nowhere or address.startswith(MAKE_CONNECTION_ANONYMOUS):
        # As a URL it leads to who defined it.
        raise AddressRefused(address, text="This address names no host to send to.")
    target = parse_target(address)
    if target.scheme not in SCHEMES:
        text = f"A producer is asked over {' or '.join(SCHEMES)}, for an answer."
        raise AddressRefused(address, text=text)
    policy.check_named(target, trusted=trusted)
    return target


def _length(answered: GrantedAnswer, at: float, asked: float) -> float | None:
    """The seconds of a granted lease, from *at*, when it was asked for.

    A date is one of the producer's clock: its own time in the answer says how far that is. Where it
    does not say, no more is believed than was asked for, and a date that is over here says only
    that the clocks differ. None where there is no date, which is for ever, or as long as was asked
    for.
    """
    if not answered.expires:
        return None
    try:
        expiry = parse_expiry(answered.expires)
        now = moment_of(at)
        if expiry.duration is not None:
            return (expiry.duration.after(now) - now).total_seconds()
        if expiry.instant is None:
            return None
        if answered.current_time:
            theirs = parse_date_time(answered.current_time)
            return (expiry.instant - theirs).total_seconds()
    except (Refused, ValueError):
        return None
    length = (expiry.instant - now).total_seconds()
    return min(length, asked) if length > 0 else None
