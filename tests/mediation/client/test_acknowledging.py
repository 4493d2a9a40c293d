"""Acknowledgements of deliveries in WS-Management."""

import pytest

from mediation import names
from mediation.client import acknowledgement_of
from mediation.eventing.management import acknowledges
from mediation.model.versions import Soap, Wsa
from mediation.soap.answers import read_reply
from mediation.soap.envelopes import write_envelope

ID = "<wsa:MessageID>urn:uuid:7</wsa:MessageID>"
WANTED = f'<m:AckRequested xmlns:m="{names.WSMAN}"/>'


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("wsa", [Wsa.V2004_08, Wsa.V2005_08])
def test_what_asks_for_it_is_acknowledged(soap: Soap, wsa: Wsa) -> None:
    answer = acknowledgement_of(write_envelope(soap, wsa, ID + WANTED, "<a/>"))
    assert answer is not None
    headers, octets = answer
    assert soap.value.encode() in octets and "Content-Type" in headers
    assert acknowledges(read_reply(octets), "urn:uuid:7")


@pytest.mark.parametrize(
    "octets",
    [
        write_envelope(Soap.V1_2, Wsa.V2005_08, ID, "<a/>"),
        write_envelope(Soap.V1_2, Wsa.V2005_08, WANTED, "<a/>"),
        write_envelope(Soap.V1_2, Wsa.V2005_08, ID, WANTED),
        write_envelope(Soap.V1_2, Wsa.V2005_08, ID + '<r:AckRequested xmlns:r="urn:rm"/>', "<a/>"),
        b'{"AckRequested": 1}',
        b"<AckRequested/>",
        b"",
    ],
)
def test_nothing_else_is(octets: bytes) -> None:
    assert acknowledgement_of(octets) is None
