"""zeep: typed clients, made of nothing but the descriptions that the gateway gives of itself."""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from zeep import Client, Plugin
from zeep.exceptions import Fault

from filters import dialects
from mediation.model.versions import Soap
from mediation.names import WSMAN_EVENTS, WSN_2004_06
from tests.conftest import ROOT
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import CONCRETE, RP, WSE, WSE11, WSNT
from tests.rigs.gateways import Running
from tests.rigs.waiting import DEADLINE

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVENT = '<w:storm xmlns:w="urn:weather"><w:speed>120</w:speed></w:storm>'
WSA04 = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
SOAPS = pytest.mark.parametrize("soap", ["Soap11", "Soap12"])


class Typed:
    """A client of one service, whose calls run beside the event loop."""

    def __init__(self, run: Running, client: Any, service: str, soap: str) -> None:
        self._run, self._client, self._service, self._soap = run, client, service, soap

    @classmethod
    async def of(cls, run: Running, query: str, service: str, soap: str) -> "Typed":
        client = await asyncio.to_thread(Client, f"{run.url}/soap?{query}")
        return cls(run, client, service, soap)

    async def ask(
        self,
        port: str,
        operation: str,
        at: str = "",
        headers: Any = None,
        alone: str | None = None,
        **arguments: Any,
    ) -> Any:
        """*at*: the address that a reference named; *alone*: the text that the request is."""
        service = self._client.bind(self._service, port + self._soap)
        if at:
            binding = f"{{urn:dragoman:wsdl:1}}{port}{self._soap}"
            service = self._client.create_service(binding, at)
        if headers is not None:
            arguments["_soapheaders"] = headers
        texts = () if alone is None else (alone,)
        return await asyncio.to_thread(lambda: service[operation](*texts, **arguments))


@SOAPS
@pytest.mark.parametrize("query", ["wsdl", "wsdl=wsn"])
async def test_ws_notification(
    gateway: Running, consumer: Consumers, soap: str, query: str
) -> None:
    wsn = await Typed.of(gateway, query, "WSNotification", soap)
    url, topic = consumer.fresh(), f"storms{soap}{len(query)}"
    expression = etree.fromstring(
        f'<n:TopicExpression xmlns:n="{WSNT}" Dialect="{CONCRETE}">{topic}</n:TopicExpression>'
    )
    subscribed = await wsn.ask(
        "NotificationProducer",
        "Subscribe",
        ConsumerReference={"Address": url},
        Filter={"_value_1": [expression]},
        InitialTerminationTime="PT1H",
    )
    left = subscribed.TerminationTime - subscribed.CurrentTime
    assert left == timedelta(hours=1)
    manager = subscribed.SubscriptionReference.Address._value_1
    assert manager.startswith(f"{gateway.url}/subscriptions/")

    message = etree.fromstring(EVENT)
    # zeep writes no text into an element that may hold others, so it can name no topic.
    sent = [{"Message": {"_value_1": message}}]
    await wsn.ask("NotificationConsumer", "Notify", NotificationMessage=sent)
    await gateway.publish(EVENT, path=f"/soap/topic/{topic}")
    received = (await consumer.next(url)).message
    assert received.soap is (Soap.V1_1 if soap == "Soap11" else Soap.V1_2)
    assert b"<w:speed>120</w:speed>" in received.octets

    renewed = await wsn.ask("PausableSubscriptionManager", "Renew", manager, TerminationTime="PT2H")
    assert renewed.TerminationTime - renewed.CurrentTime == timedelta(hours=2)
    status = await wsn.ask(
        "ResourceLifetime",
        "SetTerminationTime",
        manager,
        RequestedTerminationTime=datetime.now(UTC) + timedelta(hours=3),
    )
    assert status.NewTerminationTime > renewed.TerminationTime
    await wsn.ask("PausableSubscriptionManager", "PauseSubscription", manager)
    await wsn.ask("PausableSubscriptionManager", "ResumeSubscription", manager)
    await wsn.ask("PausableSubscriptionManager", "Unsubscribe", manager)
    with pytest.raises(Fault) as fault:
        await wsn.ask("PausableSubscriptionManager", "Unsubscribe", manager)
    assert b"ResourceUnknownFault" in etree.tostring(fault.value.detail)


@SOAPS
async def test_the_draft_of_ws_notification(
    gateway: Running, consumer: Consumers, soap: str
) -> None:
    """1.2, whose references are of WS-Addressing 2003/03; of its topic zeep writes no text."""
    wsn = await Typed.of(gateway, "wsdl=wsn12", "WSNotification12", soap)
    url, until = consumer.fresh(), datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    subscribed = await wsn.ask(
        "NotificationProducer12",
        "Subscribe",
        ConsumerReference={"Address": url},
        TopicExpression={"_value_1": None},
        InitialTerminationTime=until,
    )
    # The response has one element, which zeep returns itself.
    manager = subscribed.Address._value_1
    assert manager.startswith(f"{gateway.url}/subscriptions/")
    await gateway.publish(EVENT)
    received = (await consumer.next(url)).message
    assert received.body[0].tag == f"{{{WSN_2004_06}}}Notify"
    assert b"<w:speed>120</w:speed>" in received.octets
    moved = await wsn.ask(
        "ResourceLifetime12",
        "SetTerminationTime",
        manager,
        RequestedTerminationTime=until + timedelta(hours=1),
    )
    assert moved.NewTerminationTime == until + timedelta(hours=1)
    for operation in ("PauseSubscription", "ResumeSubscription"):
        await wsn.ask("SubscriptionManager12", operation, manager)
    await wsn.ask("ResourceLifetime12", "Destroy", manager)
    with pytest.raises(Fault) as fault:
        await wsn.ask("ResourceLifetime12", "Destroy", manager)
    assert b"ResourceUnknownFault" in etree.tostring(fault.value.detail)


@SOAPS
async def test_management(gateway: Running, consumer: Consumers, soap: str) -> None:
    management = await Typed.of(gateway, "wsdl=management", "SubscriptionManagement", soap)
    wsn = await Typed.of(gateway, "wsdl=wsn", "WSNotification", soap)
    url, port = consumer.fresh(), "SubscriptionManagement"
    await wsn.ask("NotificationProducer", "Subscribe", ConsumerReference={"Address": url})
    listed = await management.ask(
        port, "ListSubscriptions", Selection={"Consumer": url}, MaximumNumber=5
    )
    [one] = listed.Subscription
    assert (one.Consumer, one.Specification, one.State) == (url, "wsn-1.3", "active")
    deleted = await management.ask(port, "DeleteSubscriptions", Id=[one.Id], dryRun=True)
    assert (deleted.Number, deleted.Id) == (1, [one.Id])
    deleted = await management.ask(port, "DeleteSubscriptions", Selection={"Consumer": url})
    assert deleted.Number == 1
    assert (await management.ask(port, "DeleteSubscriptions", Id=[one.Id])).Number == 0


class QueryText(Plugin):
    """Writes the text of a QueryExpression: zeep writes none into an element that may hold
    others."""

    def __init__(self, text: str) -> None:
        self._text = text

    def egress(self, envelope: Any, http_headers: Any, operation: Any, options: Any) -> Any:
        [expression] = envelope.iter(f"{{{RP}}}QueryExpression")
        expression.text = self._text
        return envelope, http_headers


@SOAPS
async def test_queries_of_resource_properties(gateway: Running, soap: str) -> None:
    query = QueryText("//*[local-name() = 'FixedTopicSet']")
    url = f"{gateway.url}/soap?wsdl=wsn"
    client = await asyncio.to_thread(Client, url, plugins=[query])
    wsn = Typed(gateway, client, "WSNotification", soap)
    found = await wsn.ask(
        "ResourceProperties",
        "QueryResourceProperties",
        QueryExpression={"Dialect": dialects.XPATH_1_0},
    )
    assert found == [False]


@SOAPS
async def test_pull_points(gateway: Running, soap: str) -> None:
    wsn = await Typed.of(gateway, "wsdl=wsn", "WSNotification", soap)
    made = await wsn.ask("CreatePullPoint", "CreatePullPoint")
    box = made.PullPoint.Address._value_1
    await wsn.ask(
        "NotificationProducer",
        "Subscribe",
        ConsumerReference={"Address": box},
        InitialTerminationTime="PT1H",
    )
    await gateway.publish(EVENT)
    await gateway.quiet()
    messages = (await wsn.ask("PullPoint", "GetMessages", box, MaximumNumber=5)).NotificationMessage
    assert [one.Message._value_1.tag for one in messages] == ["{urn:weather}storm"]
    await wsn.ask("PullPoint", "DestroyPullPoint", box)
    with pytest.raises(Fault):
        await wsn.ask("PullPoint", "GetMessages", box, MaximumNumber=5)


@SOAPS
@pytest.mark.parametrize("query", ["wsdl", "wsdl=wse"])
async def test_ws_eventing(gateway: Running, consumer: Consumers, soap: str, query: str) -> None:
    wse = await Typed.of(gateway, query, "WSEventing", soap)
    url = consumer.fresh()
    notify_to = etree.fromstring(
        f'<e:NotifyTo xmlns:e="{WSE}" xmlns:a="{WSA04}"><a:Address>{url}</a:Address></e:NotifyTo>'
    )
    delivery = {"_value_1": [notify_to]}
    subscribed = await wse.ask("EventSource", "Subscribe", Delivery=delivery, Expires="PT1H")
    assert subscribed.Expires == "PT1H"
    reference = subscribed.SubscriptionManager
    manager = reference.Address._value_1
    await gateway.publish(EVENT)
    assert (await consumer.next(url)).payload.tag == "{urn:weather}storm"
    [key] = reference.ReferenceParameters._value_1
    echoed = etree.Element(f"{{{WSE}}}Identifier")
    echoed.text = key
    assert manager.endswith(key.removeprefix("urn:uuid:"))
    manage = "EventSubscriptionManager"
    renewed = await wse.ask(manage, "Renew", manager, [echoed], Expires="PT2H")
    assert renewed.Expires == "PT2H"
    status = await wse.ask(manage, "GetStatus", manager, [echoed])
    assert status.Expires.startswith(("PT2H", "PT1H5"))
    await wse.ask(manage, "Unsubscribe", manager, [echoed])
    with pytest.raises(Fault):
        await wse.ask(manage, "GetStatus", manager, [echoed])


@SOAPS
@pytest.mark.parametrize("query", ["wsdl", "wsdl=wse11"])
async def test_ws_eventing_2011(
    gateway: Running, consumer: Consumers, soap: str, query: str
) -> None:
    wse = await Typed.of(gateway, query, "WSEventing2011", soap)
    url = consumer.fresh()
    subscribed = await wse.ask(
        "EventSource2011",
        "Subscribe",
        Delivery={"NotifyTo": {"Address": url}},
        Format={"Name": f"{WSE11}/DeliveryFormats/Wrap"},
        Expires={"_value_1": "PT1H", "BestEffort": True},
    )
    assert subscribed.GrantedExpires._value_1 == "PT1H"
    manager = subscribed.SubscriptionManager.Address._value_1
    sent = [etree.fromstring(EVENT)]
    await wse.ask("WrappedSinkPortType", "Notify", _value_1=sent, actionURI="urn:weather:storm")
    received = await consumer.next(url)
    assert received.payload.tag == "{urn:weather}storm"
    assert received.message.body[0].get("actionURI") == "urn:weather:storm"
    manage = "EventSubscriptionManager2011"
    renewed = await wse.ask(manage, "Renew", manager, Expires={"_value_1": "PT2H"})
    assert renewed.GrantedExpires._value_1 == "PT2H"
    status = await wse.ask(manage, "GetStatus", manager)
    assert status.GrantedExpires._value_1.startswith(("PT2H", "PT1H5"))
    await wse.ask(manage, "Unsubscribe", manager)
    with pytest.raises(Fault) as fault:
        await wse.ask(manage, "GetStatus", manager)
    assert "subscription is not known" in fault.value.message


@SOAPS
async def test_onvif(gateway: Running, soap: str) -> None:
    onvif = await Typed.of(gateway, "wsdl=onvif", "ONVIFEvents", soap)
    capabilities = await onvif.ask("EventPortType", "GetServiceCapabilities")
    assert capabilities.WSSubscriptionPolicySupport is True
    assert (await onvif.ask("EventPortType", "GetEventProperties")).FixedTopicSet is False
    made = await onvif.ask(
        "EventPortType", "CreatePullPointSubscription", InitialTerminationTime="PT10M"
    )
    address = made.SubscriptionReference.Address._value_1
    await gateway.publish(EVENT)
    pulled = await onvif.ask(
        "PullPointSubscription",
        "PullMessages",
        address,
        Timeout=timedelta(seconds=5),
        MessageLimit=10,
    )
    assert [one.Message._value_1.tag for one in pulled.NotificationMessage] == [
        "{urn:weather}storm"
    ]
    await onvif.ask("PullPointSubscription", "SetSynchronizationPoint", address)
    renewed = await onvif.ask(
        "PausableSubscriptionManager", "Renew", address, TerminationTime="PT20M"
    )
    assert renewed.TerminationTime - renewed.CurrentTime == timedelta(minutes=20)
    await onvif.ask("PausableSubscriptionManager", "Unsubscribe", address)


async def test_the_program_of_the_guide(gateway: Running, tmp_path: Path) -> None:
    [program] = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/clients.md").read_text(), re.DOTALL
    )
    (tmp_path / "program.py").write_text(
        program.replace("127.0.0.1:8080", f"127.0.0.1:{gateway.port}")
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(tmp_path / "program.py"), stdout=PIPE, stderr=PIPE
    )
    async with asyncio.timeout(3 * DEADLINE):
        out, err = await process.communicate()
    assert (process.returncode, out) == (0, b"1:00:00\n"), err.decode()


async def of_messenger(run: Running, service: str, soap: str) -> Typed:
    client = await asyncio.to_thread(Client, f"{run.url}/axis2/services/{service}?wsdl")
    return Typed(run, client, service, soap)


@SOAPS
async def test_the_eventing_service_of_messenger(
    gateway: Running, consumer: Consumers, soap: str
) -> None:
    service = await of_messenger(gateway, "EventingService", soap)
    url = consumer.fresh()
    subscribed = await service.ask(
        "EventSource",
        "Subscribe",
        Expires="3600000",
        Delivery={"NotifyTo": {"Address": url}},
    )
    [identifier] = subscribed.SubscriptionManager.ReferenceParameters._value_1
    named = {"Identifier": identifier}  # The schema knows the element: zeep gives its text.
    assert await service.ask("EventingService", "plainTextWrapper", alone="hi <there>")
    assert (await consumer.next(url)).payload.text == "hi <there>"
    renewed = await service.ask(
        "EventSubscriptionManager", "Renew", headers=named, Expires="7200000"
    )
    assert renewed is not None
    assert await service.ask("EventSubscriptionManager", "GetStatus", headers=named) is not None
    await service.ask("EventSubscriptionManager", "Unsubscribe", headers=named)
    with pytest.raises(Fault) as fault:
        await service.ask("EventSubscriptionManager", "Unsubscribe", headers=named)
    assert fault.value.message.startswith(f"unknown subscription: {identifier}")


@SOAPS
async def test_the_notification_service_of_messenger(
    gateway: Running, consumer: Consumers, soap: str
) -> None:
    service = await of_messenger(gateway, "NotificationService", soap)
    port, url = "NotificationService", consumer.fresh()
    topic = {"_value_1": f"w:typed{soap}", "Dialect": dialects.TOPIC_IBM_SIMPLE}
    reference = await service.ask(
        port, "SubscribeRequest", TopicExpression=topic, ConsumerReference={"Address": url}
    )
    [identifier] = reference.ReferenceParameters._value_1
    named = {"Identifier": identifier}  # The schema knows the element: zeep gives its text.
    message = {"Topic": topic, "Message": {"_value_1": etree.fromstring(EVENT)}}
    assert await service.ask(port, "Notify", NotificationMessage=[message])
    assert b"<w:speed>120</w:speed>" in (await consumer.next(url)).message.octets
    for operation in ("PauseSubsriptionRequest", "ResumeSubsriptionRequest", "UnsubsribeRequest"):
        await service.ask(port, operation, headers=named)
    with pytest.raises(Fault):
        await service.ask(port, "UnsubsribeRequest", headers=named)


@SOAPS
async def test_a_message_box_of_messenger(gateway: Running, soap: str) -> None:
    service = await of_messenger(gateway, "MsgBoxService", soap)
    port = "MsgBoxService"
    key = await service.ask(port, "createMsgBox")
    box = f"{gateway.url}/axis2/services/MsgBoxService/clientid/{key}"
    wse = await Typed.of(gateway, "wsdl=wse", "WSEventing", soap)
    notify_to = etree.fromstring(
        f'<e:NotifyTo xmlns:e="{WSE}" xmlns:a="{WSA04}"><a:Address>{box}</a:Address></e:NotifyTo>'
    )
    await wse.ask("EventSource", "Subscribe", Delivery={"_value_1": [notify_to]})
    await gateway.publish(EVENT)
    await gateway.quiet()
    taken = await service.ask(port, "takeMessages", box)
    [message] = taken
    assert etree.tostring(message).startswith(b"<w:storm")
    assert await service.ask(port, "destroyMsgBox", box) is True


@SOAPS
async def test_ws_management(gateway: Running, consumer: Consumers, soap: str) -> None:
    """The header blocks of its clients, and a delivery in a batch."""
    service = await Typed.of(gateway, "wsdl=wsman", "WSManagement", soap)
    url = consumer.fresh()
    notify_to = etree.fromstring(
        f'<e:NotifyTo xmlns:e="{WSE}" xmlns:a="{WSA04}"><a:Address>{url}</a:Address></e:NotifyTo>'
    )
    blocks = {"ResourceURI": "urn:dragoman:events", "OperationTimeout": timedelta(seconds=30)}
    subscribed = await service.ask(
        "EventSourceManaged",
        "Subscribe",
        headers=blocks,
        Delivery={"_value_1": [notify_to], "Mode": WSMAN_EVENTS},
    )
    await gateway.publish(EVENT)
    assert b"<w:speed>120</w:speed>" in (await consumer.next(url)).message.octets
    manager = subscribed.SubscriptionManager
    await service.ask(
        "EventSubscriptionManagerManaged", "Unsubscribe", manager.Address._value_1, headers=blocks
    )
