"""The two calls of Grid SOAP Events as requests, and their answers.

    handleEvent(ev)                                               a publication
    subscribeLease(listener, filter, leaseDuration, handback)     a subscription, or its renewal

A parameter is known by its name where all have those of the interface, or are numbered; else by its
place. Names of methods count without their namespace, which the answer repeats.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache

from lxml import etree

from filters import Reason, Refused, Topic, parse_clark, quoted
from mediation import names
from mediation.grid_events.encoding import (
    Encoded,
    Generation,
    TypeName,
    generation_of,
    is_null,
    type_of,
)
from mediation.grid_events.events import LONGEST, Event, read_event, write_payload
from mediation.grid_events.filters import filter_of
from mediation.grid_events.references import family_in, reference_of
from mediation.grid_events.types import EventType, TypeNames, family_of
from mediation.model.calling import Calling
from mediation.model.errors import MediationError
from mediation.model.expiry import Duration, Expiry
from mediation.model.messages import Notification
from mediation.model.requests import (
    Arrival,
    Context,
    Operation,
    Publish,
    Published,
    Request,
    Response,
    Subscribe,
    Subscribed,
)
from mediation.model.specification import Answer
from mediation.model.versions import Soap
from mediation.packaging.data import xml_payload
from mediation.soap.contents import (
    attributes_told,
    check_nothing_else,
    refuse_attributes,
)
from mediation.soap.envelopes import elements, local_name, text_of, xml_text

HANDLE_EVENT = "handleEvent"
SUBSCRIBE_LEASE = "subscribeLease"
CALLS: Mapping[str, Operation] = {
    HANDLE_EVENT: Operation.PUBLISH,
    SUBSCRIBE_LEASE: Operation.SUBSCRIBE,
}
"""The operations by the names of their methods."""
VIA = f"{{{names.GRID_EVENTS}}}via"
"""The header block with the addresses that an event has passed, the first one first."""
MADE = f"{{{names.GRID_EVENTS}}}made"
"""The header block of an event that was made of a notification of another specification."""
VIA_PROPERTY = "dragoman_via"
"""The property of a notification with these addresses."""
MOST_VIA = 8
_HEADER = f"{{{Soap.V1_1.value}}}Header"
_LONGEST_ADDRESS = 1024
_NUMBERED = re.compile(r"p([1-9]\d?)", re.ASCII)


_PARAMETERS: Mapping[str, Mapping[str, int]] = {
    HANDLE_EVENT: {"ev": 0, "event": 0},
    SUBSCRIBE_LEASE: {"listener": 0, "filter": 1, "leaseDuration": 2, "handback": 3},
}
"""The places of the parameters of a method, by the names of the interface."""


class Call:
    """A call, with the values of its parameters.

    Raises:
        MediationError: ``MESSAGE_INVALID``.
    """

    def __init__(self, method: etree._Element) -> None:
        body = method.getparent()
        self.name = local_name(method)
        self.encoded = Encoded(method if body is None else body)
        self._method = method
        self._parameters = _placed(elements(method), _PARAMETERS[self.name])

    @property
    def generation(self) -> Generation:
        """The generation of XML Schema that it is written in."""
        return generation_of(self._method)

    def parameter(self, place: int) -> etree._Element | None:
        """The value of the parameter at *place*; None where there is none."""
        element = self._parameters.get(place)
        if element is None:
            return None
        element = self.encoded.at(element)
        return None if is_null(element) else element

    def needed(self, place: int) -> etree._Element:
        """The value of a parameter that there has to be.

        Raises:
            MediationError: ``MESSAGE_INVALID``.
        """
        element = self.parameter(place)
        if element is None:
            raise MediationError(
                Reason.MESSAGE_INVALID, f"{self.name} lacks its parameter {place + 1}."
            )
        return element


def _placed(
    parameters: Sequence[etree._Element], known: Mapping[str, int]
) -> Mapping[int, etree._Element]:
    """The parameters by their places."""
    called = [local_name(one) for one in parameters]
    places: Sequence[int] = [known[name] for name in called if name in known]
    if len(places) != len(called):
        places = range(len(called))
        numbers = [number for number in map(_NUMBERED.fullmatch, called) if number is not None]
        if len(numbers) == len(called):
            places = [int(number[1]) - 1 for number in numbers]
    found: dict[int, etree._Element] = {}
    for place, element in zip(places, parameters, strict=True):
        found.setdefault(place, element)
    return found


class GridRequests:
    """handleEvent and subscribeLease, in any namespace; so `elements` names none of them."""

    namespaces = frozenset({names.GRID_EVENTS})
    elements: Mapping[str, Operation] = {}
    actions: Mapping[str, Operation] = {}

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        call = Call(element)
        if operation is Operation.SUBSCRIBE:
            return _read_subscribe(call, arrival)
        return _read_publish(call, element, arrival)

    def write(self, response: Response, context: Context) -> Answer:
        namespace, _, method = context.element.rpartition("}")
        content, generation = "", Generation.V2001
        match response:
            case Subscribed(subscription, now):
                expires = subscription.lease.expires
                left = timedelta() if expires is None else expires - now
                granted = max(0, round(left / timedelta(milliseconds=1)))
                calling = subscription.policy.calling or Calling()
                content, generation = write_lease(granted, calling), Generation(calling.schema)
            case Published():
                pass
            case _:
                raise ValueError("it has no such answer")
        header = _related(context)
        answer = write_answer(namespace[1:], method, content, generation, header)
        return Answer("", envelope=answer)


def _related(context: Context) -> str:
    """The header of an answer to a call with a message id: over SOAP.TCP others may be on their way
    on the same connection."""
    wsa, id_ = context.wsa, context.headers.message_id
    if wsa is None or id_ is None:
        return ""
    return f"<a:RelatesTo xmlns:a='{wsa.value}'>{xml_text(id_)}</a:RelatesTo>"


def _read_publish(call: Call, method: etree._Element, arrival: Arrival) -> Publish:
    check_call(method, call.parameter(0))
    rules = arrival.rules.calls
    event = read_event(
        call.encoded, call.needed(0), known_only=rules.known_types, declared=rules.declared_types
    )
    via = read_via(method)
    topic, payload = carried_by(method, event, arrival.learnt)
    notification = Notification(
        id=event.identity or arrival.fresh_id,
        source=arrival.source,
        payload=payload,
        time=event.time or arrival.time,
        topic=topic or arrival.url_topic,
        properties={VIA_PROPERTY: " ".join(via)} if via else {},
    )
    return Publish((notification,), answered=True)


def check_call(method: etree._Element, event: etree._Element | None) -> None:
    """Refuse a call of handleEvent with something that nobody would be told: a further parameter,
    a field that is there twice, text, attributes, what stands behind the call without being
    referred to.

    Raises:
        MediationError: ``MESSAGE_INVALID``.
    """
    body = method.getparent()
    behind = [] if body is None else [one for one in elements(body) if one is not method]
    if behind:
        assert body is not None, "they stand in it"
        referred = {str(one.get("href")).strip() for one in body.iter(etree.Element)}
        if any(f"#{one.get('id')}" not in referred for one in behind):
            raise MediationError(
                Reason.MESSAGE_INVALID, "There is something behind the call that is not its event."
            )
    parameters = elements(method)
    if len(parameters) > 1:
        raise MediationError(Reason.MESSAGE_INVALID, f"{HANDLE_EVENT} has one parameter.")
    fields = [] if event is None else elements(event)
    if len({local_name(field) for field in fields}) < len(fields):
        raise MediationError(Reason.MESSAGE_INVALID, "A field of the event is there twice.")
    for each in (body, method, *parameters, event):
        if each is not None:
            check_nothing_else(each, OF_ENCODING)
    for field in fields:
        if told := attributes_told(field, OF_ENCODING):
            refuse_attributes(field, told)


OF_ENCODING = frozenset({"id", "href"})
"""Attributes that refer to what stands elsewhere."""


def read_call(method: etree._Element) -> Event:
    """Read the event of a call of handleEvent.

    Raises:
        MediationError: ``MESSAGE_INVALID``.
    """
    call = Call(method)
    return read_event(call.encoded, call.needed(0))


def carried_by(
    method: etree._Element, event: Event, learnt: set[str] | None = None
) -> tuple[Topic | None, bytes]:
    """The topic and payload of the event of a call: those of the notification of which a gateway
    of ours made it, where it did. The names in such a payload go to *learnt*."""
    block = _block(method, MADE)
    if block is not None and event.message is not None:
        with suppress(Refused):
            topic = block.get("topic")
            payload = xml_payload(event.message.encode(), None, learnt)
            return None if topic is None else parse_clark(topic), payload
    return event.topic, write_payload(event)


def _block(method: etree._Element, name: str) -> etree._Element | None:
    """The first header block of a name in the message of a call."""
    body = method.getparent()
    envelope = None if body is None else body.getparent()
    # Quicker than `find`, for every event.
    header = None if envelope is None else next(envelope.iterchildren(_HEADER), None)
    return None if header is None else next(header.iterchildren(name), None)


def read_via(method: etree._Element) -> tuple[str, ...]:
    """The addresses that the event of a call has passed.

    Raises:
        MediationError: ``LOOP``: they are too many; ``MESSAGE_INVALID``.
    """
    block = _block(method, VIA)
    if block is None:
        return ()
    addresses = tuple(text_of(block).split())
    if len(addresses) > MOST_VIA:
        raise MediationError(Reason.LOOP, f"The event has passed more than {MOST_VIA} channels.")
    if any(len(one) > _LONGEST_ADDRESS for one in addresses):
        raise MediationError(Reason.MESSAGE_INVALID, "An address that was passed is too long.")
    return addresses


def _read_subscribe(call: Call, arrival: Arrival) -> Subscribe:
    encoded = call.encoded
    listener, example = call.needed(0), call.parameter(1)
    pattern = _read_pattern(encoded, example)
    asked = encoded.long(call.needed(2)) or 0
    handback = call.parameter(3)
    text = None if handback is None else encoded.text(handback)
    if text is not None and len(text.encode()) > LONGEST["handback"]:
        raise MediationError(Reason.MESSAGE_INVALID, "The handback is too long.")
    said = family_in(encoded, listener)
    if said is None and example is not None:
        said = family_of(type_of(example))
    granted = timedelta(milliseconds=arrival.rules.calls.granted(asked))
    return Subscribe(
        reference_of(encoded, listener),
        filter_of(pattern),
        Expiry(duration=Duration(0, granted), best_effort=True),
        calling=Calling(text, (said or TypeNames.SCHEMA).value, call.generation.value),
    )


def _read_pattern(encoded: Encoded, element: etree._Element | None) -> Event | None:
    return None if element is None else read_event(encoded, element)


# Writing.


def envelope_start(generation: Generation, header: str = "") -> str:
    """Return the start of an envelope, up to the method element of a call, as SoapRMI writes it."""
    soap, encoding = Soap.V1_1.value, names.SOAP_ENCODING_1_1
    around = f"<SOAP-ENV:Header>{header}</SOAP-ENV:Header>" if header else ""
    return (
        f"<SOAP-ENV:Envelope xmlns:SOAP-ENV='{soap}' xmlns:SOAP-ENC='{encoding}' "
        f"xmlns:xsi='{generation.xsi}' xmlns:xsd='{generation.xsd}' "
        f"SOAP-ENV:encodingStyle='{encoding}'>{around}<SOAP-ENV:Body>"
    )


ENVELOPE_END = "</SOAP-ENV:Body></SOAP-ENV:Envelope>"


def method_tags(name: str, namespace: str | None) -> tuple[str, str]:
    """The start tag and the end tag of a method element."""
    if not namespace:
        return f"<{name}>", f"</{name}>"
    return f"<m:{name} xmlns:m={attribute(namespace)}>", f"</m:{name}>"


def attribute(text: str) -> str:
    """*text* as an attribute's value, in the single quotes that SoapRMI writes."""
    for mark, written in (("&", "&amp;"), ("<", "&lt;"), ("'", "&apos;")):
        text = text.replace(mark, written)
    if text.isprintable():
        return f"'{text}'"
    return "'" + "".join(one if one.isprintable() else f"&#{ord(one)};" for one in text) + "'"


def type_attributes(event: Event, family: TypeNames) -> str:
    """The attributes that say the type of *event*, by its name in *family*."""
    known = event.known_type
    return _type(event.type_name) if known is None else _known_type(known, family)


@lru_cache(maxsize=16)
def _known_type(known: EventType, family: TypeNames) -> str:
    return _type(known.called(family))


def _type(name: TypeName) -> str:
    if not name.namespace:
        return f"xsi:type={attribute(name.local)}"
    return f"xsi:type={attribute('n1:' + name.local)} xmlns:n1={attribute(name.namespace)}"


def write_answer(
    namespace: str,
    method: str,
    content: str = "",
    generation: Generation = Generation.V2001,
    header: str = "",
) -> bytes:
    """Write the answer to a call: its element has the namespace of the method's."""
    start, end = method_tags(f"{method}Response", namespace)
    return f"{envelope_start(generation, header)}{start}{content}{end}{ENVELOPE_END}".encode()


def write_lease(granted: int, calling: Calling) -> str:
    """Write what subscribeLease returns."""
    name = f"'n1:{_LEASE[TypeNames(calling.types)][1]}'"
    bound = _LEASE[TypeNames(calling.types)][0]
    return (
        f"<return xsi:type={name} xmlns:n1='{bound}'>"
        f"<leaseDuration xsi:type='xsd:long'>{granted}</leaseDuration></return>"
    )


_LEASE = {
    TypeNames.JAVA: (names.SOAPRMI_TYPES, "soaprmi.events.EventLease"),
    TypeNames.SCHEMA: (names.GRID_EVENT, "EventLease"),
}


def refuse_soap(name: str) -> MediationError:
    """The refusal of a call in another version of SOAP than 1.1."""
    return MediationError(
        Reason.VERSION_MISMATCH, f"{quoted(name)} is called in SOAP 1.1.", value=name
    )
