"""WS-MetadataExchange 2004/09 and 2011/03, and WS-Transfer's Get: requests and answers."""

import pytest
from lxml import etree

from filters import Reason
from mediation import names
from mediation.metadata import DIALECTS
from mediation.metadata.documents import CHOSEN
from mediation.model.requests import GetMetadata, Metadata, MetadataSection, Operation
from mediation.model.versions import Soap, Version, Wsa
from mediation.responses import write_response
from tests.rigs.mediation import body, context, envelope, incoming, refused, text

OLD, NEW = "http://schemas.xmlsoap.org/ws/2004/09/mex", "http://www.w3.org/2011/03/ws-mex"
TRANSFER = "http://schemas.xmlsoap.org/ws/2004/09/transfer"
WSDL, EVD = "http://schemas.xmlsoap.org/wsdl/", "http://www.w3.org/2011/03/ws-evd"
CHOICE = tuple((dialect, "") for dialect in CHOSEN)
EVERYTHING = tuple((dialect, "") for dialect in DIALECTS)
SECTIONS = (
    MetadataSection(f"{{{WSDL}}}definitions", "urn:w?a&b", b'<w:definitions xmlns:w="urn:w"/>'),
    MetadataSection(f"{{{EVD}}}EventDescriptions", "urn:e", b"<a/>"),
)


def asked(octets: bytes) -> tuple[tuple[str, str], ...]:
    request = incoming(octets).request
    assert isinstance(request, GetMetadata)
    return request.wanted


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize(
    ("inner", "wanted"),
    [
        ("", CHOICE),
        ("<m:Dialect/>", CHOICE),
        (f"<m:Dialect> {WSDL}\n</m:Dialect>", ((WSDL, ""),)),
        (
            f"<m:Dialect>{WSDL}</m:Dialect><m:Identifier> urn:i </m:Identifier>",
            ((WSDL, "urn:i"),),
        ),
        (f"<m:Dialect>{OLD}</m:Dialect>", EVERYTHING),
        ("<m:Dialect>urn:none</m:Dialect>", (("urn:none", ""),)),
    ],
)
def test_2004(inner: str, wanted: tuple[tuple[str, str], ...], soap: Soap) -> None:
    octets = envelope(f'<m:GetMetadata xmlns:m="{OLD}">{inner}</m:GetMetadata>', soap=soap)
    assert asked(octets) == wanted
    assert incoming(octets).context.version is Version.METADATA_2004_09


@pytest.mark.parametrize("body_", ["", f'<t:Get xmlns:t="{TRANSFER}"/>'])
@pytest.mark.parametrize("wsa", [Wsa.V2004_08, Wsa.V2005_08])
def test_transfer(body_: str, wsa: Wsa) -> None:
    octets = envelope(body_, f"<wsa:Action>{TRANSFER}/Get</wsa:Action>", wsa=wsa)
    assert asked(octets) == CHOICE
    assert incoming(octets).context.operation is Operation.TRANSFER_GET


def test_a_resource_of_ws_management_is_not_the_endpoint() -> None:
    octets = envelope(
        "",
        f"<wsa:Action>{TRANSFER}/Get</wsa:Action><wsman:ResourceURI>urn:cim</wsman:ResourceURI>",
    )
    assert refused(octets).refused.reason is Reason.ACTION_UNSUPPORTED


@pytest.mark.parametrize(
    ("inner", "wanted"),
    [
        ("", CHOICE),
        (f'<m:Dialect Type="{{{WSDL}}}definitions"/>', ((WSDL, ""),)),
        (
            f'<m:Dialect xmlns:w="{WSDL}" Type=" w:definitions " Identifier=" urn:i "/>'
            f'<m:Dialect Type="{{{EVD}}}EventDescriptions"/>',
            ((WSDL, "urn:i"), (EVD, "")),
        ),
        (f'<m:Dialect Type="{{{NEW}}}Metadata"/>', EVERYTHING),
        ('<m:Dialect Type="{urn:none}x"/><m:Dialect Type="n:x"/>', (("urn:none", ""), ("", ""))),
        ("<m:Dialect/>" * 3, (("", ""),)),
    ],
)
def test_2011(inner: str, wanted: tuple[tuple[str, str], ...]) -> None:
    octets = envelope(f'<m:GetMetadata xmlns:m="{NEW}">{inner}</m:GetMetadata>')
    assert asked(octets) == wanted
    assert incoming(octets).context.version is Version.METADATA_2011_03


def test_get_wsdl() -> None:
    assert asked(envelope(f'<m:GetWSDL xmlns:m="{NEW}"/>')) == ((WSDL, ""),)


def test_too_many_dialects() -> None:
    inner = '<m:Dialect Type="{urn:a}b"/>' * 17
    octets = envelope(f'<m:GetMetadata xmlns:m="{NEW}">{inner}</m:GetMetadata>')
    assert refused(octets).refused.reason is Reason.MESSAGE_INVALID


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize(
    ("operation", "version", "action", "root", "names_"),
    [
        (
            Operation.GET_METADATA, Version.METADATA_2004_09, f"{OLD}/GetMetadata/Response",
            f"{{{OLD}}}Metadata", [WSDL, EVD],
        ),
        (
            Operation.TRANSFER_GET, Version.METADATA_2004_09, f"{TRANSFER}/GetResponse",
            f"{{{OLD}}}Metadata", [WSDL, EVD],
        ),
        (
            Operation.GET_METADATA, Version.METADATA_2011_03, f"{NEW}/GetMetadataResponse",
            f"{{{NEW}}}GetMetadataResponse", [each.name for each in SECTIONS],
        ),
    ],
)  # fmt: skip
def test_answers(
    operation: Operation, version: Version, action: str, root: str, names_: list[str], soap: Soap
) -> None:
    for sections in (SECTIONS, ()):
        spoken = context(operation, version, soap=soap)
        said, octets = write_response(Metadata(sections), spoken, message_id="urn:m")
        assert said == action == text(octets, "//wsa:Action")
        [element] = body(octets)
        assert element.tag == root
        metadata = element[0] if version is Version.METADATA_2011_03 else element
        assert metadata.tag.endswith("}Metadata")
        found = [(each.get("Dialect"), each.get("Identifier")) for each in metadata]
        identifiers = ["urn:w?a&b", "urn:e"]
        assert found == (list(zip(names_, identifiers, strict=True)) if sections else [])
        assert [each[0].tag for each in metadata] == (
            ["{urn:w}definitions", "a"] if sections else []
        )


def test_the_wsdl_alone() -> None:
    spoken = context(Operation.GET_WSDL, Version.METADATA_2011_03)
    action, octets = write_response(Metadata(SECTIONS[:1]), spoken, message_id="urn:m")
    assert action == f"{NEW}/GetWSDLResponse"
    [element] = body(octets)
    assert [etree.QName(each).localname for each in element] == ["definitions"]


def test_each_dialect_is_a_namespace() -> None:
    assert set(CHOSEN) < set(DIALECTS)
    assert names.WSDL in DIALECTS and all("}" not in dialect for dialect in DIALECTS)
