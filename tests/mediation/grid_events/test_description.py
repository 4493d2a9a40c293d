"""The description in WSDL: gSOAP reads it."""

import shutil
import subprocess
from pathlib import Path

import pytest
from lxml import etree

from mediation import names
from mediation.grid_events import asks_for_description, write_description

ADDRESS = "http://gateway.example.org/soap?a&b"


def test_who_asks_for_it() -> None:
    assert asks_for_description("wsdl=grid-events") and asks_for_description("WSDL=Grid-Events")
    assert not asks_for_description("wsdl") and not asks_for_description("wsdl=wse")


def test_what_it_describes() -> None:
    root = etree.fromstring(write_description(ADDRESS))
    wsdl, soap = {"w": names.WSDL, "b": names.WSDL_SOAP_1_1}, f"{{{names.WSDL_SOAP_1_1}}}"
    (address,) = root.iter(f"{soap}address")
    assert address.get("location") == ADDRESS
    methods = root.xpath("w:portType[@name='LeasingFilteredEventChannel']/*/@name", namespaces=wsdl)
    assert methods == ["handleEvent", "subscribeLease"]
    assert {one.get("use") for one in root.iter(f"{soap}body")} == {"encoded"}
    assert {one.get("style") for one in root.iter(f"{soap}binding")} == {"rpc"}


def test_all_fields_of_an_event_may_be_left_out() -> None:
    """And texts that nobody said come to listeners as null."""
    root, xsd = etree.fromstring(write_description(ADDRESS)), f"{{{names.XSD}}}"
    (event,) = (one for one in root.iter(f"{xsd}complexType") if one.get("name") == "Event")
    fields = list(event.iter(f"{xsd}element"))
    assert {one.get("minOccurs") for one in fields} == {"0"}
    null = [one.get("name") for one in fields if one.get("nillable") == "true"]
    assert null == ["eventNamespace", "eventType", "source", "message", "handback"]


def test_the_types_are_those_of_the_schema(shared: Path) -> None:
    """As on the reference's page: the same fields in the same order, of the same types."""
    described = etree.fromstring(write_description(ADDRESS))
    xsd = f"{{{names.XSD}}}"
    for path in sorted((shared / "specs" / "schemas" / "grid-events").glob("*.xsd")):
        schema = etree.parse(path).getroot()
        for type_ in schema.iter(f"{xsd}complexType"):
            (ours,) = (
                one
                for one in described.iter(f"{xsd}complexType")
                if one.get("name") == type_.get("name")
            )
            fields = [
                [
                    (e.get("name"), (e.get("type") or "").rpartition(":")[2])
                    for e in t.iter(f"{xsd}element")
                ]
                for t in (type_, ours)
            ]
            assert fields[0] == fields[1]
            namespace = ours.xpath("ancestor::*[@targetNamespace][1]/@targetNamespace")
            assert namespace == [schema.get("targetNamespace")]


@pytest.mark.skipif(shutil.which("wsdl2h") is None, reason="needs gSOAP: wsdl2h is not installed")
def test_gsoap_reads_it(tmp_path: Path) -> None:
    (tmp_path / "grid.wsdl").write_bytes(write_description(ADDRESS))
    done = subprocess.run(
        ["wsdl2h", "-o", "grid.h", "grid.wsdl"],
        cwd=tmp_path,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    header = (tmp_path / "grid.h").read_text()
    for word in ("handleEvent", "subscribeLease", "MachineUtilizationEvent", "leaseDuration"):
        assert word in header
