"""Messages exactly as this package writes them, read without a walk over a document: those of a
sequence, of which each is read, and acknowledgements alone, of which there are as many.

What differs in one octet is nothing here, and is read as what strangers write.
"""

import re
from typing import NamedTuple

from mediation.model.messages import MessageHeaders
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging.ranges import Ranges
from mediation.reliable_messaging.values import Acknowledgement, SequenceHeader
from mediation.reliable_messaging.versions import Kind, Rm

MOST_RANGES = 16
LONGEST = 16 * 1024
"""Octets of an acknowledgement."""


class Heading(NamedTuple):
    """What a header says; it has either a place in a sequence or an acknowledgement."""

    soap: Soap
    rm: Rm
    headers: MessageHeaders
    sequence: SequenceHeader | None
    acknowledgement: Acknowledgement | None


def _one_of(members: type[Soap] | type[Wsa] | type[Rm]) -> bytes:
    return b"|".join(re.escape(member.value.encode()) for member in members)


# ASCII that needs no escape, and no blanks, which would be trimmed; shorter than any limit.
_WORD = rb"[!-%'-;=?-~]{1,1000}"
_NUMBER = rb"[1-9]\d{0,18}"
_START = (
    rb'<s:Envelope xmlns:s="(?P<soap>' + _one_of(Soap) + rb')" xmlns:wsa="(?P<wsa>'
    + _one_of(Wsa) + rb')"><s:Header>'
)  # fmt: skip
_NAMED = rb"<wsrm:Identifier>(?P<identifier>" + _WORD + rb")</wsrm:Identifier>"
_IN_SEQUENCE = re.compile(
    _START + rb'<wsrm:Sequence xmlns:wsrm="(?P<rm>' + _one_of(Rm) + rb')" xmlns:s="(?P=soap)" '
    rb's:mustUnderstand="1">' + _NAMED + rb"<wsrm:MessageNumber>(?P<number>" + _NUMBER
    + rb")</wsrm:MessageNumber></wsrm:Sequence><wsa:Action>(?P<action>" + _WORD
    + rb")</wsa:Action><wsa:MessageID>(?P<id>" + _WORD + rb")</wsa:MessageID><wsa:To>(?P<to>"
    + _WORD + rb")</wsa:To></s:Header><s:Body><"
)  # fmt: skip
_ACKNOWLEDGEMENT = re.compile(
    _START + rb"<wsa:Action>(?P<action>(?P<rm>" + _one_of(Rm) + rb")/"
    + Kind.ACKNOWLEDGEMENT.value.encode() + rb")</wsa:Action><wsa:To>(?P<to>" + _WORD
    + rb')</wsa:To><wsrm:SequenceAcknowledgement xmlns:wsrm="(?P=rm)">' + _NAMED
    + rb'(?P<ranges>(?:<wsrm:AcknowledgementRange Upper="' + _NUMBER + rb'" Lower="' + _NUMBER
    + rb'"/>){1,' + str(MOST_RANGES).encode() + rb"})</wsrm:SequenceAcknowledgement></s:Header>"
    rb"<s:Body></s:Body></s:Envelope>"
)  # fmt: skip
_RANGE = re.compile(rb'Upper="(\d+)" Lower="(\d+)"')

_SOAP = {soap.value.encode(): soap for soap in Soap}
_WSA = {wsa.value.encode(): wsa for wsa in Wsa}
_RM = {rm.value.encode(): (rm, rm.rules) for rm in Rm}


def heading_of(octets: bytes) -> Heading | None:
    """What the header of a message says: of one of a sequence, as far as its body, which nobody
    has looked at; of an acknowledgement, all of it. None: it has another form."""
    found = _IN_SEQUENCE.match(octets)
    if found is not None:
        return _in_sequence(found)
    if len(octets) <= LONGEST and (found := _ACKNOWLEDGEMENT.fullmatch(octets)) is not None:
        return _acknowledgement(found)
    return None


def _in_sequence(found: re.Match[bytes]) -> Heading | None:
    soap, wsa, rm, identifier, number, action, message_id, to = found.groups()
    (spoken, rules), place = _RM[rm], int(number)
    if place > rules.largest or _WSA[wsa] not in rules.wsa:
        return None
    headers = MessageHeaders(_WSA[wsa], action.decode(), to.decode(), message_id.decode())
    sequence = SequenceHeader(identifier.decode(), place)
    return Heading(_SOAP[soap], spoken, headers, sequence, None)


def _acknowledgement(found: re.Match[bytes]) -> Heading | None:
    soap, wsa, action, rm, to, identifier, ranges = found.groups()
    spoken, rules = _RM[rm]
    pairs = [(int(lower), int(upper)) for upper, lower in _RANGE.findall(ranges)]
    for lower, upper in pairs:
        if lower > upper or upper > rules.largest:
            return None
    if _WSA[wsa] not in rules.wsa:
        return None
    all_of_it = Ranges(tuple(pairs)) if len(pairs) == 1 else Ranges.of(pairs)
    headers = MessageHeaders(_WSA[wsa], action.decode(), to.decode())
    said = Acknowledgement(identifier.decode(), all_of_it)
    return Heading(_SOAP[soap], spoken, headers, None, said)
