"""The bodies of the protocol messages, read and written."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from lxml import etree

from filters import Reason
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.expiry import parse_duration, write_length
from mediation.model.messages import EndpointReference
from mediation.model.versions import Wsa
from mediation.reliable_messaging.parts import child_of, identifier_in, number_of
from mediation.reliable_messaging.values import (
    LONGEST_EXPIRY,
    AcknowledgementAlone,
    AckRequestedAlone,
    Body,
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    LastMessage,
    Offer,
    TerminateSequence,
    TerminateSequenceResponse,
)
from mediation.reliable_messaging.versions import IncompleteBehaviour, Kind, Rm
from mediation.soap.addressing import MAX_REFERENCE_OCTETS, read_epr, write_epr
from mediation.soap.envelopes import text_of, xml_text
from mediation.soap.payloads import payload_of

_TOKEN = f"{{{names.WSSE}}}SecurityTokenReference"
_MONTH = timedelta(days=30)


# Reading.


def _create_sequence(rm: Rm, element: etree._Element) -> CreateSequence:
    acks_to = _reference(rm, element, "AcksTo")
    if acks_to is None:
        raise MediationError(Reason.MESSAGE_INVALID, "CreateSequence has no AcksTo.")
    offer = child_of(rm, element, "Offer")
    token = element.find(_TOKEN)
    return CreateSequence(
        acks_to,
        _expires(rm, element),
        None if offer is None else _offer(rm, offer),
        None if token is None else _token(token),
    )


def _token(element: etree._Element) -> bytes:
    octets = payload_of(element)
    if len(octets) > MAX_REFERENCE_OCTETS:
        raise MediationError(Reason.MESSAGE_INVALID, "A SecurityTokenReference is too long.")
    return octets


def _offer(rm: Rm, element: etree._Element) -> Offer:
    return Offer(
        identifier_in(rm, element),
        # 1.0 has none; gSOAP writes one without an address there.
        _reference(rm, element, "Endpoint") if "Endpoint" in rm.rules.elements else None,
        _expires(rm, element),
        _incomplete(rm, element),
    )


def _create_sequence_response(rm: Rm, element: etree._Element) -> CreateSequenceResponse:
    accept = child_of(rm, element, "Accept")
    acks_to = None if accept is None else _reference(rm, accept, "AcksTo")
    if accept is not None and acks_to is None:
        raise MediationError(Reason.MESSAGE_INVALID, "Accept has no AcksTo.")
    return CreateSequenceResponse(
        identifier_in(rm, element), _expires(rm, element), _incomplete(rm, element), acks_to
    )


def _reference(rm: Rm, element: etree._Element, name: str) -> EndpointReference | None:
    child = child_of(rm, element, name)
    return None if child is None else read_epr(child, forged="refuse")


def _expires(rm: Rm, element: etree._Element) -> timedelta | None:
    """Read Expires; None: never, which no time at all means, too. A month counts as 30 days."""
    child = child_of(rm, element, "Expires")
    if child is None:
        return None
    text = text_of(child)
    try:
        length = parse_duration(text)
    except ValueError as error:
        raise MediationError(
            Reason.EXPIRY_INVALID, "Expires is not an xs:duration.", value=text[:100]
        ) from error
    months = _MONTH * min(length.months, LONGEST_EXPIRY // _MONTH + 1)
    return min(months + length.seconds, LONGEST_EXPIRY) or None


def _incomplete(rm: Rm, element: etree._Element) -> IncompleteBehaviour:
    child = child_of(rm, element, "IncompleteSequenceBehavior")
    if child is None:
        return IncompleteBehaviour.NO_DISCARD
    text = text_of(child)
    try:
        return IncompleteBehaviour(text)
    except ValueError as error:
        raise MediationError(
            Reason.MESSAGE_INVALID, "No such IncompleteSequenceBehavior.", value=text[:100]
        ) from error


def _last_number(rm: Rm, element: etree._Element) -> int | None:
    child = child_of(rm, element, "LastMsgNumber")
    if child is None or "LastMsgNumber" not in rm.rules.elements:
        return None
    number = number_of(text_of(child), "LastMsgNumber")
    if not 1 <= number <= rm.rules.largest:
        raise MediationError(Reason.MESSAGE_INVALID, "LastMsgNumber is not a message number.")
    return number


BODIES: Mapping[str, Callable[[Rm, etree._Element], Body]] = {
    "CreateSequence": _create_sequence,
    "CreateSequenceResponse": _create_sequence_response,
    "CloseSequence": lambda rm, element: CloseSequence(
        identifier_in(rm, element), _last_number(rm, element)
    ),
    "CloseSequenceResponse": lambda rm, element: CloseSequenceResponse(identifier_in(rm, element)),
    "TerminateSequence": lambda rm, element: TerminateSequence(
        identifier_in(rm, element), _last_number(rm, element)
    ),
    "TerminateSequenceResponse": lambda rm, element: TerminateSequenceResponse(
        identifier_in(rm, element)
    ),
}
"""The reader of each element that a body has."""


# Writing.


def kind_of(body: Body) -> Kind:
    """The protocol message that has this content."""
    return _KINDS[type(body)]


_KINDS: Mapping[type[Any], Kind] = {
    CreateSequence: Kind.CREATE_SEQUENCE,
    CreateSequenceResponse: Kind.CREATE_SEQUENCE_RESPONSE,
    CloseSequence: Kind.CLOSE_SEQUENCE,
    CloseSequenceResponse: Kind.CLOSE_SEQUENCE_RESPONSE,
    TerminateSequence: Kind.TERMINATE_SEQUENCE,
    TerminateSequenceResponse: Kind.TERMINATE_SEQUENCE_RESPONSE,
    LastMessage: Kind.LAST_MESSAGE,
    AcknowledgementAlone: Kind.ACKNOWLEDGEMENT,
    AckRequestedAlone: Kind.ACK_REQUESTED,
}


def write_body(rm: Rm, wsa: Wsa, body: Body) -> str:
    """Write the element in the body of a protocol message; nothing for those whose body is empty.
    What the version does not have is left out.

    Raises:
        ValueError: An offer has no endpoint, and the version demands one.
    """
    match body:
        case CreateSequence(acks_to, expires, offer, token):
            inner = f"<wsrm:AcksTo>{write_epr(acks_to, wsa)}</wsrm:AcksTo>{_length(expires)}"
            inner += "" if offer is None else _written_offer(rm, wsa, offer)
            inner += "" if token is None else token.decode()
        case CreateSequenceResponse(identifier, expires, incomplete, acks_to):
            inner = _identifier(identifier) + _length(expires) + _behaviour(rm, incomplete)
            if acks_to is not None:
                accepted = f"<wsrm:AcksTo>{write_epr(acks_to, wsa)}</wsrm:AcksTo>"
                inner += f"<wsrm:Accept>{accepted}</wsrm:Accept>"
        case CloseSequence(identifier, last) | TerminateSequence(identifier, last):
            inner = _identifier(identifier)
            if last is not None and "LastMsgNumber" in rm.rules.elements:
                inner += f"<wsrm:LastMsgNumber>{last}</wsrm:LastMsgNumber>"
        case CloseSequenceResponse(identifier) | TerminateSequenceResponse(identifier):
            inner = _identifier(identifier)
        case _:
            return ""
    name = kind_of(body).value
    return f'<wsrm:{name} xmlns:wsrm="{rm.namespace}">{inner}</wsrm:{name}>'


def _written_offer(rm: Rm, wsa: Wsa, offer: Offer) -> str:
    endpoint = ""
    if "Endpoint" in rm.rules.elements:
        if offer.endpoint is None:
            raise ValueError(f"an offer of WS-ReliableMessaging {rm.number} has an endpoint")
        endpoint = f"<wsrm:Endpoint>{write_epr(offer.endpoint, wsa)}</wsrm:Endpoint>"
    return (
        f"<wsrm:Offer>{_identifier(offer.identifier)}{endpoint}{_length(offer.expires)}"
        f"{_behaviour(rm, offer.incomplete)}</wsrm:Offer>"
    )


def _identifier(identifier: str) -> str:
    return f"<wsrm:Identifier>{xml_text(identifier)}</wsrm:Identifier>"


def _length(expires: timedelta | None) -> str:
    return "" if expires is None else f"<wsrm:Expires>{write_length(expires)}</wsrm:Expires>"


def _behaviour(rm: Rm, incomplete: IncompleteBehaviour) -> str:
    if "IncompleteSequenceBehavior" not in rm.rules.elements:
        return ""
    name = "IncompleteSequenceBehavior"
    return f"<wsrm:{name}>{incomplete.value}</wsrm:{name}>"
