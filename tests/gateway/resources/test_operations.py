"""What WSRF asks of any resource, on real sockets: subscriptions, pull points, the producer."""

import pytest
from lxml import etree

from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running

RP = "http://docs.oasis-open.org/wsrf/rp-2"
RL = "http://docs.oasis-open.org/wsrf/rl-2"
R = "http://docs.oasis-open.org/wsrf/r-2"
WSNT = "http://docs.oasis-open.org/wsn/b-2"
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
