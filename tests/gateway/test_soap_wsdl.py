"""The description of the endpoint: complete, and true."""

from pathlib import Path

from lxml import etree

from mediation import CODECS, Operation
from mediation.wsdl import OFFERS
from tests.gateway.envelopes import Answer
from tests.gateway.soap import running

WSDL = "{http://schemas.xmlsoap.org/wsdl/}"
XSD = "{http://www.w3.org/2001/XMLSchema}"
SOAP = {"Soap11": "{http://schemas.xmlsoap.org/wsdl/soap/}", "Soap12": "{http://schemas.xmlsoap.org/wsdl/soap12/}"}  # fmt: skip


def expanded(element: etree._Element, attribute: str) -> tuple[str | None, str]:
    """The QName in an attribute."""
    prefix, _, local = (element.get(attribute) or "").partition(":")
    return element.nsmap[prefix], local


def names(root: etree._Element, tag: str) -> list[str]:
    return [element.get("name") or "" for element in root.findall(WSDL + tag)]


async def test_description(tmp_path: Path) -> None:
    async with running(tmp_path, public_url="https://events.example.org/x") as run:
        answer: Answer = await run.request("GET", "/soap?wsdl")
        assert (answer.status, answer.type) == (200, "text/xml; charset=utf-8")
        root = etree.fromstring(answer.body)
        for path in ("/soap?WSDL", "/soap/?wsdl"):
            assert (await run.request("GET", path)).body == answer.body
        assert (await run.request("HEAD", "/soap?wsdl")).status == 200
        for path in ("/soap", "/soap?wsdl2", "/soap/topic/a?wsdl", "/subscriptions/x?wsdl"):
            assert (await run.request("GET", path)).status == 405
    namespace = root.get("targetNamespace")
    for tag in ("message", "portType", "binding"):
        assert len(set(names(root, tag))) == len(names(root, tag)) > 0
    declared = {
        (schema.get("targetNamespace"), element.get("name"))
        for schema in root.iter(f"{XSD}schema")
        for element in schema
    }
    for part in root.iter(f"{WSDL}part"):
        assert expanded(part, "element") in declared
    used = set()
    for port_type in root.findall(f"{WSDL}portType"):
        operations = names(port_type, "operation")
        for message in port_type.iter(f"{WSDL}input", f"{WSDL}output"):
            used.add(expanded(message, "message"))
        for suffix, soap in SOAP.items():
            [binding] = [
                one
                for one in root.findall(f"{WSDL}binding")
                if one.get("name") == f"{port_type.get('name')}{suffix}"
            ]
            assert expanded(binding, "type") == (namespace, port_type.get("name"))
            assert names(binding, "operation") == operations
            assert len(binding.findall(f"{soap}binding")) == 1
    assert used == {(namespace, name) for name in names(root, "message")}
    [service] = root.findall(f"{WSDL}service")
    bound = [expanded(port, "binding") for port in service]
    assert bound == [(namespace, name) for name in names(root, "binding")]
    locations = {port[0].get("location") for port in service}
    assert locations == {"https://events.example.org/x/soap"}


def test_every_operation_is_offered() -> None:
    for codec in CODECS.values():
        for offer in OFFERS:
            if offer.namespace in codec.namespaces:
                assert codec.operation(f"{{{offer.namespace}}}{offer.name}") is offer.operation
                if offer.operation is not Operation.PUBLISH:
                    assert codec.action(offer.action) is offer.operation
    elsewhere = {
        Operation.CREATE_MESSAGE_BOX,
        Operation.STORE_MESSAGES,
        Operation.TAKE_MESSAGES,
        Operation.DESTROY_MESSAGE_BOX,
        Operation.MAKE_CONNECTION,
    }
    assert {offer.operation for offer in OFFERS} == set(Operation) - elsewhere
