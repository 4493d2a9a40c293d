"""The descriptions of the endpoint: complete, valid, and true."""

import hashlib
import itertools
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

import pytest
from lxml import etree

from mediation.model.requests import Done, Operation, Sequences
from mediation.model.specification import Offer, Service
from mediation.model.versions import Soap, Version, Wsa
from mediation.names import POLICY_1_5
from mediation.responses import write_response
from mediation.specifications import SPECIFICATIONS
from mediation.wsdl import DESCRIBED, SERVICES, schema_named, services_named, write_wsdl
from tests.rigs.cases import for_each
from tests.rigs.envelopes import Answer, Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.mediation import context

TEXT = "{http://org.apache.airavata/ws-messenger/wsmg/2011}plainTextWrapper"
WSDL = "{http://schemas.xmlsoap.org/wsdl/}"
WSAM = "{http://www.w3.org/2007/05/addressing/metadata}"
XSD = "{http://www.w3.org/2001/XMLSchema}"
XML = "http://www.w3.org/XML/1998/namespace"
SOAP = {"Soap11": "{http://schemas.xmlsoap.org/wsdl/soap/}", "Soap12": "{http://schemas.xmlsoap.org/wsdl/soap12/}"}  # fmt: skip
ALL = tuple(itertools.chain.from_iterable(service.offers for service in SERVICES))
WHOLE = [*((service,) for service in DESCRIBED), SERVICES]
ALONE = [service for service in DESCRIBED if service not in SERVICES]
MESSENGER = "/axis2/services"


def expanded(element: etree._Element, attribute: str) -> tuple[str | None, str]:
    """The QName in an attribute."""
    prefix, _, local = (element.get(attribute) or "").partition(":")
    return element.nsmap[prefix], local


def names(root: etree._Element, tag: str) -> list[str]:
    return [element.get("name") or "" for element in root.findall(WSDL + tag)]


async def test_where_it_is(tmp_path: Path) -> None:
    async with running(tmp_path, public_url="https://events.example.org/x") as run:
        answer: Answer = await run.request("GET", "/soap?wsdl")
        assert (answer.status, answer.type) == (200, "text/xml; charset=utf-8")
        assert answer.body == write_wsdl("https://events.example.org/x/soap")
        for path in ("/soap?WSDL", "/soap/?wsdl", "/wsman?wsdl", "/onvif/device_service?wsdl"):
            assert (await run.request("GET", path)).body == answer.body
        assert (await run.request("HEAD", "/soap?wsdl")).status == 200
        for service in DESCRIBED:
            one = await run.request("GET", f"/soap?wsdl={service.query}")
            assert one.body == write_wsdl("https://events.example.org/x/soap", (service,))
        assert (await run.request("GET", "/soap?xsd=xml")).body == schema_named("xsd=xml")
        for path in (
            "/soap",
            "/soap?wsdl2",
            "/soap?xsd=../wsdl",
            "/soap/topic/a",
            "/soap/topic/a?wsdl2",
            "/subscriptions/x?wsdl",
        ):
            assert (await run.request("GET", path)).status == 405
        other = await run.request("GET", "/soap?wsdl=other")
        assert other.status == 404
        for service in DESCRIBED:
            assert service.query in other.body.decode()


@pytest.mark.parametrize("name", ["EventingService", "NotificationService", "MsgBoxService"])
async def test_the_services_of_messenger_describe_themselves(tmp_path: Path, name: str) -> None:
    """Each with its own address, below every prefix."""
    async with running(tmp_path, messenger_prefixes=["/services"]) as run:
        [service] = [one for one in ALONE if one.name == name]
        for path in (f"{MESSENGER}/{name}", f"{MESSENGER}/{name}/", f"/services/{name}"):
            answer = await run.request("GET", f"{path}?wsdl")
            assert answer.body == write_wsdl(f"{run.url}{MESSENGER}/{name}", (service,)), path
            assert (await run.request("GET", f"{path}?xsd=xml")).status == 200
            assert (await run.request("GET", path)).status == 405
        assert (await run.request("GET", f"{MESSENGER}/{name}/topic/a?wsdl")).status in (404, 405)


def test_what_a_query_names() -> None:
    assert services_named("wsdl") == services_named("WSDL=") == SERVICES
    assert [service.query for service in services_named("wsdl=WSN")] == ["wsn"]
    assert services_named("") == services_named("wsdl=x") == services_named("singleWsdl") == ()


@pytest.mark.parametrize("services", WHOLE)
def test_a_description_holds_together(services: tuple[Service, ...]) -> None:
    root = etree.fromstring(write_wsdl("https://events.example.org/x/soap?a&b", services))
    namespace = root.get("targetNamespace")
    for tag in ("message", "portType", "binding"):
        assert len(set(names(root, tag))) == len(names(root, tag)) > 0
    declared = {
        (schema.get("targetNamespace"), element.get("name"))
        for schema in root.iter(f"{XSD}schema")
        for element in schema.findall(f"{XSD}element")
    }
    for part in root.iter(f"{WSDL}part"):
        assert expanded(part, "element") in declared
    used = {expanded(block, "message") for block in root.iter("{*}header")}
    for port_type in root.findall(f"{WSDL}portType"):
        operations = names(port_type, "operation")
        for message in port_type.iter(f"{WSDL}input", f"{WSDL}output", f"{WSDL}fault"):
            used.add(expanded(message, "message"))
            assert message.get(f"{WSAM}Action")
        for suffix, soap in SOAP.items():
            [binding] = [
                one
                for one in root.findall(f"{WSDL}binding")
                if one.get("name") == f"{port_type.get('name')}{suffix}"
            ]
            assert expanded(binding, "type") == (namespace, port_type.get("name"))
            assert names(binding, "operation") == operations
            assert len(binding.findall(f"{soap}binding")) == 1
            for abstract, concrete in zip(
                port_type.findall(f"{WSDL}operation"),
                binding.findall(f"{WSDL}operation"),
                strict=True,
            ):
                assert names(abstract, "fault") == names(concrete, "fault")
    assert used == {(namespace, name) for name in names(root, "message")}
    assert names(root, "service") == [service.name for service in services]
    bound = {
        expanded(port, "binding") for service in root.findall(f"{WSDL}service") for port in service
    }
    assert bound == {(namespace, name) for name in names(root, "binding")}
    locations = {port[0].get("location") for port in root.iter(f"{WSDL}port")}
    assert locations == {"https://events.example.org/x/soap?a&b"}


@pytest.mark.parametrize("services", WHOLE)
def test_a_prefix_means_one_namespace_in_all_of_a_description(
    services: tuple[Service, ...],
) -> None:
    """Some readers keep prefixes by document: node-soap knew no message of most operations."""
    description = write_wsdl("https://events.example.org/soap", services)
    declared = [
        declaration
        for _, declaration in etree.iterparse(BytesIO(description), events=("start-ns",))
    ]
    root = etree.fromstring(description)
    assert len(declared) == len(root.nsmap) == len(set(root.nsmap.values()))


@pytest.mark.parametrize("services", WHOLE)
def test_no_type_has_two_attributes_of_one_local_name(services: tuple[Service, ...]) -> None:
    """Generators of JAX-WS make a property of each, by its local name, and refuse the second."""
    root = etree.fromstring(write_wsdl("https://events.example.org/soap", services))
    for type_ in root.iter(f"{XSD}complexType", f"{XSD}attributeGroup"):
        local = [
            (one.get("name") or (one.get("ref") or "").rpartition(":")[2])
            for one in type_.iter(f"{XSD}attribute")
            if next(one.iterancestors(type_.tag)) is type_
        ]
        assert len(set(local)) == len(local)


@pytest.mark.parametrize("services", WHOLE)
def test_its_schemas_are_whole(services: tuple[Service, ...]) -> None:
    """Every namespace that they refer to is there, in an order in which each comes after those it
    needs, and no type is "anything"."""
    root = etree.fromstring(write_wsdl("https://g.example.org/soap", services))
    seen = {"http://www.w3.org/2001/XMLSchema"}
    for schema in root.iter(f"{XSD}schema"):
        for one in schema.findall(f"{XSD}import"):
            place = "https://g.example.org/soap?xsd=xml" if one.get("namespace") == XML else None
            assert one.get("schemaLocation") == place
            assert one.get("namespace") in seen | {XML}
        seen.add(schema.get("targetNamespace") or "")
    elements = {
        f"{{{schema.get('targetNamespace')}}}{element.get('name')}": element
        for schema in root.iter(f"{XSD}schema")
        for element in schema.findall(f"{XSD}element")
    }
    for offer in itertools.chain.from_iterable(service.offers for service in services):
        element = elements[offer.request_element]
        assert not offer.answer_element or offer.answer_element in elements or not offer.response
        assert not (element.get("type") or "").endswith(":anyType")


@pytest.mark.parametrize("services", WHOLE)
def test_its_schemas_compile(services: tuple[Service, ...], tmp_path: Path) -> None:
    """libxml2 takes no schema without its location, so here they have one."""
    root = etree.fromstring(write_wsdl("https://g.example.org/soap", services))
    paths = {XML: tmp_path / "xml.xsd"}
    xml = schema_named("xsd=xml")
    assert xml is not None
    paths[XML].write_bytes(xml)
    schemas = list(root.iter(f"{XSD}schema"))
    for number, schema in enumerate(schemas):
        paths[schema.get("targetNamespace") or ""] = tmp_path / f"{number}.xsd"
    for schema in schemas:
        for one in schema.findall(f"{XSD}import"):
            one.set("schemaLocation", paths[one.get("namespace") or ""].name)
        octets = etree.tostring(schema, with_tail=False)
        paths[schema.get("targetNamespace") or ""].write_bytes(octets)
    for schema in schemas:
        etree.XMLSchema(file=str(paths[schema.get("targetNamespace") or ""]))


OFFICIAL = {
    "b-2": "786ca0177b0437aaef4f327c3f35ac59482d805e3026abd9758d6669310b71f3",
    "br-2": "87ca532bd5b182d72ed433063e0bac8a10da88c836ae98d772401ab81cbcb622",
    "t-1": "7033512db58a586dedd7f8271007989bc7607feb44d63eb5b444a158b4b7c5d7",
    "bf-2": "ce5689821407c1c4eac563b1d273cd4bcc03fb725e64ae23e4d4167a513e166c",
    "r-2": "5f1d13be3f2b35d1c687906ba630cc04b3a65ffceaed1086835528f437311e36",
    "rp-2": "86532ea286ee790c2d33fe416fbf03d203f4f6c516e288cafd5f5267f3a55474",
    "rl-2": "e684d18acaa39a57d63cdcdf02231d6558cd5450a4f994d52ac69bd9a8dfdd0b",
    "eventing-2004-08": "a4847595a009d65d3ed7f96fe28728162fb8053af9f0fce90c1320febc5c5f73",
    "eventing-2011-03": "286c2708ef1731081ac3821325e04b13309902bb7a0e23254be985b09847274d",
    "addressing-2004-08": "e3e25084e38342589a06541af6d3a4005b277045569951fd908ff5d3ccd40c90",
    "addressing-2005-08": "43cfa9fc67fee93752f128b68f716d9484b6881d978ddbce1f2c96f2ff83cda5",
}
"""SHA-256 of what `canonical` makes of the specifications' own files."""


@pytest.mark.parametrize("name", OFFICIAL)
def test_the_schemas_are_what_was_compared(name: str) -> None:
    assert hashlib.sha256(canonical(packaged(name))).hexdigest() == OFFICIAL[name]


@pytest.mark.parametrize("name", ["b-2", "br-2", "t-1", "bf-2", "r-2", "rp-2", "rl-2"])
def test_the_schemas_are_the_official_ones(name: str, shared: Path) -> None:
    official = shared / f"specs/schemas/wsn/final/{name}.xsd"
    assert canonical(official) == canonical(packaged(name))


@pytest.mark.parametrize(
    ("name", "official"),
    [
        ("eventing-2004-08", "ws-eventing/eventing-2004-08.xsd"),
        ("eventing-2011-03", "ws-eventing/eventing-2011-03.xsd"),
        ("addressing-2004-08", "ws-addressing/addressing-2004-08.xsd"),
        ("addressing-2005-08", "ws-addressing/ws-addr-2005-08.xsd"),
    ],
)
def test_the_older_schemas_are_the_official_ones(name: str, official: str, shared: Path) -> None:
    assert canonical(shared / "specs/schemas" / official) == canonical(packaged(name))


def packaged(name: str) -> Path:
    return Path(__file__).parents[3] / f"mediation/schemas/{name}.xsd"


def canonical(path: Path) -> bytes:
    """Without comments, blanks and the places of imports."""
    parser = etree.XMLParser(remove_comments=True, remove_blank_text=True)
    root = etree.parse(path, parser).getroot()
    for one in root.iter(f"{XSD}import"):
        one.attrib.pop("schemaLocation", "")
    for note in list(root.iter(f"{XSD}annotation")):
        parent = note.getparent()
        assert parent is not None
        parent.remove(note)
    for element in root.iter():
        if not (element.text or "").strip():
            element.text = None
        element.tail = None
    return etree.tostring(root, method="c14n")


def test_every_operation_is_offered() -> None:
    for specification in SPECIFICATIONS.values():
        requests = specification.requests
        for service in specification.services:
            for offer in service.offers:
                assert requests.elements[f"{{{offer.namespace}}}{offer.name}"] is offer.operation
                if offer.operation is not Operation.PUBLISH:
                    assert requests.actions[offer.action] is offer.operation
    elsewhere = {
        Operation.STORE_MESSAGES,
        Operation.MAKE_CONNECTION,
        Operation.IDENTIFY,
        Operation.PULL,
        Operation.RELEASE,
        Operation.ENUMERATE,
        Operation.END,
        Operation.SUBSCRIPTION_END,
        Operation.GET_METADATA,
        Operation.GET_WSDL,
        Operation.TRANSFER_GET,
        Operation.GET_SYSTEM_DATE_AND_TIME,
        Operation.GET_SERVICES,
        Operation.GET_CAPABILITIES,
        Operation.GET_DEVICE_INFORMATION,
        Operation.SUBSCRIPTION_END,
        Operation.CREATE_SEQUENCE,
        Operation.CLOSE_SEQUENCE,
        Operation.TERMINATE_SEQUENCE,
        Operation.LAST_MESSAGE,
        Operation.REQUEST_ACKNOWLEDGEMENT,
        Operation.ACKNOWLEDGE_SEQUENCE,
    }
    alone = {offer.operation for service in ALONE for offer in service.offers}
    assert {offer.operation for offer in ALL} | alone == set(Operation) - elsewhere


@pytest.mark.parametrize("service", ALONE, ids=lambda service: service.query)
def test_every_operation_that_is_described_alone_is_offered(service: Service) -> None:
    every = [one.requests for one in SPECIFICATIONS.values()]
    for offer in service.offers:
        asked = [one.elements.get(offer.request_element) for one in every]
        if offer.request_element != TEXT:  # Any element is published.
            assert offer.operation in asked


@for_each("version", [version for version in SPECIFICATIONS if version is not Version.WSN_1_0])
def test_the_elements_of_faults_are_declared(version: Version) -> None:
    """The element that a row gives for one operation is among those that the operation declares,
    and each other element is declared by some operation."""
    specification = SPECIFICATIONS[version]
    offers = [offer for service in specification.services for offer in service.offers]
    for (_, operation), fault in specification.faults.items():
        if fault.element:
            declared = [
                fault.element in offer.faults
                for offer in offers
                if operation in (None, offer.operation)
            ]
            assert any(declared) if operation is None else declared and all(declared), operation


ASKED = {
    Operation.CREATE_PULL_POINT: "",
    Operation.GET_EVENT_PROPERTIES: "",
    Operation.GET_SERVICE_CAPABILITIES: "",
    Operation.CREATE_PULL_POINT_SUBSCRIPTION: "",
}


@pytest.mark.parametrize(
    "offer", [offer for offer in ALL if offer.operation in ASKED], ids=lambda offer: offer.unique
)
@pytest.mark.parametrize("soap", Soap)
@pytest.mark.asyncio(loop_scope="module")
async def test_answers_have_the_action_that_is_declared(
    gateway: Running, offer: Offer, soap: Soap
) -> None:
    body = f'<x:{offer.name} xmlns:x="{offer.namespace}"/>'
    answer = await gateway.ask(Speaker(soap), body, action=offer.action)
    assert answer.status == 200, answer.body
    assert answer.message.wsa("Action", Wsa.V2005_08) == offer.response


def test_answers_of_the_codecs_have_the_action_that_is_declared() -> None:
    for version, service in [
        (version, service)
        for version, specification in SPECIFICATIONS.items()
        for service in specification.services
    ]:
        for offer in service.offers:
            if offer.operation in (Operation.SUBSCRIBE, Operation.RENEW, Operation.GET_STATUS):
                continue  # They answer with a subscription; `test_ws_eventing` looks at them.
            if not offer.response or offer.operation in ASKED:
                continue
            if offer.port_type.startswith("Resource"):
                continue  # So do these, with properties.
            spoken = context(offer.operation, version, action=offer.action)
            action, _ = write_response(Done(), spoken, message_id="urn:m")
            assert action == offer.response


@pytest.mark.parametrize("mode", Sequences)
async def test_what_takes_events_says_whether_it_takes_them_in_sequences(
    tmp_path: Path, mode: Sequences
) -> None:
    async with running(tmp_path, wsrm=mode.value) as run:
        root = etree.fromstring((await run.request("GET", "/soap?wsdl")).body)
    wsp = f"{{{POLICY_1_5}}}"
    assertions = list(root.iter("{*}RMAssertion"))
    optional = {"true"} if mode is Sequences.OFFERED else {None}
    described = 0 if mode is Sequences.OFF else 2
    assert len(assertions) == described
    assert {each.get(f"{wsp}Optional") for each in assertions} == (optional if described else set())
    referring = [each.get("name") for each in root.iter(f"{WSDL}binding") if each.find(f"{wsp}PolicyReference") is not None]  # fmt: skip
    takes = {offer.port_type for offer in ALL if offer.operation is Operation.PUBLISH}
    wanted = {f"{name}{soap}" for name in takes for soap in SOAP} if described else set()
    assert set(referring) == wanted
    assert {each.get("URI") for each in root.iter(f"{wsp}PolicyReference")} <= {"#Sequences"}
    fetched = list(root.iter("{*}MCSupported"))
    assert [each.get(f"{wsp}Optional") for each in fetched] == ["true"] * (described // 2)


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        ("/soap/topic/orders", Sequences.REQUIRED),
        ("/soap/topic/orders/eu", Sequences.REQUIRED),
        ("/soap/topic/{urn:a}b", Sequences.OFFERED),
        ("/soap/topic/other", Sequences.OFF),
        ("/soap", Sequences.OFF),
    ],
)
async def test_the_endpoint_of_a_topic_describes_itself(
    tmp_path: Path, path: str, mode: Sequences
) -> None:
    rows = {"/soap/topic/orders": "required", "/soap/topic/{urn:a}b": "offered"}
    async with running(
        tmp_path, wsrm_at=rows, wsrm="off", public_url="https://events.example.org/x"
    ) as run:
        path = quote(path)
        answer = await run.request("GET", f"{path}?wsdl")
        address = f"https://events.example.org/x{path}"
        assert answer.body == write_wsdl(address, sequences=mode)
        for service in SERVICES:
            one = await run.request("GET", f"{path}?wsdl={service.query}")
            assert one.body == write_wsdl(address, (service,), sequences=mode)
        assert (await run.request("GET", f"{path}?xsd=xml")).body == schema_named("xsd=xml")


async def test_what_is_no_topic_is_not_described(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        answer = await run.request("GET", "/soap/topic/a//b?wsdl")
        assert (answer.status, b"topic" in answer.body) == (404, True)
