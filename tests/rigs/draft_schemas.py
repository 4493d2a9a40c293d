"""Validation against the schemas of WS-Notification 1.2 and its WSRF, the drafts of June 2004.

Those of OASIS have references in WS-Addressing 2003/03, those of Globus Toolkit 4 in 2004/03. Both
are among the reference material; the repository has those that Dragoman hands out, of OASIS.
"""

import re
from pathlib import Path

from lxml import etree

from mediation.model.versions import Wsa
from tests.rigs.schemas import OWN, XML, XSD

S11 = "http://schemas.xmlsoap.org/soap/envelope/"
S12 = "http://www.w3.org/2003/05/soap-envelope"
_WSN = "http://docs.oasis-open.org/wsn/2004/06/wsn-WS-BaseNotification-1.2-draft-01.xsd"
_WSBN = "http://docs.oasis-open.org/wsn/2004/06/wsn-WS-BrokeredNotification-1.2-draft-01.xsd"
_WSRF = "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-{}-1.2-draft-01.xsd"
_BF, _RP, _RL = (
    _WSRF.format(name) for name in ("BaseFaults", "ResourceProperties", "ResourceLifetime")
)
_SHARED = {
    Wsa.V2003_03: (
        "oasis/WS-Addressing-2003_03.xsd",
        "oasis/WS-BaseFaults-1_2-Draft_01.xsd",
        "oasis/WS-ResourceProperties-1_2-Draft_01.wsdl",
        "oasis/WS-ResourceLifetime-1_2-Draft_01.wsdl",
        "oasis/WS-BaseNotification-1_2-Draft_01.wsdl",
    ),
    Wsa.V2004_03: (
        "globus/ws/addressing/WS-Addressing.xsd",
        "globus/wsrf/faults/WS-BaseFaults.xsd",
        "globus/wsrf/properties/WS-ResourceProperties.wsdl",
        "globus/wsrf/lifetime/WS-ResourceLifetime.wsdl",
        "globus/wsrf/notification/WS-BaseN.wsdl",
    ),
}
_PACKAGED = (
    "addressing-2003-03",
    "bf-2004-06",
    "rp-2004-06",
    "rl-2004-06",
    "b-2004-06",
    "br-2004-06",
)
PAYLOAD = "urn:payload"
"""A namespace whose elements ``a`` and ``b`` may be payloads: the draft takes none that nobody
declares in the answer to GetCurrentMessage."""
_ELEMENTS = {PAYLOAD: ("a", "b"), "http://tutorial.globus.org/auction": ("highestBid",)}


class DraftValidator:
    """Checks envelopes whose references are in WS-Addressing 2003/03 or 2004/03.

    Args:
        folder: The reference schemas; without them those of the repository serve.
        scratch: Where schemas can be written.
    """

    def __init__(self, folder: Path | None, scratch: Path) -> None:
        make = _reference if folder is not None else _packaged
        self._schemas = {wsa: make(wsa, folder or OWN, scratch) for wsa in _SHARED}

    def check(self, octets: bytes, wsa: Wsa = Wsa.V2004_03) -> None:
        """Assert that the envelope is valid."""
        schema = self._schemas[wsa]
        valid = schema.validate(etree.fromstring(octets))
        assert valid, f"{schema.error_log}\n{octets.decode()}"


def _reference(wsa: Wsa, folder: Path, scratch: Path) -> etree.XMLSchema:
    drafts = folder / "wsn/draft-2004-06"
    paths = []
    for name in _SHARED[wsa]:
        path = drafts / name
        if path.suffix == ".wsdl":
            types = scratch / f"{wsa.name}-{path.stem}.xsd"
            types.write_bytes(_types(path))
            path = types
        paths.append(path)
    envelopes = {S11: "soap/soap-envelope-1.1.xsd", S12: "soap/soap-envelope-1.2.xsd"}
    files = {uri: folder / path for uri, path in envelopes.items()}
    return _schema(wsa, folder / "soap/xml.xsd", paths, files, scratch)


def _types(wsdl: Path) -> bytes:
    """The schema in a WSDL. What it includes is beside the WSDL; what it imports comes before it."""
    (schema,) = etree.parse(wsdl).iter(f"{{{XSD}}}schema")
    for imported in schema.iter(f"{{{XSD}}}import"):
        imported.attrib.pop("schemaLocation", "")
    for included in schema.iter(f"{{{XSD}}}include"):
        included.set("schemaLocation", (wsdl.parent / included.get("schemaLocation", "")).as_uri())
    return etree.tostring(schema)


def _packaged(wsa: Wsa, folder: Path, scratch: Path) -> etree.XMLSchema:
    paths = []
    for name in _PACKAGED:
        text = (folder / f"{name}.xsd").read_text("utf-8")
        path = scratch / f"{wsa.name}-{name}.xsd"
        path.write_text(
            text.replace(Wsa.V2003_03.value, wsa.value).replace(' schemaLocation="?xsd=xml"', "")
        )
        paths.append(path)
    here = Path(__file__).parent
    files = {S11: here / "envelopes-1.1.xsd", S12: here / "envelopes-1.2.xsd"}
    return _schema(wsa, folder / "xml.xsd", paths, files, scratch)


def _schema(
    wsa: Wsa, xml: Path, paths: list[Path], envelopes: dict[str, Path], scratch: Path
) -> etree.XMLSchema:
    payloads = []
    for number, (uri, names) in enumerate(_ELEMENTS.items()):
        declared = "".join(f'<xs:element name="{name}"/>' for name in names)
        path = scratch / f"payloads{number}.xsd"
        start = f'<xs:schema xmlns:xs="{XSD}" targetNamespace="{uri}">'
        path.write_text(f"{start}{declared}</xs:schema>")
        payloads.append((uri, path))
    files = [
        (XML, xml),
        # The reference material of Globus has nothing of brokers.
        *zip((wsa.value, _BF, _RP, _RL, _WSN, _WSBN), paths, strict=False),
        *envelopes.items(),
        *payloads,
    ]
    imports = "".join(
        f'<xs:import namespace="{uri}" schemaLocation="{path.as_uri()}"/>' for uri, path in files
    )
    driver = f'<xs:schema xmlns:xs="{XSD}" targetNamespace="urn:driver">{imports}</xs:schema>'
    return etree.XMLSchema(etree.fromstring(driver.encode()))


_HEADERS = re.compile(rb"<s:Header>.*</s:Header>", re.DOTALL)


def without_headers(octets: bytes) -> bytes:
    """The envelope without its header, for one whose addressing is of another version than its
    references."""
    return _HEADERS.sub(b"", octets)
