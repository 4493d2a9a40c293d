"""Metadata of the endpoint over WS-MetadataExchange and WS-Transfer: true, bounded, rated."""

from pathlib import Path

import pytest
from lxml import etree

from mediation.model.versions import Soap, Wsa
from mediation.wsdl import write_wsdl
from tests.rigs.envelopes import S12, Message, Speaker, children
from tests.rigs.gateways import Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

OLD, NEW = "http://schemas.xmlsoap.org/ws/2004/09/mex", "http://www.w3.org/2011/03/ws-mex"
TRANSFER = "http://schemas.xmlsoap.org/ws/2004/09/transfer"
WSDL, XSD = "http://schemas.xmlsoap.org/wsdl/", "http://www.w3.org/2001/XMLSchema"
POLICY, EVD = "http://www.w3.org/ns/ws-policy", "http://www.w3.org/2011/03/ws-evd"
WSE11 = "http://www.w3.org/2011/03/ws-evt"
SPEAKERS = pytest.mark.parametrize("speaker", [Speaker(soap) for soap in Soap], ids=str)


def get_metadata(dialect: str = "", identifier: str = "") -> str:
    inner = f"<m:Dialect>{dialect}</m:Dialect>" if dialect else ""
    inner += f"<m:Identifier>{identifier}</m:Identifier>" if identifier else ""
    return f'<m:GetMetadata xmlns:m="{OLD}">{inner}</m:GetMetadata>'


def sections(message: Message) -> list[tuple[str, etree._Element]]:
    """The dialect and the document of each section."""
    found = []
    for section in message.root.iter(f"{{{OLD}}}MetadataSection", f"{{{NEW}}}MetadataSection"):
        [document] = children(section)
        found.append((section.get("Dialect") or "", document))
    return found


@SPEAKERS
async def test_what_is_told_without_a_dialect(gateway: Running, speaker: Speaker) -> None:
    await gateway.publish('<o:Reading xmlns:o="urn:o"/>', action="urn:o:read")
    answer = await gateway.ask(speaker, get_metadata(), action=f"{OLD}/GetMetadata/Request")
    assert answer.status == 200, answer.body
    message = answer.message
    assert message.wsa("Action") == f"{OLD}/GetMetadata/Response"
    assert message.body[0].tag == f"{{{OLD}}}Metadata"
    found = sections(message)
    assert [dialect for dialect, _ in found] == [WSDL, POLICY, EVD]
    described = etree.fromstring(write_wsdl(f"{gateway.url}/soap"))
    assert etree.tostring(found[0][1], method="c14n", exclusive=True) == etree.tostring(
        described, method="c14n", exclusive=True
    )
    [event] = [e for e in found[2][1] if e.get("actionURI") == "urn:o:read"]
    prefix, _, local = (event.get("element") or "").partition(":")
    assert (event.nsmap[prefix], local) == ("urn:o", "Reading")


@pytest.mark.parametrize("wsa", [Wsa.V2004_08, Wsa.V2005_08])
async def test_the_get_of_dpws(gateway: Running, wsa: Wsa) -> None:
    answer = await gateway.ask(Speaker(S12, wsa), "", action=f"{TRANSFER}/Get")
    assert answer.status == 200, answer.body
    assert answer.message.wsa("Action", wsa) == f"{TRANSFER}/GetResponse"
    assert answer.message.body[0].tag == f"{{{OLD}}}Metadata"
    assert sections(answer.message)[0][0] == WSDL


async def test_schemas_by_their_namespace(gateway: Running) -> None:
    speaker = Speaker()
    answer = await gateway.ask(speaker, get_metadata(XSD))
    targets = [schema.get("targetNamespace") for _, schema in sections(answer.message)]
    assert WSE11 in targets and len(set(targets)) == len(targets) > 5
    answer = await gateway.ask(speaker, get_metadata(XSD, WSE11))
    [(_, schema)] = sections(answer.message)
    assert schema.get("targetNamespace") == WSE11
    places = [one.get("schemaLocation") for one in schema.iter(f"{{{XSD}}}import")]
    assert places == [f"{gateway.url}/soap?xsd=xml", None]


@pytest.mark.parametrize(("dialect", "identifier"), [("urn:none", ""), (WSDL, "urn:other")])
async def test_what_there_is_not_is_an_empty_answer(
    gateway: Running, dialect: str, identifier: str
) -> None:
    answer = await gateway.ask(Speaker(), get_metadata(dialect, identifier))
    assert answer.status == 200
    assert answer.message.body[0].tag == f"{{{OLD}}}Metadata" and not sections(answer.message)


@SPEAKERS
async def test_2011(gateway: Running, speaker: Speaker) -> None:
    wanted = f'<m:Dialect Type="{{{POLICY}}}Policy"/><m:Dialect Type="{{urn:none}}x"/>'
    body = f'<m:GetMetadata xmlns:m="{NEW}">{wanted}</m:GetMetadata>'
    answer = await gateway.ask(speaker, body, action=f"{NEW}/GetMetadata")
    assert answer.message.wsa("Action") == f"{NEW}/GetMetadataResponse"
    [(name, policy)] = sections(answer.message)
    assert name == policy.tag == f"{{{POLICY}}}Policy"
    answer = await gateway.ask(speaker, f'<m:GetWSDL xmlns:m="{NEW}"/>')
    [response] = answer.message.body
    assert [child.tag for child in children(response)] == [f"{{{WSDL}}}definitions"]


async def test_strangers_are_told_their_bounds_and_held_to_a_rate(tmp_path: Path) -> None:
    async with running(tmp_path, trusted=(), longest_lease=3600) as run:
        answer = await run.ask(Speaker(), get_metadata(POLICY))
        [expires] = answer.message.root.iter(f"{{{WSE11}}}Expires")
        assert expires.get("max") == "PT1H"
        assert not sections((await run.ask(Speaker(), get_metadata(EVD))).message)
        answers = [await run.ask(Speaker(), get_metadata("urn:none")) for _ in range(40)]
        assert {each.status for each in answers} == {200, 429}
