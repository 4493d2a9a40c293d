"""WS-Addressing: headers and endpoint references in all four versions, and between them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filters import Reason, parse_document
from mediation.detect import read
from mediation.faults import write_fault
from mediation.model.errors import MediationError
from mediation.model.messages import EndpointReference
from mediation.model.requests import Rejected
from mediation.model.versions import Soap, Wsa
from mediation.soap.addressing import (
    MAX_REFERENCE_ELEMENTS,
    MAX_REFERENCE_OCTETS,
    MAX_URI,
    is_anonymous,
    read_epr,
    reference_headers,
    write_epr,
)
from tests.rigs.cases import for_each
from tests.rigs.mediation import (
    ARRIVAL,
    NOW,
    canonical,
    envelope,
    headers,
    incoming,
    parts,
    refused,
    text,
)

V2003, V2004_03, V2004_08, V2005 = Wsa.V2003_03, Wsa.V2004_03, Wsa.V2004_08, Wsa.V2005_08
EVENT = '<o:R xmlns:o="urn:o"/>'
PROPERTY, PARAMETER = b'<k:P xmlns:k="urn:k">1</k:P>', b'<k:Q xmlns:k="urn:k">2</k:Q>'


def reference(inner: str, wsa: Wsa = V2005, address: str = "http://a.example.org") -> bytes:
    return (
        f'<EPR xmlns:wsa="{wsa.value}"><wsa:Address>{address}</wsa:Address>{inner}</EPR>'
    ).encode()


def epr_of(octets: bytes, forged: str = "drop") -> EndpointReference:
    return read_epr(parse_document(octets), forged=forged)  # type: ignore[arg-type]


class TestReferences:
    @pytest.mark.parametrize("wsa", Wsa)
    def test_the_version_is_that_of_the_address(self, wsa: Wsa) -> None:
        octets = reference(
            "<wsa:ReferenceParameters><a>1</a></wsa:ReferenceParameters>"
            "<wsa:ReferenceProperties><b>2</b></wsa:ReferenceProperties>"
            "<wsa:PortType>x:y</wsa:PortType><wsa:ServiceName>x:z</wsa:ServiceName>"
            '<any xmlns="urn:any"/>',
            wsa,
        )
        epr = epr_of(octets)
        assert (epr.address, epr.wsa) == ("http://a.example.org", wsa)
        assert [parse_document(octets).tag for octets in epr.properties] == ["b"]
        assert [parse_document(octets).tag for octets in epr.parameters] == ["a"]

    def test_children_are_verbatim_with_what_is_in_scope(self) -> None:
        octets = (
            b'<e xmlns="urn:default" xmlns:q="urn:q" xmlns:wsa="http://www.w3.org/2005/08/addressing">'
            b"<wsa:Address>http://a.example.org</wsa:Address><wsa:ReferenceParameters>"
            b'<n xmlns="" q:kind="q:name">q:value</n><same/><same z="1" a="2"> x </same>'
            b'<wse:Identifier xmlns:wse="urn:wse" wsa:IsReferenceParameter="true"/>'
            b"</wsa:ReferenceParameters></e>"
        )
        none, same, other, identifier = map(parse_document, epr_of(octets).parameters)
        assert (none.tag, none.text, none.get("{urn:q}kind")) == ("n", "q:value", "q:name")
        assert none.nsmap["q"] == "urn:q" and not none.nsmap.get(None)
        assert same.tag == other.tag == "{urn:default}same"
        assert (other.text, list(other.attrib.items())) == (" x ", [("z", "1"), ("a", "2")])
        assert not identifier.keys()

    def test_metadata_is_kept_in_1_0(self) -> None:
        metadata = "<wsa:Metadata><p xmlns='urn:policy'/></wsa:Metadata>"
        assert len(epr_of(reference(metadata)).metadata) == 1
        assert epr_of(reference("<wsa:Metadata/>")).metadata == ()
        assert epr_of(reference(metadata, V2004_08)).metadata == ()
        long = f"<wsa:Metadata><p>{'x' * MAX_REFERENCE_OCTETS}</p></wsa:Metadata>"
        assert epr_of(reference(long)).metadata == ()

    @pytest.mark.parametrize(
        "octets",
        [
            pytest.param(b"<e/>", id="nothing"),
            pytest.param(b"<e><Address>http://a</Address></e>", id="an address of no namespace"),
            pytest.param(reference("", address=" "), id="an empty address"),
            pytest.param(reference("", address="http://a/" + "a" * MAX_URI), id="a long address"),
            pytest.param(
                b'<e><jbi xmlns="http://java.sun.com/xml/ns/jbi" service-name="a:b"/></e>', id="JBI"
            ),
            pytest.param(
                reference(
                    "<wsa:ReferenceParameters>"
                    + "<a/>" * (MAX_REFERENCE_ELEMENTS + 1)
                    + "</wsa:ReferenceParameters>"
                ),
                id="too many",
            ),
            pytest.param(
                reference(
                    f"<wsa:ReferenceParameters><a>{'x' * MAX_REFERENCE_OCTETS}</a>"
                    "</wsa:ReferenceParameters>"
                ),
                id="too long",
            ),
            pytest.param(
                reference(
                    f"<wsa:ReferenceParameters><a>{'x' * 9000}</a></wsa:ReferenceParameters>"
                    f"<wsa:ReferenceProperties><a>{'x' * 9000}</a></wsa:ReferenceProperties>"
                ),
                id="too long together",
            ),
        ],
    )
    def test_refused(self, octets: bytes) -> None:
        with pytest.raises(MediationError) as caught:
            epr_of(octets)
        assert caught.value.reason is Reason.EPR_INVALID

    def test_as_many_as_the_limits_allow(self) -> None:
        inner = "<wsa:ReferenceParameters>" + "<a/>" * MAX_REFERENCE_ELEMENTS
        epr = epr_of(reference(inner + "</wsa:ReferenceParameters>"))
        assert len(epr.parameters) == MAX_REFERENCE_ELEMENTS

    @for_each(
        "namespace",
        [
            *(soap.value for soap in Soap),
            *(wsa.value for wsa in Wsa),
            "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd",
            "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd",
            "http://schemas.xmlsoap.org/ws/2005/02/rm",
            "http://docs.oasis-open.org/ws-rx/wsrm/200702",
            "http://docs.oasis-open.org/ws-rx/wsmc/200702",
            "http://docs.oasis-open.org/wss/oasis-wss-wssecurity-secext-1.1.xsd",
            "http://docs.oasis-open.org/ebxml-bp/ebbp-signals-2.0",
        ],
    )
    @for_each("group", ["ReferenceParameters", "ReferenceProperties"])
    def test_forged_headers(self, namespace: str, group: str) -> None:
        octets = reference(
            f'<wsa:{group}><f:To xmlns:f="{namespace}">urn:victim</f:To><a/></wsa:{group}>'
        )
        epr = epr_of(octets)
        kept = [parse_document(octets).tag for octets in epr.parameters + epr.properties]
        assert kept == ["a"]
        with pytest.raises(MediationError) as caught:
            epr_of(octets, "refuse")
        assert caught.value.reason is Reason.EPR_INVALID


CONVERSIONS = {
    V2003: (["P", "Q"], []),
    V2004_03: (["P", "Q"], []),
    V2004_08: (["P"], ["Q"]),
    V2005: ([], ["P", "Q"]),
}


@for_each("target", Wsa)
@for_each("source", Wsa)
def test_conversions(source: Wsa, target: Wsa) -> None:
    """Properties become parameters upwards, in that order; parameters become properties where a
    version has none; anonymous stays anonymous."""
    for address in ("http://a.example.org/?a=1&b", source.anonymous):
        epr = EndpointReference(address, source, (PROPERTY,), (PARAMETER,))
        written = epr_of(f"<e>{write_epr(epr, target)}</e>".encode())
        assert written.wsa is target
        assert written.address == (target.anonymous if address == source.anonymous else address)
        local = [
            [etree.QName(parse_document(octets)).localname for octets in group]
            for group in (written.properties, written.parameters)
        ]
        assert tuple(local) == CONVERSIONS[target]


@pytest.mark.parametrize("wsa", Wsa)
def test_headers_are_marked_in_1_0_alone(wsa: Wsa) -> None:
    epr = EndpointReference("urn:a", V2004_08, (PROPERTY,), (PARAMETER, b"<Version>1</Version>"))
    octets = reference_headers(epr, wsa)
    blocks = list(parse_document(b"<h>" + octets + b"</h>"))
    assert [etree.QName(block).localname for block in blocks] == ["P", "Q", "Version"]
    mark = f"{{{wsa.value}}}IsReferenceParameter"
    marked = [block.get(mark) for block in blocks]
    assert marked == (["true"] * 3 if wsa is V2005 else [None] * 3)
    if wsa is not V2005:
        assert octets == PROPERTY + PARAMETER + b"<Version>1</Version>"


def test_a_mark_takes_no_prefix_that_is_taken() -> None:
    block = b'<wsa:x xmlns:wsa="urn:mine" a="wsa:q"><wsa_:y xmlns:wsa_="urn:too"/></wsa:x>'
    marked = parse_document(
        reference_headers(EndpointReference("urn:a", V2005, (), (block,)), V2005)
    )
    assert marked.tag == "{urn:mine}x" and marked.nsmap["wsa"] == "urn:mine"
    assert marked.attrib.pop(f"{{{V2005.value}}}IsReferenceParameter") == "true"
    assert canonical(marked) == canonical(block)


NAMES = st.sampled_from(["a", "b", "wsa", "x1"])
TEXTS = st.text(alphabet="ab:&<\u20ac \n", max_size=8)


@given(
    names=st.lists(
        st.tuples(NAMES, TEXTS, st.sampled_from(["", "urn:one", "urn:two"])), max_size=6
    ),
    source=st.sampled_from(Wsa),
    target=st.sampled_from(Wsa),
)
def test_parameters_survive_any_way(
    names: list[tuple[str, str, str]], source: Wsa, target: Wsa
) -> None:
    blocks = []
    for name, content, namespace in names:
        element = etree.Element(f"{{{namespace}}}{name}" if namespace else name, {"a": content})
        element.text = content
        blocks.append(etree.tostring(element, encoding="UTF-8"))
    epr = EndpointReference("urn:a", source, tuple(blocks[:2]), tuple(blocks[2:]))
    once = epr_of(f"<e>{write_epr(epr, target)}</e>".encode())
    assert list(map(canonical, once.properties + once.parameters)) == list(map(canonical, blocks))


@pytest.mark.parametrize(
    "address",
    [*(wsa.anonymous for wsa in Wsa), "http://www.w3.org/2005/08/addressing/role/anonymous"],
)
def test_anonymous(address: str) -> None:
    assert is_anonymous(address) and not is_anonymous(address + "/")


class TestHeaders:
    @pytest.mark.parametrize("soap", Soap)
    @pytest.mark.parametrize("wsa", Wsa)
    def test_all(self, wsa: Wsa, soap: Soap) -> None:
        block = (
            "<wsa:To> http://gateway.example.org/soap </wsa:To><wsa:Action>\nurn:a\n</wsa:Action>"
            "<wsa:MessageID> uuid:AbC </wsa:MessageID><wsa:RelatesTo>urn:r</wsa:RelatesTo>"
            "<wsa:RelatesTo>urn:r2</wsa:RelatesTo>"
            "<wsa:ReplyTo><wsa:Address>urn:reply</wsa:Address></wsa:ReplyTo>"
            "<wsa:FaultTo><wsa:Address>urn:fault</wsa:Address></wsa:FaultTo>"
        )
        found = incoming(envelope(EVENT, block, soap=soap, wsa=wsa)).context.headers
        assert (found.wsa, found.to, found.action) == (
            wsa,
            "http://gateway.example.org/soap",
            "urn:a",
        )
        assert (found.message_id, found.relates_to) == (" uuid:AbC ", "urn:r")
        assert found.reply_to == EndpointReference("urn:reply", wsa)
        assert found.fault_to == EndpointReference("urn:fault", wsa)

    def test_none(self) -> None:
        found = incoming(envelope(EVENT)).context
        assert (found.wsa, found.headers.action, found.headers.message_id) == (None, None, None)

    @pytest.mark.parametrize(
        ("block", "wsa"),
        [
            pytest.param(
                f'<o:To xmlns:o="{V2004_08.value}">urn:o</o:To><wsa:Action>urn:a</wsa:Action>',
                V2005,
                id="the version that has the action",
            ),
            pytest.param(
                f'<o:Action xmlns:o="{V2004_08.value}">urn:a</o:Action><wsa:To>urn:a</wsa:To>',
                V2004_08,
                id="though it is the older one",
            ),
            pytest.param(
                f'<o:To xmlns:o="{V2004_08.value}">urn:a</o:To><wsa:To>urn:a</wsa:To>',
                V2005,
                id="the newest where none has",
            ),
        ],
    )
    def test_mixed_versions(self, block: str, wsa: Wsa) -> None:
        assert incoming(envelope(EVENT, block)).context.wsa is wsa

    @for_each("name", ["To", "Action", "MessageID", "ReplyTo", "FaultTo", "From"])
    @for_each("wsa", Wsa)
    def test_twice(self, wsa: Wsa, name: str) -> None:
        block = f"<wsa:{name}><wsa:Address>urn:a</wsa:Address></wsa:{name}>" * 2
        if name != "MessageID":
            block += "<wsa:MessageID>urn:1</wsa:MessageID>"
        rejected = refused(envelope(EVENT, block, wsa=wsa))
        assert rejected.refused.reason is Reason.HEADER_REPEATED
        status, _, answer = write_fault(
            rejected.refused, rejected.context, now=NOW, message_id="urn:m"
        )
        assert status == 400
        related = [block.text for block in parts(answer, "//wsa:RelatesTo")]
        assert related == ([] if name == "MessageID" else ["urn:1"])
        subcode = text(answer, "//s:Code/s:Subcode/s:Value")
        if wsa is V2005:
            assert subcode == "wsa:InvalidAddressingHeader"
            assert text(answer, "//s:Subcode/s:Subcode/s:Value") == "wsa:InvalidCardinality"
            assert text(answer, "//wsa:ProblemHeaderQName") == f"wsa:{name}"
        else:
            assert subcode == "wsa:InvalidMessageInformationHeader"
            assert parts(answer, "//s:Detail") == []

    @pytest.mark.parametrize("month", ["2004/12", "2005/02", "2005/03"])
    def test_drafts(self, month: str) -> None:
        block = f'<d:Action xmlns:d="http://www.w3.org/{month}/addressing">urn:a</d:Action>'
        assert refused(envelope(EVENT, block)).refused.reason is Reason.HEADER_INVALID

    @pytest.mark.parametrize("name", ["ReplyTo", "FaultTo"])
    def test_replies_to_nowhere(self, name: str) -> None:
        rejected = refused(envelope(EVENT, f"<wsa:{name}/>"))
        assert rejected.refused.reason is Reason.HEADER_INVALID
        assert rejected.refused.names == (f"wsa:{name}",)

    @pytest.mark.parametrize("name", ["To", "Action", "MessageID", "RelatesTo"])
    def test_too_long(self, name: str) -> None:
        rejected = refused(envelope(EVENT, f"<wsa:{name}>{'u' * (MAX_URI + 1)}</wsa:{name}>"))
        assert rejected.refused.reason is Reason.HEADER_INVALID


AXIS2 = "specs/schemas/ws-addressing/samples/axis2"


@pytest.mark.parametrize("wsa", [V2005, V2004_08])
def test_cardinality_in_axis2_samples(material: Path, wsa: Wsa) -> None:
    folder = "final" if wsa is V2005 else "submission"
    samples = sorted((material / AXIS2 / "invalid-cardinality-messages" / folder).glob("*.xml"))
    assert len(samples) == 6
    for sample in samples:
        rejected = refused(sample.read_bytes())
        name = sample.stem.removeprefix("invalidCardinality").removesuffix("Message")
        assert rejected.refused.reason is Reason.HEADER_REPEATED
        assert rejected.refused.names == (f"wsa:{name}",)
        assert rejected.context.wsa is wsa


@pytest.mark.parametrize("folder", ["omitted-header-messages", "valid-messages"])
def test_omitted_headers_in_axis2_samples(material: Path, folder: str) -> None:
    samples = sorted((material / AXIS2 / folder).rglob("*.xml"))
    assert len(samples) >= 5
    for sample in samples:
        found = incoming(sample.read_bytes()).context.headers
        assert found.wsa is (V2005 if sample.parent.name == "final" else V2004_08)
        for name, value in (("MessageID", found.message_id), ("Action", found.action)):
            assert (value is None) is (f"no{name}" in sample.stem), sample
        assert (found.reply_to is None) is (
            "noReplyTo" in sample.stem or "NoReplyTo" in sample.stem
        )


@pytest.mark.parametrize("name", ["soap11roleTest.xml", "soap12roleTest.xml"])
def test_headers_of_other_roles_in_axis2_samples(material: Path, name: str) -> None:
    with pytest.raises(Rejected) as caught:
        read((material / AXIS2 / name).read_bytes(), ARRIVAL)
    assert caught.value.context.headers.message_id is None
    assert caught.value.refused.reason is Reason.MESSAGE_INVALID


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("wsa", Wsa)
def test_faults_go_back_with_the_headers_of_who_wants_them(soap: Soap, wsa: Wsa) -> None:
    rejected = refused(envelope("<wse:Nothing/>", soap=soap, wsa=wsa))
    to = EndpointReference("http://a.example.org/faults", wsa, (), (PARAMETER,))
    message = envelope("<wse:Nothing/>", "<wsa:MessageID>urn:1</wsa:MessageID>", soap=soap, wsa=wsa)
    rejected = refused(message)
    _, _, answer = write_fault(
        rejected.refused, rejected.context, now=NOW, message_id="urn:2", to=to
    )
    assert text(answer, "//wsa:To") == to.address
    assert text(answer, "//wsa:RelatesTo") == "urn:1"
    assert any(block.tag == "{urn:k}Q" for block in headers(answer))
