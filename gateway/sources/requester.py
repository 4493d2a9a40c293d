"""Sends requests to producers, as who they want to know, and understands what they answer.

Addresses come from operators and, in registrations, from strangers: each is judged by the egress
policy, here and again on every connection.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

from filters import Refused, in_utf_8
from gateway.egress import (
    AddressPolicy,
    AddressRefused,
    Answer,
    Request,
    SendFailed,
    Shown,
    Target,
    Transport,
    parse_target,
    status_words,
)
from gateway.egress.transport import LONGEST_DOCUMENT
from gateway.model.sources import PASSWORD, Source
from gateway.parsing import Parsing
from gateway.sources.admission import Admission, Visit
from gateway.sources.authentication import Authentication
from gateway.sources.negotiation import NegotiationFailed, negotiate
from gateway.sources.requests import Written
from mediation.client import (
    DEVICE_SPEC,
    AnsweredFault,
    is_response,
    leasing_in,
    read_answer,
    read_time,
    write_get_time,
)
from mediation.names import MAKE_CONNECTION_ANONYMOUS, WSA_NONE, WSEN
from mediation.packaging.mime import charset_in
from mediation.soap.addressing import is_anonymous
from mediation.soap.answers import PeerFault
from mediation.soap.envelopes import http_headers

SECONDS = 20.0
"""Of one exchange, its answer included."""
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


class NotAuthorized(ProducerRefused):
    """The producer did not take who asks for somebody who may."""


class ProducerUnreachable(Exception):
    """There was no answer, or one that says: not now."""


class _Unauthorized(Exception):
    """The answer says that who asks may not; the text is what it says."""


_REFUSALS = {
    "InvalidBookmark": BookmarkRefused,
    "UnsupportedFeature": FeatureRefused,
    "TimedOut": NothingYet,
    "InvalidEnumerationContext": ContextRefused,
}
"""What subcodes of WS-Management (DSP0226 1.2, section 14.6) and of WS-Enumeration mean."""
_UNAUTHORIZED = frozenset(
    {
        "NotAuthorized",
        "SenderNotAuthorized",
        "FailedAuthentication",
        "FailedCheck",
        "InvalidSecurity",
        "InvalidSecurityToken",
        "AccessDenied",
    }
)
"""Codes of ONVIF (Core Specification, "Generic faults"), of WS-Security 1.0 (section 12) and of
WS-Management that mean that who asks may not."""
_NOT_NOW = frozenset({408, 425, 429, 502, 503, 504})


class Requester:
    """Asks producers.

    Args:
        admission: Says which exchanges may begin.
        authentication: Says who asks.
        alone: Makes a transport of one connection, over which nobody else sends; without it there
            is no Negotiate.
    """

    def __init__(
        self,
        transport: Transport,
        policy: AddressPolicy,
        parsing: Parsing,
        authentication: Authentication,
        admission: Admission | None = None,
        *,
        alone: Callable[[], Transport] | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._transport = transport
        self._policy = policy
        self._parsing = parsing
        self._authentication = authentication
        self._admission = admission or Admission()
        self._seconds = seconds
        self._alone = alone or _no_connection

    def is_strangers(self, source: Source) -> bool:
        """Whether nobody that is trusted vouches for *source*."""
        return self._admission.is_strangers(source)

    async def ask(
        self, source: Source, address: str, written: Written, read: Callable[[bytes], T]
    ) -> T:
        """Send a request, and read its answer.

        Raises:
            ProducerRefused, ProducerUnreachable
        """
        target = self._target(source, address)
        async with self._admission.place(source, target.host):
            visit = self._admission.visit(source, target)
            if visit is None:
                raise ProducerUnreachable(
                    "its host was asked often enough for now, and never answered as a producer"
                )
            understood, answer = await self._converse(source, target, written, read, visit)
        # Many servers say yes to whatever comes, or send it back.
        if not visit.agreed and answer.body and await self._is_response(answer.document):
            visit.answered()
        return understood

    async def wait(
        self,
        source: Source,
        address: str,
        written: Written,
        read: Callable[[bytes], T],
        *,
        seconds: float,
    ) -> T:
        """Send a request whose answer may take so many *seconds* longer than others: who waits for
        events must not take the place of who subscribes.

        Raises:
            ProducerRefused, ProducerUnreachable
        """
        target = self._target(source, address)
        understood, _ = await self._converse(
            source, target, written, read, None, seconds + self._seconds
        )
        return understood

    async def clock_of(self, source: Source) -> float | None:
        """Ask a device for its time, as anybody may; the seconds that it is ahead of ours, None
        where it does not say.

        Raises:
            ProducerRefused, ProducerUnreachable
        """
        target = self._target(source, source.url)
        action, envelope = write_get_time(source.url)
        headers = http_headers(DEVICE_SPEC.soap, action)
        before = time.time()
        request = Request(target, envelope, headers, soap=DEVICE_SPEC.soap)
        request.shown = self._shown(source, target)
        answer = await self._post(request)
        between = (before + time.time()) / 2
        try:
            theirs = await self._understand(answer, read_time)
        except (ProducerRefused, _Unauthorized):
            return None
        return None if theirs is None else theirs.timestamp() - between

    def _target(self, source: Source, address: str) -> Target:
        try:
            return checked(address, self._policy, trusted=self._is_trusted(source, address))
        except Refused as refused:
            raise ProducerRefused(refused.text) from refused

    def _is_trusted(self, source: Source, address: str) -> bool:
        """Whether who is trusted named *address*: the producer names that of its manager."""
        if self.is_strangers(source):
            return False
        return address == source.url or _authority(address) == _authority(source.url)

    async def _is_response(self, body: bytes) -> bool:
        try:
            return await self._parsing.run_answer_parser(
                len(body), lambda _: is_response(body), counts=False
            )
        except Refused:
            return False

    async def _converse(
        self,
        source: Source,
        target: Target,
        written: Written,
        read: Callable[[bytes], T],
        visit: Visit | None,
        seconds: float | None = None,
    ) -> tuple[T, Answer]:
        """Send a request, once more where the producer's clock was set meanwhile. What it says in
        refusals is kept and listed: without secrets that it repeats."""
        try:
            return await self._ask(source, target, written, read, visit, seconds)
        except (ProducerRefused, ProducerUnreachable) as error:
            said = self._authentication.cleared(source, str(error))
            if said == str(error):
                raise
            raise type(error)(said) from None

    async def _ask(
        self,
        source: Source,
        target: Target,
        written: Written,
        read: Callable[[bytes], T],
        visit: Visit | None,
        seconds: float | None,
    ) -> tuple[T, Answer]:
        shown = self._authentication.applies(source, target)
        if shown and self._authentication.wants_clock(source):
            await self._learn_clock(source)
        for again in (True, False):
            try:
                answer = await self._send(source, target, written, visit, seconds)
                return await self._understand(answer, read), answer
            except _Unauthorized as refused:
                timed = again and shown and self._authentication.tells_time(source)
                if not timed or not await self._learn_clock(source):
                    raise NotAuthorized(self._why(source, target, str(refused))) from refused
        raise AssertionError("the second one returns or raises")  # pragma: no cover

    async def _learn_clock(self, source: Source) -> bool:
        """Ask the clock of *source*; whether it shows another time than before."""
        ahead = await self.clock_of(source)
        return self._authentication.set_clock(source, ahead or 0.0)

    async def _send(
        self,
        source: Source,
        target: Target,
        written: Written,
        visit: Visit | None,
        seconds: float | None,
    ) -> Answer:
        """Send a request, and answer the challenge that may come back."""
        action, envelope = written
        said = source.spec.wsa is not None or leasing_in(source.spec) is not None
        request = Request(
            target,
            envelope,
            http_headers(source.spec.soap, action if said else ""),
            soap=source.spec.soap,
            admit=None if visit is None else visit.admit,
            patient=seconds is not None,
        )
        request.shown = self._shown(source, target)
        if not self._authentication.answers_challenges(source, target):
            return await self._post(request, seconds)
        if self._authentication.negotiates(source, target):
            return await self._negotiate(source, request, seconds)
        try:
            self._show_credentials(source, request, envelope)
            answer = await self._post(request, seconds)
            if self._authentication.challenged(source, target, answer):
                self._show_credentials(source, request, envelope)
                answer = await self._post(request, seconds)
        except Refused as refused:
            raise ProducerRefused(refused.text) from refused
        return answer

    async def _negotiate(self, source: Source, request: Request, seconds: float | None) -> Answer:
        """Send *request* over a connection of its own, on which the producer learns who asks."""
        try:
            connection = self._alone()
        except NegotiationFailed as failed:
            raise NotAuthorized(str(failed)) from failed
        try:
            user, password = self._authentication.password_of(source)
            # An answer has its own limit: the rest is for tokens.
            async with asyncio.timeout(2 * (seconds or self._seconds)):
                return await negotiate(
                    lambda one: self._post(one, seconds, connection), request, user, password
                )
        except NegotiationFailed as failed:
            raise NotAuthorized(str(failed)) from failed
        except TimeoutError:
            raise ProducerUnreachable("no token for Negotiate was made in time") from None
        except Refused as refused:
            raise ProducerRefused(refused.text) from refused
        finally:
            await connection.close()

    def _shown(self, source: Source, target: Target) -> Shown | None:
        try:
            return self._authentication.shown(source, target)
        except Refused as refused:
            raise ProducerRefused(refused.text) from refused

    def _show_credentials(self, source: Source, request: Request, envelope: bytes) -> None:
        """Put into *request* what says who asks, for this once."""
        request.body, request.own_headers = self._authentication.with_credentials(
            source, request.target, envelope
        )

    async def _post(
        self, request: Request, seconds: float | None = None, transport: Transport | None = None
    ) -> Answer:
        seconds = seconds or self._seconds
        try:
            async with asyncio.timeout(seconds):
                return await (transport or self._transport).send(request)
        except SendFailed as failed:
            if failed.answer is not None:  # It did not take the credential.
                raise NotAuthorized(failed.detail) from failed
            raise ProducerUnreachable(failed.detail) from failed
        except TimeoutError:
            raise ProducerUnreachable(f"no answer within {seconds:.0f} s") from None

    def _why(self, source: Source, target: Target, said: str) -> str:
        """What is to be done about a refusal, in which the producer *said* so much."""
        credential = source.credential
        if credential is None:
            return (
                f"it wants a user and a password, or a token ({said}): see --user, --password-file "
                "and --bearer-file"
            )
        if not self._authentication.applies(source, target):
            what = (
                "a password" if credential.kind == PASSWORD else f"a credential ({credential.kind})"
            )
            return f"{target.host} wants {what}, and gets none, being another host ({said})"
        if credential.kind != PASSWORD:
            return f"it refused the credential {credential.kind} ({said})"
        if self._authentication.withholds(source, target):
            return (
                "it takes the password as it is (HTTP Basic), and over http everybody on the way "
                "can read that: use https, or allow it with --allow-basic"
            )
        return f"it refused the user {credential.user!r}, or the password ({said})"

    async def _understand(self, answer: Answer, read: Callable[[bytes], T]) -> T:
        if answer.status in _NOT_NOW:
            raise ProducerUnreachable(status_words(answer.status))
        if answer.status == 401:
            raise _Unauthorized(status_words(answer.status))
        body = self._document(answer)
        fault = await self._parsing.fault_in(body) if body else None
        if fault is not None:
            raise _refusal(fault)
        if not 200 <= answer.status < 300:
            raise ProducerRefused(status_words(answer.status))
        if not body and read is read_answer:
            return read(b"")
        try:
            return await self._parsing.run_answer_parser(
                len(body), lambda _: read(body), counts=False
            )
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


def _authority(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme, parts.netloc


def _refusal(fault: PeerFault) -> Exception:
    """The exception for a fault."""
    name = fault.subcode or fault.code
    if not _UNAUTHORIZED.isdisjoint((fault.subcode, fault.code)):
        return _Unauthorized(f"{name}: {fault.reason}" if fault.reason else name)
    said = fault.reason or name or "no reason"
    kind = _REFUSALS.get(fault.subcode or "", ProducerRefused)
    if kind is NothingYet and fault.namespace == WSEN:
        kind = ContextRefused  # "The enumerator has timed out and is no longer valid."
    return kind(f"answered with a fault: {said}")


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


def _no_connection() -> Transport:
    raise NegotiationFailed("nothing here makes connections for Negotiate")
