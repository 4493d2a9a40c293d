"""WSRF in other names than those of 1.2, under another specification: one codec for every version."""

from collections.abc import Mapping

import pytest
from lxml import etree

from filters import Expression, Reason
from filters.dialects import XPATH_1_0
from mediation.model.errors import MediationError
from mediation.model.expiry import NEVER
from mediation.model.requests import (
    Arrival,
    Context,
    Destroy,
    GetProperties,
    ModifyProperties,
    Operation,
    Properties,
    QueryProperties,
    Request,
    Response,
    SetTerminationTime,
    Unsubscribe,
)
from mediation.model.specification import Answer, CombinedRequests
from mediation.model.versions import Soap
from mediation.resources.wsrf import (
    ResourceClient,
    ResourceRequests,
    WsrfNames,
    resource_faults,
    resource_offers,
)
from tests.rigs.mediation import ARRIVAL, context

DRAFT = WsrfNames(
    properties="urn:draft:rp",
    lifetime="urn:draft:rl",
    resource="urn:draft:r",
    property_actions="urn:draft:rp/",
    lifetime_actions="urn:draft:rl/",
    fault_action="urn:draft:fault",
)
XSI = "http://www.w3.org/2001/XMLSchema-instance"
REQUESTS = [
    (
        '<GetResourceProperty xmlns="urn:draft:rp" xmlns:x="urn:x">x:y</GetResourceProperty>',
        GetProperties(("{urn:x}y",)),
        "urn:draft:rp/GetResourceProperty/GetResourcePropertyRequest",
    ),
    (
        '<GetResourcePropertyDocument xmlns="urn:draft:rp"/>',
        GetProperties(None),
        "urn:draft:rp/GetResourcePropertyDocument/GetResourcePropertyDocumentRequest",
    ),
    (
        '<QueryResourceProperties xmlns="urn:draft:rp" xmlns:x="urn:x">'
        "<QueryExpression>//x:y</QueryExpression></QueryResourceProperties>",
        QueryProperties(Expression("//x:y", XPATH_1_0, (("", "urn:draft:rp"), ("x", "urn:x")))),
        "urn:draft:rp/QueryResourceProperties/QueryResourcePropertiesRequest",
    ),
    (
        '<QueryResourceProperties xmlns="urn:draft:rp"><QueryExpression Dialect="urn:q">a'
        "</QueryExpression></QueryResourceProperties>",
        QueryProperties(Expression("a", "urn:q", (("", "urn:draft:rp"),))),
        "urn:draft:rp/QueryResourceProperties/QueryResourcePropertiesRequest",
    ),
    (
        '<SetResourceProperties xmlns="urn:draft:rp" xmlns:x="urn:x"><Update><x:a/><x:b/></Update>'
        '<Insert><x:a/></Insert><Delete ResourceProperty="x:c"/></SetResourceProperties>',
        ModifyProperties(("{urn:x}a", "{urn:x}b", "{urn:x}c")),
        "urn:draft:rp/SetResourceProperties/SetResourcePropertiesRequest",
    ),
    (
        '<PutResourcePropertyDocument xmlns="urn:draft:rp"><a xmlns=""/>'
        "</PutResourcePropertyDocument>",
        ModifyProperties(None),
        "urn:draft:rp/PutResourcePropertyDocument/PutResourcePropertyDocumentRequest",
    ),
    (
        '<SetTerminationTime xmlns="urn:draft:rl"><RequestedTerminationTime'
        f' xmlns:xsi="{XSI}" xsi:nil="true"/></SetTerminationTime>',
        SetTerminationTime(NEVER),
        "urn:draft:rl/ScheduledResourceTermination/SetTerminationTimeRequest",
    ),
    (
        '<Destroy xmlns="urn:draft:rl"/>',
        Destroy(),
        "urn:draft:rl/ImmediateResourceTermination/DestroyRequest",
    ),
]


@pytest.mark.parametrize(("body", "meant", "action"), REQUESTS)
def test_requests(body: str, meant: Request, action: str) -> None:
    requests = ResourceRequests(DRAFT)
    element = etree.fromstring(body)
    operation = requests.elements[str(element.tag)]
    assert requests.read(operation, element, context(operation), ARRIVAL) == meant
    assert requests.actions[action] is operation


@pytest.mark.parametrize("operation", ["Set", "Insert", "Update", "Delete"])
def test_a_change_of_nothing_is_invalid(operation: str) -> None:
    requests = ResourceRequests(DRAFT)
    element = etree.fromstring(f'<{operation}ResourceProperties xmlns="urn:draft:rp"/>')
    asked = requests.elements[str(element.tag)]
    with pytest.raises(MediationError) as refused:
        requests.read(asked, element, context(asked), ARRIVAL)
    fault = resource_faults(DRAFT)[refused.value.reason, asked]
    assert fault.element == "{urn:draft:rp}InvalidModificationFault"


def test_a_query_says_what_it_asks() -> None:
    requests = ResourceRequests(DRAFT)
    element = etree.fromstring('<QueryResourceProperties xmlns="urn:draft:rp"/>')
    asked = Operation.QUERY_RESOURCE_PROPERTIES
    with pytest.raises(MediationError) as refused:
        requests.read(asked, element, context(asked), ARRIVAL)
    assert refused.value.reason is Reason.QUERY_INVALID


def test_answers() -> None:
    asked = Context(Soap.V1_2, operation=Operation.GET_RESOURCE_PROPERTY)
    answer = ResourceRequests(DRAFT).write(
        Properties({"{urn:x}y": b"<y/>"}, ("{urn:x}y",), ""), asked
    )
    assert answer.action == "urn:draft:rp/GetResourceProperty/GetResourcePropertyResponse"
    assert etree.fromstring(answer.body).tag == "{urn:draft:rp}GetResourcePropertyResponse"


@pytest.mark.parametrize("expires", [None, "PT1H", "2040-01-01T00:00:00Z"])
def test_clients_write_what_is_read(expires: str | None) -> None:
    requests, client = ResourceRequests(DRAFT), ResourceClient(DRAFT)
    for written in (
        client.get_property("{urn:x}y"),
        client.get_termination_time(),
        client.query("//x:y", {"x": "urn:x"}),
        client.set_termination_time(expires),
        client.destroy(),
    ):
        element = etree.fromstring(written.body)
        operation = requests.elements[str(element.tag)]
        assert requests.actions[written.action] is operation
        requests.read(operation, element, context(operation), ARRIVAL)


def test_faults_and_offers_have_the_names_of_the_version() -> None:
    faults = resource_faults(DRAFT)
    assert faults[Reason.SUBSCRIPTION_UNKNOWN, None].element == "{urn:draft:r}ResourceUnknownFault"
    assert {fault.action for fault in faults.values()} == {"urn:draft:fault"}
    requests = ResourceRequests(DRAFT)
    for offer in resource_offers(DRAFT):
        assert requests.elements[f"{{{offer.namespace}}}{offer.name}"] is offer.operation
        assert requests.actions[offer.action] is offer.operation


class Base:
    """A specification over WSRF, with one request that WSRF also has, and one of its own."""

    namespaces = frozenset({"urn:base", "urn:draft:rl"})
    elements: Mapping[str, Operation] = {
        "{urn:base}Unsubscribe": Operation.UNSUBSCRIBE,
        "{urn:draft:rl}Destroy": Operation.DESTROY,
    }
    actions: Mapping[str, Operation] = {"urn:base/Unsubscribe": Operation.UNSUBSCRIBE}

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        return Unsubscribe()

    def write(self, response: Response, context: Context) -> Answer:
        return Answer("urn:base/answer")


def test_specifications_are_combined() -> None:
    both = CombinedRequests(Base(), ResourceRequests(DRAFT))
    assert both.namespaces == {"urn:base", "urn:draft:rp", "urn:draft:rl"}
    assert both.actions["urn:base/Unsubscribe"] is Operation.UNSUBSCRIBE
    assert len(both.actions) == 1 + len(ResourceRequests(DRAFT).actions)
    for body, meant, _ in REQUESTS:
        element = etree.fromstring(body)
        operation = both.elements[str(element.tag)]
        read = both.read(operation, element, context(operation), ARRIVAL)
        # Of two that know an element the first reads it.
        assert read == (Unsubscribe() if operation is Operation.DESTROY else meant)
    document = Context(Soap.V1_2, operation=Operation.GET_RESOURCE_PROPERTY_DOCUMENT)
    told = both.write(Properties({}, None, "{urn:x}document"), document)
    assert told.action.startswith("urn:draft:rp/")
    for asking in (None, Operation.UNSUBSCRIBE, Operation.DESTROY):
        asked = Context(Soap.V1_2, operation=asking)
        assert both.write(Properties({}, (), ""), asked).action == "urn:base/answer"
