"""Identify."""

import pytest
from lxml import etree

from filters import Reason
from mediation.model.requests import Identified, Identify, Operation, Rejected
from mediation.model.versions import Soap, Version, Wsa
from mediation.names import WSMAN_IDENTITY
from mediation.responses import write_response
from tests.rigs.mediation import WSMAN, body, context, envelope, headers, incoming, text
from tests.rigs.schemas import Validator


@pytest.mark.parametrize("soap", Soap)
def test_identify(soap: Soap, validator: Validator) -> None:
    """Its request needs no addressing."""
    asked = incoming(
        f'<s:Envelope xmlns:s="{soap.value}"><s:Header/><s:Body>'
        f'<i:Identify xmlns:i="{WSMAN_IDENTITY}"/></s:Body></s:Envelope>'.encode()
    )
    assert asked.request == Identify()
    assert asked.context.version is Version.MANAGEMENT
    _, octets = write_response(Identified("1.2"), asked.context, message_id="urn:m")
    assert headers(octets) == []
    [response] = body(octets)
    assert [(etree.QName(child).localname, child.text) for child in response] == [
        ("ProtocolVersion", WSMAN),
        ("ProductVendor", "Dragoman"),
        ("ProductVersion", "1.2"),
    ]
    assert {etree.QName(element).namespace for element in response.iter()} == {WSMAN_IDENTITY}
    validator.check(octets)


def test_identify_with_addressing() -> None:
    spoken = context(Operation.IDENTIFY, Version.MANAGEMENT, wsa=Wsa.V2004_08)
    action, octets = write_response(Identified("1"), spoken, message_id="urn:m")
    assert action == f"{WSMAN_IDENTITY}/IdentifyResponse" == text(octets, "//wsa:Action")
    assert text(octets, "//wsa:RelatesTo") == "urn:uuid:request"


def test_what_else_is_in_that_namespace_is_no_event() -> None:
    with pytest.raises(Rejected) as caught:
        incoming(envelope(f'<i:IdentifyResponse xmlns:i="{WSMAN_IDENTITY}"/>'))
    assert caught.value.refused.reason is Reason.ACTION_UNSUPPORTED
