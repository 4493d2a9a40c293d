"""What WSRF asks of any resource, on real sockets: subscriptions, pull points, the producer."""

from xml.sax.saxutils import escape

import pytest
from lxml import etree

from filters import dialects
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import RL, RP, WSNT, Answer, R, Speaker, topic_expression
from tests.rigs.gateways import Running

SPEAKER = Speaker()
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def pull_point(gateway: Running) -> str:
    """The path of a new pull point."""
    answer = await gateway.ask(SPEAKER, f'<n:CreatePullPoint xmlns:n="{WSNT}"/>')
    [reference] = answer.message.body[0]
    return str(reference[0].text).removeprefix(gateway.url)


def lifetime(operation: str, inner: str = "") -> str:
    return f'<r:{operation} xmlns:r="{RL}">{inner}</r:{operation}>'


async def document(gateway: Running, path: str) -> etree._Element:
    body = f'<r:GetResourcePropertyDocument xmlns:r="{RP}"/>'
    [root] = (await gateway.ask(SPEAKER, body, path)).message.body[0]
    return root


async def test_a_pull_point_has_an_end_that_nobody_sets(gateway: Running) -> None:
    path = await pull_point(gateway)
    root = await document(gateway, path)
    assert root.tag == f"{{{RL}}}ScheduledResourceTerminationRP"
    now, end = root
    assert str(now.text) < str(end.text)
    later = lifetime(
        "SetTerminationTime", "<r:RequestedLifetimeDuration>PT1H</r:RequestedLifetimeDuration>"
    )
    refused = await gateway.ask(SPEAKER, later, path)
    assert refused.fault.element == f"{{{RL}}}UnableToSetTerminationTimeFault"


async def test_a_pull_point_is_destroyed_with_the_subscriptions_that_fill_it(
    gateway: Running, consumer: Consumers
) -> None:
    path = await pull_point(gateway)
    filling = await gateway.subscribe(SPEAKER, SPEAKER.wsn_subscribe(gateway.url + path))
    assert (await gateway.ask(SPEAKER, lifetime("Destroy"), path)).status == 200
    for gone in (path, filling):
        refused = await gateway.ask(SPEAKER, lifetime("Destroy"), gone)
        assert refused.fault.element == f"{{{R}}}ResourceUnknownFault"


@pytest.mark.parametrize("operation", ["Destroy", "SetTerminationTime"])
async def test_the_producer_has_no_end(gateway: Running, operation: str) -> None:
    inner = "<r:RequestedLifetimeDuration>PT1H</r:RequestedLifetimeDuration>"
    body = lifetime(operation, "" if operation == "Destroy" else inner)
    assert (await gateway.ask(SPEAKER, body)).fault.element == f"{{{R}}}ResourceUnknownFault"


async def test_a_key_that_nobody_has_names_no_resource(gateway: Running) -> None:
    for path in ("/subscriptions/", "/pullpoints/"):
        body = f'<r:GetResourcePropertyDocument xmlns:r="{RP}"/>'
        answer = await gateway.ask(SPEAKER, body, f"{path}00000000-0000-4000-8000-000000000000")
        assert answer.fault.element == f"{{{R}}}ResourceUnknownFault"


# Queries and changes.


async def query(
    gateway: Running, text: str, path: str = "/soap", dialect: str = dialects.XPATH_1_0
) -> Answer:
    body = (
        f'<r:QueryResourceProperties xmlns:r="{RP}" xmlns:n="{WSNT}">'
        f'<r:QueryExpression Dialect="{dialect}">{escape(text)}</r:QueryExpression>'
        "</r:QueryResourceProperties>"
    )
    return await gateway.ask(SPEAKER, body, path)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        pytest.param("string(/*/n:ConsumerReference/*)", "{url}", id="a string"),
        pytest.param("count(//n:TopicExpression)", "1", id="a number"),
        pytest.param("boolean(/*/n:Filter) and not(/*/n:Nothing)", "true", id="a boolean"),
        pytest.param("//n:Nothing", "", id="no nodes"),
        pytest.param("//n:TopicExpression/@Dialect", dialects.TOPIC_CONCRETE, id="an attribute"),
    ],
)
async def test_values_of_queries(
    gateway: Running, consumer: Consumers, text: str, result: str
) -> None:
    url = consumer.fresh()
    filter_ = topic_expression("w:storms", scope='xmlns:w="urn:test:weather"')
    path = await gateway.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url, filter=filter_))
    body = (await query(gateway, text, path)).message.body[0]
    assert body.tag == f"{{{RP}}}QueryResourcePropertiesResponse"
    assert (body.text or "") == result.format(url=url)


async def test_a_query_finds_elements_with_their_namespaces(
    gateway: Running, consumer: Consumers
) -> None:
    filter_ = topic_expression("w:storms", scope='xmlns:w="urn:test:weather"')
    path = await gateway.subscribe(SPEAKER, SPEAKER.wsn_subscribe(consumer.fresh(), filter=filter_))
    [found] = (await query(gateway, "/*/n:Filter/*", path)).message.body[0]
    assert (found.text, found.nsmap["w"]) == ("w:storms", "urn:test:weather")


async def test_pull_points_and_the_producer_are_queried_too(gateway: Running) -> None:
    point = await pull_point(gateway)
    answer = await query(gateway, "count(/*/*)", point)
    assert answer.message.body[0].text == "2"
    answer = await query(gateway, "string(/*/n:FixedTopicSet)")
    assert answer.message.body[0].text == "false"


@pytest.mark.parametrize(
    ("text", "dialect", "fault"),
    [
        ("/a", "http://www.w3.org/TR/2005/xquery", "UnknownQueryExpressionDialectFault"),
        ("/a[", dialects.XPATH_1_0, "InvalidQueryExpressionFault"),
        ("/unknown:a", dialects.XPATH_1_0, "InvalidQueryExpressionFault"),
        ("document('file:///etc/passwd')", dialects.XPATH_1_0, "InvalidQueryExpressionFault"),
        ("(" * 99 + "1" + ")" * 99, dialects.XPATH_1_0, "InvalidQueryExpressionFault"),
        (
            "//*" + "[following::*[preceding::*" * 6 + "]]" * 6,
            dialects.XPATH_1_0,
            "QueryEvaluationErrorFault",
        ),
    ],
)
async def test_refused_queries(gateway: Running, text: str, dialect: str, fault: str) -> None:
    refused = await query(gateway, text, dialect=dialect)
    assert refused.fault.element == f"{{{RP}}}{fault}"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        pytest.param(
            "<r:SetResourceProperties {ns}><r:Update><n:FixedTopicSet>true</n:FixedTopicSet>"
            "</r:Update></r:SetResourceProperties>",
            "UnableToModifyResourcePropertyFault",
            id="a property that is read",
        ),
        pytest.param(
            "<r:InsertResourceProperties {ns}><r:Insert><n:Color/></r:Insert>"
            "</r:InsertResourceProperties>",
            "InvalidResourcePropertyQNameFault",
            id="one that is not there",
        ),
        pytest.param(
            '<r:DeleteResourceProperties {ns}><r:Delete ResourceProperty="n:FixedTopicSet"/>'
            "</r:DeleteResourceProperties>",
            "UnableToModifyResourcePropertyFault",
            id="deleted",
        ),
        pytest.param(
            "<r:UpdateResourceProperties {ns}/>", "InvalidModificationFault", id="nothing"
        ),
        pytest.param(
            "<r:PutResourcePropertyDocument {ns}><a/></r:PutResourcePropertyDocument>",
            "UnableToPutResourcePropertyDocumentFault",
            id="the document",
        ),
    ],
)
async def test_properties_are_not_written(gateway: Running, body: str, fault: str) -> None:
    asked = body.format(ns=f'xmlns:r="{RP}" xmlns:n="{WSNT}"')
    refused = await gateway.ask(SPEAKER, asked)
    assert refused.fault.element == f"{{{RP}}}{fault}"
    changed = refused.message.body[0].findall(f".//{{{RP}}}ResourcePropertyChangeFailure")
    named = fault == "InvalidResourcePropertyQNameFault"
    assert [each.get("Restored") for each in changed] == ([] if named else ["true"])
