"""Grid SOAP Events (Slominski, Govindaraju, Gannon and Bramley, "SoapRMI Events", 2001; "An
Extensible and Interoperable Event System Architecture Using SOAP", 2002), `SPECIFICATION`.

A listener is called as SoapRMI calls it. An event is written once for each way to call, and three
things are put in for each listener:

    frame    method, in its namespace    fields    its handback    further fields    end of method
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import sha256
from urllib.parse import urlsplit

from filters import Reason, Topic
from mediation import names
from mediation.grid_events.encoding import Generation
from mediation.grid_events.events import (
    Event,
    milliseconds,
    read_payload,
    write_fields,
    write_handback,
)
from mediation.grid_events.leasing import GridLeasing
from mediation.grid_events.making import (
    made_header,
    made_names,
    text_of_payload,
)
from mediation.grid_events.references import port_of
from mediation.grid_events.rewriting import rewrite_payload
from mediation.grid_events.rpc import (
    CALLS,
    ENVELOPE_END,
    HANDLE_EVENT,
    VIA_PROPERTY,
    GridRequests,
    envelope_start,
    method_tags,
    type_attributes,
)
from mediation.grid_events.types import TypeNames
from mediation.model.calling import Calling
from mediation.model.facts import TOPICS, Fact
from mediation.model.messages import Notification, Policy, Subscription
from mediation.model.specification import (
    Body,
    Code,
    Detail,
    Fault,
    Faults,
    Filling,
    Holes,
    LeaseRules,
    Specification,
)
from mediation.model.versions import Family, Form, Soap, Version, Wsa
from mediation.soap.envelopes import http_headers, xml_text
from mediation.soap.expiry import expiry_block
from mediation.soap.properties import clean_text, properties_block

_TELLS = TOPICS | {Fact.TIME, Fact.EXPIRY, Fact.SIGNATURE}
_CONTENT_TYPE = http_headers(Soap.V1_1, "")[:1]
_TIME = "<timestamp xsi:type='xsd:long'>"


@dataclass(slots=True)  # Not frozen: that makes it dearer, for every message.
class CallRendering:
    """An event in one way to call. *numbered*: the subscription counts it, for its publisher does
    not."""

    before_method: bytes
    before_handback: bytes
    behind_handback: bytes
    after_number: bytes = b""
    numbered: bool = False

    @property
    def http_headers(self) -> tuple[tuple[str, str], ...]:
        return _CONTENT_TYPE

    @property
    def own_headers(self) -> tuple[tuple[str, str], ...]:
        return ()

    def fill(self, recipient: Filling, message_id: str) -> bytes:
        """The call of one listener."""
        before, start, counted = self.before_method, recipient.headers, b""
        if start.startswith(_ADDRESSED):
            before, start = _addressed(before, start)
        if self.numbered:
            counted = b"<seqNo xsi:type='xsd:long'>%d</seqNo>" % recipient.number
        return b"".join(
            (
                before,
                start,
                self.before_handback,
                counted,
                self.after_number,
                recipient.reference,
                self.behind_handback,
                recipient.closing,
                _END,
            )
        )


_END = ENVELOPE_END.encode()
_ADDRESSED, _BEHIND = f"<a:To xmlns:a='{Wsa.V2005_08.value}'>".encode(), b"</a:To>"
_HEADER_END, _BODY = b"</SOAP-ENV:Header>", b"<SOAP-ENV:Body>"


def _addressed(before: bytes, start: bytes) -> tuple[bytes, bytes]:
    """Return what stands before the method, with the header block that *start* begins with; and the
    rest of *start*."""
    to, behind, start = start.partition(_BEHIND)
    return _with_block(before, to + behind), start


def _with_block(before: bytes, block: bytes) -> bytes:
    """Return *before*, what stands before the method, with a further header block."""
    if _HEADER_END in before:
        return before.replace(_HEADER_END, block + _HEADER_END)
    header = b"<SOAP-ENV:Header>" + block + _HEADER_END
    return before.replace(_BODY, header + _BODY)


@dataclass(frozen=True, slots=True)
class CallShape:
    """The names of types, and the generation of XML Schema."""

    types: TypeNames
    generation: Generation
    _made_start: Callable[[str | None, str, str], bytes] = field(
        init=False, repr=False, compare=False
    )
    _before: Callable[[str, str, str], bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Remembered by shape: to look for one in a table for all shapes is dearer.
        for name, make in (("_made_start", _made_start), ("_before", _before)):
            kept = lru_cache(maxsize=256)(partial(make, self.types, self.generation))
            object.__setattr__(self, name, kept)

    @property
    def soap(self) -> Soap:
        return Soap.V1_1

    @property
    def tells(self) -> frozenset[Fact]:
        return _TELLS

    def topic_of(self, notification: Notification) -> Topic | None:
        event = read_payload(notification.payload)
        return notification.topic if event is None else event.topic

    def render(self, notification: Notification, producer: str) -> CallRendering:
        made = self._render(notification, producer)
        if notification.expires is not None:
            block = expiry_block(notification.expires)
            made.before_method = _with_block(made.before_method, block)
        signature = notification.properties.get(names.EVENT_SIGNATURE)
        if signature is not None:
            block = properties_block({names.EVENT_SIGNATURE: clean_text(signature)})
            made.before_method = _with_block(made.before_method, block)
        return made

    def _render(self, notification: Notification, producer: str) -> CallRendering:
        via = notification.properties.get(VIA_PROPERTY, "")
        first = self._before(via, producer, "")
        rewritten = rewrite_payload(notification.payload, self.generation)
        if rewritten is not None:
            event, before, behind = rewritten
        else:
            read = read_payload(notification.payload)
            if read is None:
                # Who publishes is not a gateway, and says nothing of other specifications.
                made = made_header(notification) if producer else ""
                return self._render_made(notification, producer, self._before(via, producer, made))
            event = read
            before, behind = map(str.encode, write_fields(event, self.generation))
        start = b"".join((b"<p1 ", type_attributes(event, self.types).encode(), b">", before))
        return CallRendering(first, start, behind + b"</p1>")

    def _render_made(
        self, notification: Notification, producer: str, first: bytes
    ) -> CallRendering:
        """The call with the event that a notification of another specification becomes: its
        `made_event`, of which all but time and message recurs. Each subscription numbers it."""
        start = self._made_start(*made_names(notification, producer))
        message = text_of_payload(notification.payload)
        return CallRendering(
            first,
            b"%b%d</timestamp>" % (start, milliseconds(notification.time)),
            b"</p1>",
            b"<message xsi:type='xsd:string'>%b</message>" % message,
            numbered=True,
        )

    def batch(self, notifications: Sequence[Notification], producer: str) -> Body:
        raise ValueError("a call has one event")


def _before(types: TypeNames, generation: Generation, via: str, producer: str, made: str) -> bytes:
    """Return what stands before the method element; it says which addresses the event has passed,
    and, `made_header`, what it was made of."""
    passed = xml_text(f"{via} {producer}".strip())
    header = f"<d:via xmlns:d='{names.GRID_EVENTS}'>{passed}</d:via>{made}" if passed else ""
    return envelope_start(generation, header).encode()


def _made_start(
    types: TypeNames, generation: Generation, namespace: str | None, type_: str, source: str
) -> bytes:
    """Return what stands before the time of an event that was made of another specification's."""
    event = Event(namespace, type_, source, 0)
    fields, time, _ = write_fields(event, generation)[0].partition(_TIME)
    return f"<p1 {type_attributes(event, types)}>{fields}{time}".encode()


_WITHOUT_PATHS = ("soap.tcp", "soap.tcps")
"""The schemes over which an envelope alone says what it is for."""


class GridBodies:
    """The ways to call."""

    def shape(self, form: Form, policy: Policy) -> CallShape:
        calling = policy.calling or Calling()
        return _shape(calling.types, calling.schema)

    def holes(self, subscription: Subscription) -> Holes:
        calling = subscription.policy.calling or Calling()
        port = port_of(subscription.consumer)
        binding, to = port.binding, ""
        if urlsplit(port.location).scheme in _WITHOUT_PATHS:
            to = f"{_ADDRESSED.decode()}{xml_text(port.location)}{_BEHIND.decode()}"
        start, end = method_tags(HANDLE_EVENT, binding)
        handback = write_handback(calling.handback, Generation(calling.schema))
        action = f"{binding}#{HANDLE_EVENT}" if binding else ""
        own = http_headers(Soap.V1_1, action)[1:]
        return Holes((to + start).encode(), handback.encode(), end.encode(), own)


@lru_cache(maxsize=16)
def _shape(types: str, schema: str) -> CallShape:
    return CallShape(TypeNames(types), Generation(schema))


def identity_of(subscription: Subscription) -> str:
    """Return the key that a subscription shares with all that renew it: the listener, by its
    interface and endpoint; the filter; the handback; the channel."""
    port = port_of(subscription.consumer)
    calling = subscription.policy.calling or Calling()
    said = repr(
        (port.port_type, port.location, port.binding, subscription.filter, calling.handback)
    )
    if subscription.policy.channel:
        said += f" at {subscription.policy.channel}"
    return sha256(said.encode(errors="surrogatepass")).hexdigest()


FAULTS: Faults = {
    (Reason.EVENT_TYPE, None): Fault(
        detail=Detail.TEXTS, inner=f"{{{names.GRID_EVENTS}}}UnknownEventType"
    ),
    (Reason.QUOTA, None): Fault(Code.RECEIVER, status=503),
}

SPECIFICATION = Specification(
    Version.GRID_EVENTS,
    Family.GRID,
    "Grid SOAP Events",
    requests=GridRequests(),
    calls=CALLS,
    faults=FAULTS,
    bodies=GridBodies(),
    leasing=GridLeasing(),
    leases=LeaseRules(shortens=True, endless=False),
    identity=identity_of,
)
