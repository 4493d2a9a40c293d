"""Envelopes with parts of reliable messaging, written by hand; ``r`` is the prefix of its
namespace."""

import pytest

from filters import Refused
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import ReliableMessage, Rm, read_message

V1_0, V1_1 = Rm.V1_0, Rm.V1_1
S12 = Soap.V1_2
W5 = Wsa.V2005_08
NAMED = "<r:Identifier>urn:s</r:Identifier>"
EPR = "<wsa:Address>http://a.example.com/</wsa:Address>"
NETRM = "http://schemas.microsoft.com/ws/2006/05/rm"


def envelope(
    header: str = "", body: str = "<a/>", *, rm: Rm = V1_1, soap: Soap = S12, wsa: Wsa = W5
) -> bytes:
    return (
        f'<s:Envelope xmlns:s="{soap.value}" xmlns:wsa="{wsa.value}" xmlns:r="{rm.namespace}" '
        f'xmlns:n="{NETRM}"><s:Header>{header}</s:Header><s:Body>{body}</s:Body></s:Envelope>'
    ).encode()


def read(header: str = "", body: str = "<a/>", *, rm: Rm = V1_1) -> ReliableMessage:
    return read_message(envelope(header, body, rm=rm))


def refused(header: str = "", body: str = "<a/>", *, rm: Rm = V1_1) -> Refused:
    with pytest.raises(Refused) as caught:
        read(header, body, rm=rm)
    return caught.value


def sequence(number: str, inner: str = NAMED) -> str:
    return f"<r:Sequence>{inner}<r:MessageNumber>{number}</r:MessageNumber></r:Sequence>"


def acknowledged(inner: str, named: str = NAMED) -> str:
    return f"<r:SequenceAcknowledgement>{named}{inner}</r:SequenceAcknowledgement>"


def span(lower: object, upper: object) -> str:
    return f'<r:AcknowledgementRange Lower="{lower}" Upper="{upper}"/>'
