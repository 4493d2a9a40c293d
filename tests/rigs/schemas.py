"""Validation against the specifications' schemas.

The official ones are all among the reference material. In the repository are those that Dragoman
itself hands out, and schemas of our own of the two envelopes; a clone validates with these.
"""

import copy
from collections.abc import Mapping
from pathlib import Path

from lxml import etree

from mediation import names
from mediation.grid_events import TYPE_DOCUMENTS

XSD = "http://www.w3.org/2001/XMLSchema"
XML = "http://www.w3.org/XML/1998/namespace"
WSE = "http://schemas.xmlsoap.org/ws/2004/08/eventing"

ONVIF = "http://www.onvif.org/ver10/events/wsdl"
BROKERED = "http://docs.oasis-open.org/wsn/br-2"
_FINAL = {
    "http://docs.oasis-open.org/wsrf/bf-2": "wsn/final/bf-2.xsd",
    "http://docs.oasis-open.org/wsrf/r-2": "wsn/final/r-2.xsd",
    "http://docs.oasis-open.org/wsrf/rp-2": "wsn/final/rp-2.xsd",
    "http://docs.oasis-open.org/wsrf/rl-2": "wsn/final/rl-2.xsd",
    "http://docs.oasis-open.org/wsn/t-1": "wsn/final/t-1.xsd",
    "http://docs.oasis-open.org/wsn/b-2": "wsn/final/b-2.xsd",
    BROKERED: "wsn/final/br-2.xsd",
}
_FILES = {
    XML: "soap/xml.xsd",
    "http://schemas.xmlsoap.org/soap/envelope/": "soap/soap-envelope-1.1.xsd",
    "http://www.w3.org/2003/05/soap-envelope": "soap/soap-envelope-1.2.xsd",
    "http://www.w3.org/2005/08/addressing": "ws-addressing/ws-addr-2005-08.xsd",
    "http://schemas.xmlsoap.org/ws/2004/08/addressing": "ws-addressing/addressing-2004-08.xsd",
    "http://schemas.xmlsoap.org/ws/2004/03/addressing": "ws-addressing/addressing-2004-03.xsd",
    "http://www.w3.org/2011/03/ws-evt": "ws-eventing/eventing-2011-03.xsd",
    **_FINAL,
}
OWN = Path(__file__).parents[2] / "mediation" / "schemas"
_OTHER_WSA = "http://www.w3.org/2005/08/addressing"
_PACKAGED = {
    XML: "xml.xsd",
    _OTHER_WSA: "addressing-2005-08.xsd",
    "http://schemas.xmlsoap.org/ws/2004/08/addressing": "addressing-2004-08.xsd",
    **{uri: Path(path).name for uri, path in _FINAL.items() if uri != BROKERED},
    WSE: "eventing-2004-08.xsd",
    "http://www.w3.org/2011/03/ws-evt": "eventing-2011-03.xsd",
    ONVIF: "onvif-events.xsd",
    "urn:dragoman:management:1": "management-1.xsd",
}
"""To each namespace its file, those first that others import: libxml2 reads each once."""
_ENVELOPES = {
    "http://schemas.xmlsoap.org/soap/envelope/": Path(__file__).with_name("envelopes-1.1.xsd"),
    "http://www.w3.org/2003/05/soap-envelope": Path(__file__).with_name("envelopes-1.2.xsd"),
}
_ENCODING_STYLE = "{http://schemas.xmlsoap.org/soap/envelope/}encodingStyle"
_FAULTS = {f"{{{uri}}}Fault" for uri in _ENVELOPES}
_EVENTING = {
    False: "ws-eventing/eventing-2004-08.xsd",
    True: "ws-eventing/eventing-2004-08-dpws11.xsd",
}


class Validator:
    """Checks envelopes against one schema that imports all of the stored ones, those first that
    others import from the web: libxml2 reads each namespace once.

    Args:
        folder: The schemas; without them, the elements that Dragoman's own schemas describe are
            validated one by one, and the envelope around them by ``tests/rigs/envelopes-*.xsd``.
        scratch: Where the schemas that are made can be written, such as that in ONVIF's WSDL.
    """

    def __init__(self, folder: Path | None, scratch: Path) -> None:
        self._schemas: list[etree.XMLSchema] = []
        if folder is not None:
            onvif = scratch / "onvif.xsd"
            onvif.write_bytes(_types(folder / "wsn/onvif/event.wsdl"))
            made = {ONVIF: onvif}
            # Of events there are no schemas but those that are served.
            for uri, file in ((names.GRID_EVENT, "event"), (names.GRID_RESOURCE_EVENT, "resdat")):
                made[uri] = scratch / f"{file}.xsd"
                made[uri].write_bytes(TYPE_DOCUMENTS[f"{file}.xsd"][1])
            self._schemas = [self._schema(folder, final, made) for final in (False, True)]
        self._packaged = _packaged() if folder is None else None

    @staticmethod
    def _schema(folder: Path, final: bool, made: Mapping[str, Path]) -> etree.XMLSchema:
        files = {**_FILES, WSE: _EVENTING[final]}
        imports = "".join(
            f'<xs:import namespace="{uri}" schemaLocation="{path.as_uri()}"/>'
            for uri, path in [
                *((uri, folder / path) for uri, path in files.items()),
                *made.items(),
            ]
        )
        driver = f'<xs:schema xmlns:xs="{XSD}" targetNamespace="urn:driver">{imports}</xs:schema>'
        return etree.XMLSchema(etree.fromstring(driver.encode()))

    def check(self, octets: bytes) -> None:
        """Assert that the envelope is valid, with references of either version in WS-Eventing."""
        document = etree.fromstring(octets)
        # Any element may have it (SOAP 1.1, section 4.1.1); the schema forgets the Envelope.
        document.attrib.pop(_ENCODING_STYLE, "")
        if self._packaged is not None:
            self._check_parts(document, self._packaged)
            return
        problems = []
        for schema in self._schemas:
            if schema.validate(document):
                return
            problems.append(str(schema.error_log))
        raise AssertionError(f"{problems}\n{octets.decode()}")

    def check_element(self, octets: bytes) -> None:
        """Assert that an element is valid on its own, wherever its schema is."""
        if self._packaged is None:
            element = etree.fromstring(octets)
            assert any(schema.validate(element) for schema in self._schemas), octets
            return
        alone = etree.Element("{urn:driver}part")
        alone.append(etree.fromstring(octets))
        assert self._packaged.validate(alone), f"{self._packaged.error_log}\n{octets!r}"

    @staticmethod
    def _check_parts(envelope: etree._Element, schema: etree.XMLSchema) -> None:
        shell = copy.deepcopy(envelope)
        for part in shell.findall("{*}*/*"):
            if part.tag not in _FAULTS:
                part.clear()
                part.tag = "part"
        assert schema.validate(shell), f"{schema.error_log}\n{etree.tostring(shell)!r}"
        for part in envelope.iterfind("{*}*/*"):
            uri = etree.QName(part).namespace
            # References of another version than the schema's are allowed in WS-Eventing, and of
            # brokers' own properties there is no schema here.
            unknown = f".//{{{_OTHER_WSA if uri == WSE else BROKERED}}}*"
            if uri in _PACKAGED and part.find(unknown) is None:
                alone = etree.Element("{urn:driver}part")
                alone.append(etree.fromstring(etree.tostring(part, with_tail=False)))
                assert schema.validate(alone), f"{schema.error_log}\n{etree.tostring(part)!r}"


def _packaged() -> etree.XMLSchema:
    files = {uri: OWN / name for uri, name in _PACKAGED.items()} | _ENVELOPES
    imports = "".join(
        f'<xs:import namespace="{uri}" schemaLocation="{path.as_uri()}"/>'
        for uri, path in files.items()
    )
    driver = f'<xs:schema xmlns:xs="{XSD}" targetNamespace="urn:driver">{imports}'
    # As in an envelope: what is described must be valid, and other names are allowed.
    driver += '<xs:element name="part"><xs:complexType><xs:sequence><xs:any processContents="lax"/>'
    driver += "</xs:sequence></xs:complexType></xs:element></xs:schema>"
    return etree.XMLSchema(etree.fromstring(driver.encode()))


def _types(wsdl: Path) -> bytes:
    """The schema in ONVIF's WSDL, its imports without the places on the web, and without what is
    said of brokers, which libxml2 finds ambiguous."""
    (schema,) = etree.parse(wsdl).iter(f"{{{XSD}}}schema")
    for child in list(schema):
        if "EventBroker" in (child.get("name") or ""):
            schema.remove(child)
    for imported in schema.iter(f"{{{XSD}}}import"):
        del imported.attrib["schemaLocation"]
    return etree.tostring(schema)
