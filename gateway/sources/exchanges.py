"""Exchanges with producers: one request, its answer, and what of it matters to a source.

Addresses come from operators and, in registrations, from strangers: each is judged by the egress
policy, here and again on every connection.
"""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from weakref import WeakValueDictionary

from filters import Refused
from gateway.egress import (
    AddressPolicy,
    AddressRefused,
    Answer,
    Request,
    SendFailed,
    Target,
    Transport,
    parse_target,
)
from gateway.model.sources import Source
from gateway.parsing import Parsing
from gateway.security.keys import message_urn
from gateway.security.resource_addresses import ResourceKind
from gateway.sources.profiles import PROFILES, Profile
from gateway.sources.states import Granted
from mediation import (
    SPECS,
    AnsweredFault,
    EndpointReference,
    Spec,
    Version,
    Wsa,
    expiry_text,
    http_headers,
    parse_date_time,
    parse_expiry,
    read_answer,
    read_granted,
    write_get_status,
    write_pause,
    write_renew,
    write_resume,
    write_subscribe,
    write_unsubscribe,
)
from mediation import Granted as GrantedAnswer

SECONDS = 20.0
"""Of one exchange, its answer included."""
AT_ONCE, AT_ONCE_WITH_ONE = 32, 2
"""Exchanges under way: in all, and with one host."""
SCHEMES = ("http", "https")
"""Schemes of producers' addresses: the others have no answers."""
Written = tuple[str, bytes]
T = TypeVar("T")


class ProducerRefused(Exception):
    """The producer answered with a fault, or with nothing that can be understood."""


class ProducerUnreachable(Exception):
    """There was no answer, or one that says: not now."""


class Exchanges:
    """Speaks with producers as a subscriber.

    Args:
        base: The gateway's URL, without a slash at its end: producers send there.
        gate: The question whether anything may be written to an address, on behalf of an owner;
            None where it may.
    """

    def __init__(
        self,
        transport: Transport,
        policy: AddressPolicy,
        parsing: Parsing,
        *,
        base: str,
        gate: Callable[[Target, str], Callable[[str], bool] | None] = lambda *_: None,
        seconds: float = SECONDS,
    ) -> None:
        self._transport = transport
        self._policy = policy
        self._parsing = parsing
        self._base = base
        self._gate = gate
        self._seconds = seconds
        self._in_all = asyncio.Semaphore(AT_ONCE)
        self._with_one: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def subscribe(self, source: Source, key: str) -> Granted:
        """Subscribe; what the producer sends comes to the address with *key*.

        Raises:
            ProducerRefused, ProducerUnreachable: as every method here.
        """
        at = time.time()
        written = subscribe_request(source, self._base, key, at)
        answered = await self._ask(source, source.url, written, read_granted)
        if answered.manager is None:
            raise ProducerRefused("It did not answer Subscribe with a subscription.")
        return Granted(at, _length(answered, at, source.lease), answered.manager)

    async def renew(self, source: Source, manager: EndpointReference) -> Granted:
        """Renew for as long as was asked for at first."""
        at = time.time()
        written = write_renew(
            _spec(source, manager), manager, _lease(source, at), message_id=message_urn()
        )
        answered = await self._ask(source, manager.address, written, read_granted)
        return Granted(at, _length(answered, at, source.lease))

    async def check(self, source: Source, manager: EndpointReference) -> None:
        """Ask whether the subscription is still there."""
        if not PROFILES[source.profile].checks:
            raise ProducerRefused("It cannot be asked.")
        written = write_get_status(_spec(source, manager), manager, message_id=message_urn())
        await self._ask(source, manager.address, written, read_answer)

    async def pause(self, source: Source, manager: EndpointReference) -> None:
        """Have the producer send nothing for a while."""
        if not PROFILES[source.profile].pauses:
            raise ProducerRefused("It cannot pause.")
        try:
            written = write_pause(_spec(source, manager), manager, message_id=message_urn())
        except Refused as refused:  # WS-Eventing has no such request.
            raise ProducerRefused(refused.text) from refused
        await self._ask(source, manager.address, written, read_answer)

    async def resume(self, source: Source, manager: EndpointReference) -> None:
        """Have the producer send again."""
        written = write_resume(_spec(source, manager), manager, message_id=message_urn())
        await self._ask(source, manager.address, written, read_answer)

    async def unsubscribe(self, source: Source, manager: EndpointReference) -> None:
        """End the subscription."""
        written = write_unsubscribe(_spec(source, manager), manager, message_id=message_urn())
        await self._ask(source, manager.address, written, read_answer)

    async def _ask(
        self, source: Source, address: str, written: Written, read: Callable[[bytes], T]
    ) -> T:
        try:
            target = checked(address, self._policy)
        except Refused as refused:
            raise ProducerRefused(refused.text) from refused
        one = self._with_one.setdefault(target.host, asyncio.Semaphore(AT_ONCE_WITH_ONE))
        async with one, self._in_all:
            answer = await self._send(source, target, written)
        return await self._understand(answer, read)

    async def _send(self, source: Source, target: Target, written: Written) -> Answer:
        action, envelope = written
        headers = http_headers(source.spec.soap, "" if source.spec.wsa is None else action)
        request = Request(
            target,
            envelope,
            headers,
            soap=source.spec.soap,
            # An operator vouches for the host; who registers may name any.
            admit=self._gate(target, source.owner) if source.registration else None,
        )
        try:
            async with asyncio.timeout(self._seconds):
                return await self._transport.send(request)
        except SendFailed as failed:
            raise ProducerUnreachable(_UNREACHABLE.get(failed.kind.value, str(failed))) from failed
        except TimeoutError:
            raise ProducerUnreachable("no answer in time") from None

    async def _understand(self, answer: Answer, read: Callable[[bytes], T]) -> T:
        if answer.status in _NOT_NOW:
            raise ProducerUnreachable(f"answered {answer.status}")
        fault = await self._parsing.fault_in(answer.body) if answer.body else None
        if fault is not None:
            said = fault.reason or fault.subcode or fault.code or "no reason"
            raise ProducerRefused(f"answered with a fault: {said}")
        if not 200 <= answer.status < 300:
            raise ProducerRefused(f"answered {answer.status}")
        if not answer.body and read is read_answer:
            return read(b"")
        try:
            return await self._parsing.run_parser(
                len(answer.body), lambda _: read(answer.body), trusted=False
            )
        except AnsweredFault as error:
            raise ProducerRefused(f"answered with a fault: {error.text}") from error
        except Refused as refused:
            raise ProducerRefused(f"answered what cannot be read: {refused.text}") from refused


_NOT_NOW = frozenset({408, 425, 429, 502, 503, 504})
_UNREACHABLE = {
    "name": "its name has no address",
    "connect": "no connection",
    "tls": "TLS failed",
    "timeout": "no answer in time",
    "reset": "the connection broke",
    "forbidden": "the policy of this gateway does not allow to send there",
    "answer": "its answer is malformed or too long",
}


def checked(address: str, policy: AddressPolicy) -> Target:
    """The target of requests to *address*.

    Raises:
        AddressRefused: Nothing may be sent there, or nothing would be answered.
    """
    target = parse_target(address)
    if target.scheme not in SCHEMES:
        raise AddressRefused(address)
    policy.check(target)
    return target


def spoken(version: Version, profile: Profile) -> Spec:
    """The versions in which a producer of *profile* is spoken to."""
    spec = SPECS[version]
    if profile.soap is not None:
        spec = replace(spec, form=profile.soap)
    return spec if profile.addressing else replace(spec, wsa=None)


def subscribe_request(source: Source, base: str, key: str, at: float) -> Written:
    """The Subscribe of *source* at the time *at*: its action and its envelope.

    Raises:
        Refused: It cannot be written.
    """
    address = ResourceKind.SOURCE.address(base, key)
    consumer = EndpointReference(address, source.spec.wsa or Wsa.V2005_08)
    return write_subscribe(
        _spec(source, source.reference),
        to=source.reference or source.url,
        consumer=consumer,
        end_to=consumer,
        message_id=message_urn(),
        topic=source.topic,
        xpath=source.xpath,
        namespaces=dict(source.namespaces),
        expires=_lease(source, at),
    )


def _spec(source: Source, to: EndpointReference | None) -> Spec:
    """The versions to speak to *to*. Reference parameters are headers of WS-Addressing, also for
    who sends none itself."""
    spec = source.spec
    if spec.wsa is None and to is not None and (to.parameters or to.properties):
        return replace(spec, wsa=to.wsa)
    return spec


def _lease(source: Source, at: float) -> str:
    length = timedelta(seconds=math.ceil(source.lease))
    return expiry_text(source.spec, length, datetime.fromtimestamp(at, UTC))


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
        now = datetime.fromtimestamp(at, UTC)
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
