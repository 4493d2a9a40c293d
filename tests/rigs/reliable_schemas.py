"""Validation of WS-ReliableMessaging, WS-MakeConnection and their policy assertions.

Always against schemas of our own (``reliable-messaging-*.xsd``); against the official ones where
Apache CXF's copy of them is:

    mvn dependency:copy -Dartifact=org.apache.cxf:cxf-rt-ws-rm:4.0.5 \
        -DoutputDirectory=$HOME/.cache/dragoman/schemas

Another folder is named by DRAGOMAN_SCHEMAS.
"""

import os
import zipfile
from pathlib import Path

import pytest
from lxml import etree

from mediation.model.versions import Wsa
from mediation.reliable_messaging import Rm
from tests.rigs.schemas import OWN, XML, XSD

_JARS = Path(os.environ.get("DRAGOMAN_SCHEMAS") or Path.home() / ".cache" / "dragoman" / "schemas")
_ADDRESSING = {Wsa.V2004_08: "addressing-2004-08.xsd", Wsa.V2005_08: "addressing-2005-08.xsd"}
_HERE = Path(__file__).parent
_OWN = {
    Rm.V1_0: _HERE / "reliable-messaging-1.0.xsd",
    Rm.V1_1: _HERE / "reliable-messaging-1.1.xsd",
}
_MEMBERS = {
    Rm.V1_0: "schemas/wsdl/wsrm-1.0.xsd",
    Rm.V1_1: "schemas/wsdl/wsrm-1.1.xsd",
}
_POLICIES = {
    Rm.V1_0: "schemas/configuration/wsrm-policy.xsd",
    Rm.V1_1: "schemas/configuration/wsrmp-1.1-schema-200702.xsd",
}


def jar() -> Path:
    """Apache CXF's module; skips the test that asks for it where there is none."""
    found = sorted(_JARS.glob("cxf-rt-ws-rm-*.jar"))
    if not found:
        pytest.skip(f"needs cxf-rt-ws-rm-*.jar in {_JARS}: tests/rigs/reliable_schemas.py says how")
    return found[-1]


def _official(member: str) -> str:
    with zipfile.ZipFile(jar()) as archive:
        return archive.read(member).decode()


def schema(rm: Rm, wsa: Wsa, scratch: Path, *, official: bool) -> etree.XMLSchema:
    """The schema of a version, with references of either version of WS-Addressing."""
    text = _official(_MEMBERS[rm]) if official else _OWN[rm].read_text()
    root = etree.fromstring(text.encode())
    for imported in root.iter(f"{{{XSD}}}import"):
        imported.attrib.pop("schemaLocation", "")
    text = etree.tostring(root, encoding="unicode")
    for other in ("WSA", *(one.value for one in _ADDRESSING)):
        text = text.replace(f'"{other}"', f'"{wsa.value}"')
    path = scratch / "reliable-messaging.xsd"
    path.write_text(text)
    addressing = scratch / "addressing.xsd"
    known = (OWN / _ADDRESSING[wsa]).read_text()
    addressing.write_text(known.replace(' schemaLocation="?xsd=xml"', ""))
    files = [(XML, OWN / "xml.xsd"), (wsa.value, addressing), (rm.namespace, path)]
    imports = "".join(
        f'<xs:import namespace="{uri}" schemaLocation="{file.as_uri()}"/>' for uri, file in files
    )
    driver = f'<xs:schema xmlns:xs="{XSD}" targetNamespace="urn:driver">{imports}</xs:schema>'
    return etree.XMLSchema(etree.fromstring(driver.encode()))


def policy_schema(rm: Rm) -> etree.XMLSchema:
    """The official schema of the policy assertions."""
    return etree.XMLSchema(etree.fromstring(_official(_POLICIES[rm]).encode()))


def connection_schema(scratch: Path) -> etree.XMLSchema:
    """The official schema of WS-MakeConnection."""
    root = etree.fromstring(_official("schemas/wsdl/wsmc-1.1.xsd").encode())
    for imported in list(root.iter(f"{{{XSD}}}import")):
        root.remove(imported)
    path = scratch / "make-connection.xsd"
    path.write_bytes(etree.tostring(root))
    return etree.XMLSchema(etree.parse(path))


def check(schema: etree.XMLSchema, octets: bytes, namespace: str) -> int:
    """Assert that each element of *namespace* in header and body is valid; how many there were."""
    parts = [
        part
        for part in etree.fromstring(octets).iterfind("{*}*/*")
        if etree.QName(part).namespace == namespace
    ]
    for part in parts:
        alone = etree.fromstring(etree.tostring(part, with_tail=False))
        assert schema.validate(alone), f"{schema.error_log}\n{etree.tostring(part).decode()}"
    return len(parts)
