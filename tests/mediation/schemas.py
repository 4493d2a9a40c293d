"""Validation against the specifications' schemas, which are no part of the repository."""

from pathlib import Path

from lxml import etree

XSD = "http://www.w3.org/2001/XMLSchema"
XML = "http://www.w3.org/XML/1998/namespace"
WSE = "http://schemas.xmlsoap.org/ws/2004/08/eventing"

_FINAL = {
    "http://docs.oasis-open.org/wsrf/bf-2": "wsn/final/bf-2.xsd",
    "http://docs.oasis-open.org/wsrf/r-2": "wsn/final/r-2.xsd",
    "http://docs.oasis-open.org/wsrf/rp-2": "wsn/final/rp-2.xsd",
    "http://docs.oasis-open.org/wsrf/rl-2": "wsn/final/rl-2.xsd",
    "http://docs.oasis-open.org/wsn/t-1": "wsn/final/t-1.xsd",
    "http://docs.oasis-open.org/wsn/b-2": "wsn/final/b-2.xsd",
    "http://docs.oasis-open.org/wsn/br-2": "wsn/final/br-2.xsd",
}
_FILES = {
    XML: "soap/xml.xsd",
    "http://schemas.xmlsoap.org/soap/envelope/": "soap/soap-envelope-1.1.xsd",
    "http://www.w3.org/2003/05/soap-envelope": "soap/soap-envelope-1.2.xsd",
    "http://www.w3.org/2005/08/addressing": "ws-addressing/ws-addr-2005-08.xsd",
    "http://schemas.xmlsoap.org/ws/2004/08/addressing": "ws-addressing/addressing-2004-08.xsd",
    "http://schemas.xmlsoap.org/ws/2004/03/addressing": "ws-addressing/addressing-2004-03.xsd",
    **_FINAL,
}
ONVIF = "http://www.onvif.org/ver10/events/wsdl"
_EVENTING = {
    False: "ws-eventing/eventing-2004-08.xsd",
    True: "ws-eventing/eventing-2004-08-dpws11.xsd",
}


class Validator:
    """Checks envelopes against one schema that imports all of the stored ones, those first that
    others import from the web: libxml2 reads each namespace once.

    Args:
        folder: The schemas; without them, envelopes need only be well-formed.
        scratch: Where the schema that ONVIF's WSDL holds can be written.
    """

    def __init__(self, folder: Path | None, scratch: Path) -> None:
        self._schemas: list[etree.XMLSchema] = []
        if folder is not None:
            onvif = scratch / "onvif.xsd"
            onvif.write_bytes(_types(folder / "wsn/onvif/event.wsdl"))
            self._schemas = [self._schema(folder, final, onvif) for final in (False, True)]

    @staticmethod
    def _schema(folder: Path, final: bool, onvif: Path) -> etree.XMLSchema:
        files = {**_FILES, WSE: _EVENTING[final]}
        imports = "".join(
            f'<xs:import namespace="{uri}" schemaLocation="{path.as_uri()}"/>'
            for uri, path in [
                *((uri, folder / path) for uri, path in files.items()),
                (ONVIF, onvif),
            ]
        )
        driver = f'<xs:schema xmlns:xs="{XSD}" targetNamespace="urn:driver">{imports}</xs:schema>'
        return etree.XMLSchema(etree.fromstring(driver.encode()))

    def check(self, octets: bytes) -> None:
        """Assert that the envelope is valid, with references of either version in WS-Eventing."""
        document = etree.fromstring(octets)
        problems = []
        for schema in self._schemas:
            if schema.validate(document):
                return
            problems.append(str(schema.error_log))
        if not self._schemas:
            return
        raise AssertionError(f"{problems}\n{octets.decode()}")


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
