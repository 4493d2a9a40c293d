"""The one SOAP service, whatever transport a message comes by: octets to a request, what it does,
an answer in what the peer spoke."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TypeVar
from urllib.parse import urlsplit

import structlog

from adapters import AdapterUnavailable
from filters import KNOWN_PREFIXES, Reason, Refused, Topic, parse_clark, parse_topics, quoted
from filters.dialects import TOPIC_IBM_SIMPLE
from filters.topics import Step
from gateway.egress import (
    AddressPolicy,
    Request,
    SendFailed,
    Target,
    Transport,
    parse_target,
    read_hops,
    read_origin,
)
from gateway.inbound import Inbound
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.observing.samples import Sample, counter, counters
from gateway.parsing import SMALL, Parsing
from gateway.security.keys import message_urn
from gateway.security.principals import Principal
from gateway.security.quotas import TokenBucket
from gateway.security.resource_addresses import (
    MESSAGE_BOXES,
    TOPIC_PATHS,
    ResourceAddress,
    ResourceKind,
    is_endpoint,
    resource_at,
    shown,
)
from gateway.soap.operations import OCTETS_OF_TOPIC, Call, Operations, Outcome
from mediation import (
    WSA_NONE,
    Arrival,
    Context,
    Done,
    EndpointReference,
    Events,
    Incoming,
    Operation,
    Publish,
    Published,
    Rejected,
    Response,
    Soap,
    Subscribe,
    TakeFor,
    Taken,
    Version,
    Wsa,
    check_number,
    http_headers,
    is_anonymous,
    read,
    reference_headers,
    write_fault,
    write_response,
)
from mediation.mailboxes.kept import kept, message_id, split
from mediation.mailboxes.make_connection import soap_in
from mediation.names import MAKE_CONNECTION_ANONYMOUS

MAX_TOPIC_NAME = 4096
"""Characters of the name in a path."""
UNDECODED = "\ufffd"
"""What the server makes of octets in a path that are not UTF-8."""
RETRY_AFTER = 2.0
"""Seconds after which a peer may try again what we could not take."""
REPLIES_AT_A_TIME = 64
FAULT = 4096
"""Octets of a fault, about."""
REPLIED, REPLIED_AT_ONCE = 64 * 1024.0, 2 * 2**20
"""Octets of answers that are sent elsewhere for a stranger, and to a host for strangers: a second,
and at once; what is more goes back on the connection."""
_ON_THE_CONNECTION = frozenset(
    {Reason.REPLY_ADDRESS, Reason.TOO_LARGE, Reason.RATE, Reason.UNAVAILABLE, Reason.INTERNAL}
)
_NEVER_ELSEWHERE = frozenset({None, Operation.PUBLISH, Operation.MAKE_CONNECTION})
_KEPT_ALL_THE_SAME = frozenset({Reason.ACTION_UNSUPPORTED, Reason.MESSAGE_INVALID})
"""What a message may be refused for that a mailbox keeps: it need not be ours to understand."""
_ASKED_OF_BOXES = frozenset(
    {
        Operation.CREATE_PULL_POINT,
        Operation.GET_MESSAGES,
        Operation.PULL_MESSAGES,
        Operation.DESTROY_PULL_POINT,
        Operation.CREATE_MESSAGE_BOX,
        Operation.TAKE_MESSAGES,
        Operation.DESTROY_MESSAGE_BOX,
    }
)
"""Operations of mailboxes, in any specification."""
_log = structlog.get_logger("dragoman.soap")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What goes back on the connection; without a body nothing does (HTTP: 202).

    Attributes:
        status: That of HTTP.
        expected: The peer can relate it to its request, which had a message id.
        handed_over: To be awaited when the reply was written, with whether the peer has it.
    """

    status: int
    soap: Soap
    action: str = ""
    body: bytes = b""
    retry_after: float | None = None
    expected: bool = True
    handed_over: Callable[[bool], Awaitable[None]] | None = None


_ACCEPTED = {soap: Reply(status=202, soap=soap) for soap in Soap}


def topic_of_path(path: str) -> Topic | None:
    """The topic that ``/soap/topic/<name>`` names: a path in the ad hoc namespace, or Clark
    notation; decoded once already. Below WS-Messenger's addresses it is one name, as its dialect
    reads it.

    Raises:
        Refused: ``TOPIC_INVALID``.
    """
    before = next(filter(path.startswith, TOPIC_PATHS), None)
    name = path.removeprefix(before).strip() if before is not None else ""
    if not name:
        return None
    if len(name) > MAX_TOPIC_NAME:
        raise _no_topic()
    return _topic_named(name) if before == TOPIC_PATHS[0] else _messenger_topic(name)


@lru_cache(maxsize=256)
def _topic_named(name: str) -> Topic:
    steps: tuple[Step, ...] = ()
    with contextlib.suppress(ValueError):
        if "{" in name:
            steps = parse_clark(name).steps
        else:
            steps = tuple(map(_step_named, name.split("/")))
    if not 0 < len(steps) <= 64 or not all(map(_is_name, steps)) or UNDECODED in name:
        raise _no_topic()
    return Topic(steps)


@lru_cache(maxsize=256)
def _messenger_topic(name: str) -> Topic:
    topics = parse_topics(name, TOPIC_IBM_SIMPLE, ())
    if not topics or not all(map(_is_name, topics[0].steps)) or UNDECODED in name:
        raise _no_topic()
    return topics[0]


def _step_named(text: str) -> Step:
    """One name of a path; where it has a prefix, that is one that everybody knows: a URL declares
    none."""
    prefix, colon, name = text.partition(":")
    if not colon:
        return Step(None, text)
    if prefix not in KNOWN_PREFIXES:
        raise Refused(
            Reason.TOPIC_INVALID,
            f"The prefix {quoted(prefix)} of the topic in the URL is not known.",
        )
    return Step(KNOWN_PREFIXES[prefix], name)


def _no_topic() -> Refused:
    return Refused(Reason.TOPIC_INVALID, "The URL does not name a topic.")


def _is_name(step: Step) -> bool:
    return bool(step.name) and step.name.isprintable() and (step.namespace or "").isprintable()


class SoapService:
    """Answers messages.

    Args:
        has_agreed: Whether the host of a target has accepted what subscribers had sent to it.
    """

    def __init__(
        self,
        operations: Operations,
        parsing: Parsing,
        mailboxes: Mailboxes,
        transport: Transport,
        policy: AddressPolicy,
        *,
        has_agreed: Callable[[Target], bool],
    ) -> None:
        self._operations = operations
        self._parsing = parsing
        self._mailboxes = mailboxes
        self._transport = transport
        self._policy = policy
        self._has_agreed = has_agreed
        self._replied = TokenBucket(REPLIED, REPLIED_AT_ONCE)
        self._replies: set[asyncio.Task[None]] = set()
        self.requests: dict[str, int] = {}
        """Requests by operation; refusals by their reason."""
        self.refusals: dict[str, int] = {}
        self.attachments_dropped = 0
        """Of messages that were put into mailboxes."""
        self.draining = False

    async def handle(self, inbound: Inbound) -> Reply:
        """Do what *inbound* asks for; it raises nothing."""
        context = None
        try:
            try:
                incoming = await self._read(inbound)
            except Rejected as rejected:
                reply = await self._keep_unread(inbound, rejected)
                if reply is None:
                    raise
                return reply
            context = incoming.context
            return await self._perform(inbound, incoming)
        except Rejected as rejected:
            return self._fault(rejected.refused, rejected.context, inbound.principal)
        except Refused as refused:
            return self._fault(refused, context or Context(inbound.hint), inbound.principal)
        except Exception:
            _log.exception("soap.internal-error")
            internal = Refused(Reason.INTERNAL, "Something went wrong here; it is in our log.")
            return self._fault(internal, context or Context(inbound.hint), sender=inbound.principal)

    async def _read(self, inbound: Inbound) -> Incoming:
        topic, unreadable = None, None
        try:
            topic = topic_of_path(inbound.path)
        except Refused as refused:
            unreadable = refused
        arrival = Arrival(
            source=inbound.principal.source,
            time=datetime.now(UTC),
            fresh_id=message_urn(),
            url_topic=topic,
            http_action=inbound.action or None,
            attachments=inbound.attachments,
            packaging=inbound.packaging,
        )
        incoming = await self._parsing.run(
            len(inbound.octets),
            lambda learnt: read(
                inbound.octets,
                arrival,
                soap_hint=inbound.hint,
                charset=inbound.charset,
                learnt=learnt,
            ),
            trusted=inbound.principal.trusted,
        )
        declared = inbound.declared
        if declared is not None and declared is not incoming.context.soap:
            raise Rejected(
                replace(incoming.context, soap=declared),
                Refused(Reason.VERSION_MISMATCH, "The envelope is of another version of SOAP."),
            )
        if unreadable is not None:  # Said in the envelope's version of SOAP, which is known now.
            raise Rejected(incoming.context, unreadable)
        if not inbound.path:
            return self._with_topic_of_to(incoming)
        return incoming

    @staticmethod
    def _with_topic_of_to(incoming: Incoming) -> Incoming:
        """Where the transport has no path, ``wsa:To`` may name the topic of an event."""
        request, to = incoming.request, incoming.context.headers.to
        if not isinstance(request, Publish) or to is None:
            return incoming
        try:
            topic = topic_of_path(urlsplit(to).path)
        except ValueError:
            return incoming
        except Refused as refused:
            raise Rejected(incoming.context, refused) from refused
        if topic is None:
            return incoming
        notifications = tuple(
            one if one.topic is not None else replace(one, topic=topic)
            for one in request.notifications
        )
        return replace(incoming, request=Publish(notifications))

    async def _perform(self, inbound: Inbound, incoming: Incoming) -> Reply:
        context = incoming.context
        operation = context.operation.label if context.operation is not None else "unknown"
        self.requests[operation] = self.requests.get(operation, 0) + 1
        if self.draining:
            raise AdapterUnavailable("The gateway is stopping.")
        resource = self._resource(inbound, context)
        if resource is not None and _is_for_the_box(resource, context.operation):
            return await self._keep(inbound, resource, incoming)
        call = Call(
            incoming=incoming,
            principal=inbound.principal,
            base=inbound.base,
            path=inbound.path,
            hops=read_hops(inbound.hops),
            resource=resource,
            gone=inbound.gone,
            origin=read_origin(inbound.origin),
        )
        elsewhere, headers = None, context.headers
        if headers.reply_to is not None or headers.fault_to is not None:
            elsewhere = self._reply_elsewhere(incoming, inbound.principal)
        outcome = await self._operations.execute(call)
        if outcome.response is None or (
            isinstance(outcome.response, Published) and elsewhere is not None
        ):  # Who publishes learns nothing elsewhere: that would be an event sent to anybody.
            return _ACCEPTED[context.soap]
        try:
            extra = ""
            if elsewhere is not None and context.wsa is not None:
                extra = reference_headers(elsewhere, context.wsa).decode()
            action, body, soap = await self._write(
                outcome.response, context, extra, inbound.principal
            )
        except BaseException:
            await self._hand_over(outcome, False)
            raise
        handed_over = partial(self._hand_over, outcome) if outcome.batch is not None else None
        if not body:
            return _ACCEPTED[context.soap]
        if elsewhere is None or not self._may_send(elsewhere, len(body), inbound.principal):
            return Reply(
                status=200,
                soap=soap,
                action=action,
                body=body,
                expected=context.headers.message_id is not None,
                handed_over=handed_over,
            )
        self._reply(elsewhere, context.soap, action, body, handed_over)
        return _ACCEPTED[context.soap]

    async def _write(
        self, response: Response, context: Context, headers: str, principal: Principal
    ) -> tuple[str, bytes, Soap]:
        """The action, the envelope, and its version of SOAP. What mailboxes kept is parsed for it,
        and that is never done on the event loop: it is much, and its names are strangers'.

        Raises:
            Refused: as `write_response`; ``UNAVAILABLE``: there is too much to do.
        """

        def written(_: object = None) -> tuple[str, bytes, Soap]:
            action, body = write_response(
                response, context, message_id=message_urn(), reply_headers=headers
            )
            fetched = context.operation is Operation.MAKE_CONNECTION and body
            return action, body, soap_in(body) if fetched else context.soap

        if isinstance(response, Events):
            return await self._parsing.beside(OCTETS_OF_TOPIC * len(response.topics), written)
        octets = sum(map(len, response.envelopes)) if isinstance(response, Taken) else 0
        if not octets:
            return written()
        return await self._parsing.run(max(octets, SMALL + 1), written, trusted=principal.trusted)

    async def _hand_over(self, outcome: Outcome, whole: bool) -> None:
        if outcome.batch is not None:
            await self._mailboxes.handed_over(outcome.batch, whole)

    async def parse(
        self, octets: int, work: Callable[[set[str] | None], T], principal: Principal
    ) -> T:
        """Run *work* of a transport, which parses *octets*, where that may be done.

        Raises:
            Refused: ``UNAVAILABLE``: there is too much to do.
        """
        return await self._parsing.run(octets, work, trusted=principal.trusted)

    def refuse(self, rejected: Rejected, sender: Principal) -> Reply:
        """The answer to a message of *sender* that a transport could not take apart."""
        return self._fault(rejected.refused, rejected.context, sender=sender)

    # What is only kept.

    @staticmethod
    def _resource(inbound: Inbound, context: Context) -> ResourceAddress | None:
        """The resource that the message came to: that of the path, else that of ``wsa:To``."""
        resource = resource_at(inbound.path)
        if resource is None and (inbound.path in ("", "/") or is_endpoint(inbound.path)):
            resource = resource_at(context.headers.to)
        return resource

    async def _keep_unread(self, inbound: Inbound, rejected: Rejected) -> Reply | None:
        """A mailbox keeps what nobody here understands, if it is an envelope."""
        if rejected.refused.reason not in _KEPT_ALL_THE_SAME:
            return None
        resource = self._resource(inbound, rejected.context)
        if resource is None or resource.key is None:
            return None
        if not _is_for_the_box(resource, rejected.context.operation):
            return None
        try:
            return await self._keep(inbound, resource, Incoming(rejected.context, Publish(())))
        except Refused as refused:
            raise Rejected(rejected.context, refused) from refused

    async def _keep(self, inbound: Inbound, resource: ResourceAddress, incoming: Incoming) -> Reply:
        context = incoming.context
        if self.draining:
            raise AdapterUnavailable("The gateway is stopping.")
        box = await self._operations.mailbox_for(resource, incoming.named, inbound.principal)
        whole = resource.kind in MESSAGE_BOXES

        def envelopes(_: object) -> list[tuple[str | None, bytes]]:
            envelope = kept(inbound.octets, inbound.charset)
            if whole:
                return [(message_id(envelope), envelope)]
            events = split(envelope)
            check_number(len(events))
            return [(message_id(part), part) for part in events]

        parts = await self._parsing.run(
            len(inbound.octets), envelopes, trusted=inbound.principal.trusted
        )
        self._operations.count_sent(
            inbound.principal, len(parts) - 1, sum(len(envelope) for _, envelope in parts)
        )
        await self._mailboxes.put(box, parts)
        self._operations.stored += len(parts)
        if inbound.attachments:  # What is fetched is envelopes alone.
            self.attachments_dropped += len(inbound.attachments)
            _log.info(
                "mailbox.without-attachments",
                mailbox=box.id,
                attachments=len(inbound.attachments),
            )
        if resource.kind is not ResourceKind.MESSAGE_BOX_2011:
            return _ACCEPTED[context.soap]
        action, body = write_response(
            Done(),
            replace(context, version=Version.MESSAGE_BOX_2011, operation=Operation.STORE_MESSAGES),
            message_id=message_urn(),
        )
        return Reply(
            status=200,
            soap=context.soap,
            action=action,
            body=body,
            expected=context.headers.message_id is not None,
        )

    # Where the answer goes.

    def _reply_elsewhere(
        self, incoming: Incoming, principal: Principal
    ) -> EndpointReference | None:
        """Where the answer goes, if not on the connection that the request came on.

        Raises:
            Refused: ``REPLY_ADDRESS``: the policy does not allow the address.
        """
        headers, request = incoming.context.headers, incoming.request
        if isinstance(request, TakeFor):
            return None  # What is fetched is always answered on the connection.
        self._elsewhere(headers.fault_to, "wsa:FaultTo", principal)
        reply_to = headers.reply_to
        if (
            reply_to is not None
            and isinstance(request, Subscribe)
            and request.consumer.address == reply_to.address
        ):
            return None  # agsh/onvif names its consumer there and waits on the connection.
        return self._elsewhere(reply_to, "wsa:ReplyTo", principal)

    def _fault_elsewhere(
        self, refused: Refused, context: Context, principal: Principal
    ) -> EndpointReference | None:
        """Where a fault goes, if not on the connection: what HTTP has a status for, and whether an
        event was accepted, is said there always."""
        headers, operation = context.headers, context.operation
        if operation in _NEVER_ELSEWHERE or refused.reason in _ON_THE_CONNECTION:
            return None
        to = headers.fault_to
        if to is None and operation is not Operation.SUBSCRIBE:  # It may be agsh/onvif's.
            to = headers.reply_to
        try:
            return self._elsewhere(to, "", principal)
        except Refused:
            return None

    def _elsewhere(
        self, epr: EndpointReference | None, name: str, principal: Principal
    ) -> EndpointReference | None:
        """*epr*, unless it means the connection, or a stranger names a host that never agreed to
        be sent anything: that gets no answer to what it has not asked.

        Raises:
            Refused: ``REPLY_ADDRESS``: the policy does not allow the address. ``UNAVAILABLE``.
        """
        if epr is None or is_anonymous(epr.address):
            return None
        if epr.address.startswith(MAKE_CONNECTION_ANONYMOUS):
            return None  # Nor has the connection to be another (WS-MakeConnection 1.1, 3.1).
        if epr.address == WSA_NONE and epr.wsa is Wsa.V2005_08:
            return epr
        try:
            self._policy.check(target := parse_target(epr.address))
        except Refused as refused:
            raise Refused(
                Reason.REPLY_ADDRESS, "The reply address is refused.", names=(name,)
            ) from refused
        if not (principal.trusted or self._has_agreed(target)):
            return None
        if len(self._replies) >= REPLIES_AT_A_TIME:
            raise AdapterUnavailable("Too many replies are under way.")
        return epr

    def _may_send(self, to: EndpointReference, octets: int, principal: Principal) -> bool:
        """Whether so many *octets* may be sent elsewhere for *principal*, who else has them on the
        connection."""
        if principal.trusted or to.address == WSA_NONE:
            return True
        now = time.monotonic()
        host = parse_target(to.address).host
        return not (
            self._replied.take(f"to {host}", now, number=octets)
            or self._replied.take(principal.owner, now, number=octets)
        )

    def _reply(
        self,
        to: EndpointReference,
        soap: Soap,
        action: str,
        body: bytes,
        handed_over: Callable[[bool], Awaitable[None]] | None = None,
    ) -> None:
        async def send() -> None:
            answered = False
            try:
                if to.address != WSA_NONE:
                    request = Request(
                        parse_target(to.address), body, http_headers(soap, action), soap=soap
                    )
                    answer = await self._transport.send(request)
                    answered = 200 <= answer.status < 300
            except SendFailed as failure:
                _log.warning("soap.reply-failed", kind=failure.kind.value)
            finally:
                if handed_over is not None:
                    await handed_over(answered)

        if to.address == WSA_NONE and handed_over is None:
            return
        task = asyncio.get_running_loop().create_task(send())
        self._replies.add(task)
        task.add_done_callback(self._replies.discard)

    def _fault(
        self,
        refused: Refused,
        context: Context,
        principal: Principal | None = None,
        *,
        sender: Principal | None = None,
    ) -> Reply:
        """The answer that tells of *refused*: to *sender* on the connection where no *principal* is
        given."""
        sender = sender or principal
        self.count_refusal(refused.reason.value)
        retry_after = refused.retry_after
        if retry_after is None and refused.reason is Reason.UNAVAILABLE:
            retry_after = RETRY_AFTER
        _log.info(
            "soap.refused",
            peer=sender.address if sender is not None else None,
            reason=refused.reason.value,
            text=str(refused)[:500],
            operation=context.operation.value if context.operation else None,
            element=context.element[:200],
            value=shown(refused.value)[:200],
            **_mend(refused),
        )
        elsewhere = None
        if principal is not None:
            elsewhere = self._fault_elsewhere(refused, context, principal)
            if elsewhere is not None and not self._may_send(elsewhere, FAULT, principal):
                elsewhere = None
        status, body = write_fault(
            refused,
            context,
            now=datetime.now(UTC),
            message_id=message_urn(),
            retry_after=retry_after,
            to=elsewhere,
        )
        if elsewhere is not None:
            self._reply(elsewhere, context.soap, "", body)
            return _ACCEPTED[context.soap]
        return Reply(
            status=status,
            soap=context.soap,
            body=body,
            retry_after=retry_after,
            expected=context.headers.message_id is not None,
        )

    def metrics(self) -> Iterator[Sample]:
        """Requests, and what became of them."""
        yield counters("requests", "SOAP requests, by operation.", "operation", self.requests)
        yield counters("refusals", "Requests refused, by reason.", "reason", self.refusals)
        yield counter(
            "attachments_dropped",
            "Attachments left out for want of a packaging that the consumer reads.",
            self.attachments_dropped,
        )

    def count_refusal(self, reason: str) -> None:
        """One message more was refused for *reason*."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1


def _is_for_the_box(resource: ResourceAddress, operation: Operation | None) -> bool:
    """Whether a message is one to keep in the box that it came to: it asks for nothing there."""
    if resource.kind is ResourceKind.SUBSCRIPTION:
        return False
    if resource.kind in MESSAGE_BOXES:  # They keep all but what is asked of themselves.
        return operation not in _ASKED_OF_BOXES
    return operation in (None, Operation.PUBLISH)


def _mend(refused: Refused) -> dict[str, str]:
    """The field of a log line that names the setting which would let *refused* pass, if one does;
    the peer is not told."""
    setting = getattr(refused, "allowed_by", None)
    return {"allowed_by": setting} if setting else {}
