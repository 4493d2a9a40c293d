"""WS-Notification 1.2 and 1.0 at a gateway, over real sockets: a subscription from its beginning to
its end, in both versions of SOAP and each version of WS-Addressing that goes with a draft."""

from dataclasses import dataclass

import pytest
from lxml import etree

from mediation import names
from mediation.model.versions import Soap, Wsa
from tests.rigs.consumers import Consumers, Receipt
from tests.rigs.envelopes import S11, S12, Answer, Message, Speaker, canonical, notify
from tests.rigs.envelopes import notification_message as message_1_3
from tests.rigs.gateways import Running, manager_path

pytestmark = pytest.mark.asyncio(loop_scope="module")

GATEWAY = {"adapter": "embedded:"}
"""Settings of the module's gateway."""


@dataclass(frozen=True)
class Peer:
    """A peer that speaks a draft.

    Attributes:
        key: The name of the element in the reference of its subscriptions.
        wsrl: Of WS-ResourceLifetime.
        published: The status of the answer to Notify.
    """

    name: str
    speaker: Speaker
    wsnt: str
    actions: str
    subscribe: str
    simple: str
    key: str
    wsrp: str
    wsrl: str
    published: int

    def __str__(self) -> str:
        wsa = self.speaker.wsa
        return f"{self.name} {self.speaker.soap.name} {wsa.name if wsa else 'without'}"

    def element(self, name: str, inner: str = "") -> str:
        return f'<n:{name} xmlns:n="{self.wsnt}">{inner}</n:{name}>'

    def subscription(self, url: str, topic: str, more: str = "") -> str:
        reference = f'<k:Key xmlns:k="urn:k">{topic}</k:Key>'
        consumer = self.speaker.epr(url, self.speaker.parameters(reference))
        return self.element(
            self.subscribe,
            f"<n:ConsumerReference>{consumer}</n:ConsumerReference>"
            f'<n:TopicExpression Dialect="{self.simple}">{topic}</n:TopicExpression>{more}',
        )

    def notification(self, topic: str, payload: str) -> str:
        return self.element(
            "Notify",
            f'<n:NotificationMessage><n:Topic Dialect="{self.simple}">{topic}</n:Topic>'
            f"<n:Message>{payload}</n:Message></n:NotificationMessage>",
        )

    def wsa(self, message: Message, name: str) -> str | None:
        assert self.speaker.wsa is not None
        return message.wsa(name, self.speaker.wsa)


def peer(name: str, soap: Soap, wsa: Wsa) -> Peer:
    speaker = Speaker(soap, wsa)
    if name == "1.2":
        return Peer(
            name, speaker, names.WSN_2004_06, names.WSN_2004_06_ACTIONS, "Subscribe",
            "http://docs.oasis-open.org/wsn/2004/06/TopicExpression/Simple",
            f"{{{names.GLOBUS_CORE}}}SubscriptionKey", names.WSRF_RP_2004_06,
            names.WSRF_RL_2004_06, 202,
        )  # fmt: skip
    return Peer(
        name, speaker, names.WSN_IBM, f"{names.WSN_IBM}/", "SubscribeRequest",
        "http://www.ibm.com/xmlns/stdwip/web-services/WS-Topics/TopicExpression/simple",
        f"{{{names.WSN_IBM}}}Identifier", names.WSRF_RP_IBM, names.WSRF_RL_IBM, 200,
    )  # fmt: skip


PEERS = [
    peer(name, soap, wsa)
    for name, versions in (
        ("1.2", (Wsa.V2004_03, Wsa.V2003_03, Wsa.V2005_08)),
        ("1.0", (Wsa.V2005_08, Wsa.V2003_03)),
    )
    for soap in (S11, S12)
    for wsa in versions
]
EVERY = pytest.mark.parametrize("one", PEERS, ids=str)
TOPICS = iter(f"topic{number}" for number in range(10_000))


def payload(receipt: Receipt) -> etree._Element:
    """The payload in a Notify, whatever its version."""
    [found] = [
        element
        for element in receipt.message.root.iter(etree.Element)
        if etree.QName(element).localname == "Message"
    ]
    return found[0]


async def manage(gateway: Running, one: Peer, granted: Answer, body: str, action: str) -> Answer:
    """Ask the manager, at the gateway's one address, naming the subscription by its key alone."""
    [key] = granted.message.root.iter(one.key)
    octets = one.speaker.envelope(body, action=action, headers=etree.tostring(key).decode())
    return await gateway.post(octets, type=one.speaker.type)


@EVERY
async def test_a_subscription(gateway: Running, consumer: Consumers, one: Peer) -> None:
    topic, url = next(TOPICS), consumer.fresh()
    selector = "<n:Selector>/speed &gt; 100</n:Selector>"
    granted = await gateway.ask(one.speaker, one.subscription(url, topic, selector))
    assert granted.status == 200, granted.body
    answer = granted.message
    assert answer.soap is one.speaker.soap
    assert one.wsa(answer, "Action") == f"{one.actions}{one.subscribe}Response"
    assert answer.body[0].tag == f"{{{one.wsnt}}}SubscribeResponse"

    for speed in (90, 120):
        event = one.notification(topic, f"<speed>{speed}</speed>")
        published = await gateway.ask(one.speaker, event, action=f"{one.actions}Notify")
        assert published.status == one.published, published.body
    received = await consumer.next(url)
    message = received.message
    assert message.soap is one.speaker.soap
    assert one.wsa(message, "Action") == f"{one.actions}Notify"
    assert one.wsa(message, "To") == url
    assert message.header("Key", "urn:k") is not None
    assert message.body[0].tag == f"{{{one.wsnt}}}Notify"
    assert canonical(payload(received)) == b"<speed>120</speed>"

    lifetime = f'xmlns:l="{one.wsrl}"'
    time = "2026-12-31T00:00:00Z"
    at = f"<l:RequestedTerminationTime>{time}</l:RequestedTerminationTime>"
    renewed = await manage(
        gateway, one, granted, f"<l:SetTerminationTime {lifetime}>{at}</l:SetTerminationTime>", ""
    )
    assert renewed.status == 200, renewed.body
    [new] = renewed.message.root.iter(f"{{{one.wsrl}}}NewTerminationTime")
    assert new.text == time
    name = f'<p:GetResourceProperty xmlns:p="{one.wsrp}" {lifetime}>l:TerminationTime'
    asked = await manage(gateway, one, granted, f"{name}</p:GetResourceProperty>", "")
    [told] = asked.message.root.iter(f"{{{one.wsrl}}}TerminationTime")
    assert told.text == time

    for paused in ("Pause", "Resume"):
        done = await manage(gateway, one, granted, one.element(f"{paused}Subscription"), "")
        assert done.status == 200
        action = f"{one.actions}{paused}SubscriptionResponse"
        assert one.wsa(done.message, "Action") == action
    ended = await manage(gateway, one, granted, f"<l:Destroy {lifetime}/>", "")
    assert ended.message.body[0].tag == f"{{{one.wsrl}}}DestroyResponse"
    gone = await manage(gateway, one, granted, f"<l:Destroy {lifetime}/>", "")
    assert gone.fault.element == f"{{{one.wsrl}}}ResourceUnknownFault"
    assert one.speaker.wsa is not None
    wsa = one.speaker.wsa
    addressing = names.WSA_SOAP_FAULT if wsa is Wsa.V2005_08 else wsa.fault_action
    assert one.wsa(gone.message, "Action") == addressing
    await gateway.quiet()
    assert consumer.waiting(url) == 0


@EVERY
async def test_raw(gateway: Running, consumer: Consumers, one: Peer) -> None:
    topic, url = next(TOPICS), consumer.fresh()
    body = one.subscription(url, topic, "<n:UseNotify>false</n:UseNotify>")
    await gateway.subscribe(one.speaker, body)
    await gateway.ask(one.speaker, one.notification(topic, "<speed>1</speed>"))
    received = await consumer.next(url)
    assert [canonical(each) for each in received.message.body] == [b"<speed>1</speed>"]
    assert one.wsa(received.message, "Action") == f"{one.actions}Notify"


@EVERY
async def test_what_others_publish(gateway: Running, consumer: Consumers, one: Peer) -> None:
    """1.3 and WS-Eventing to a draft, and the other way round."""
    topic, url, modern = next(TOPICS), consumer.fresh(), consumer.fresh()
    await gateway.subscribe(one.speaker, one.subscription(url, topic))
    speaker = Speaker()
    expression = f"<n:TopicExpression xmlns:n='http://docs.oasis-open.org/wsn/b-2'>{topic}"
    body = speaker.wsn_subscribe(modern, filter=f"{expression}</n:TopicExpression>")
    await gateway.subscribe(speaker, body)
    await gateway.publish(notify(message_1_3("<speed>2</speed>", topic)))
    await gateway.publish("<speed>3</speed>", path=f"/soap/topic/{topic}")
    await gateway.ask(one.speaker, one.notification(topic, "<speed>4</speed>"))
    for speed in (2, 3, 4):
        for address in (url, modern):
            received = await consumer.next(address)
            assert canonical(payload(received)) == f"<speed>{speed}</speed>".encode()
        assert not list(received.message.root.iter("{*}data"))
    await gateway.quiet()


@EVERY
async def test_text_is_wrapped_for_consumers_of_1_3(
    gateway: Running, consumer: Consumers, one: Peer
) -> None:
    topic, url = next(TOPICS), consumer.fresh()
    speaker = Speaker()
    expression = f"<n:TopicExpression xmlns:n='http://docs.oasis-open.org/wsn/b-2'>{topic}"
    body = speaker.wsn_subscribe(url, filter=f"{expression}</n:TopicExpression>")
    await gateway.subscribe(speaker, body)
    await gateway.ask(one.speaker, one.notification(topic, "sold &amp; gone"))
    await gateway.ask(one.speaker, one.notification(topic, "<a/><b/>"))
    text, both = payload(await consumer.next(url)), payload(await consumer.next(url))
    assert (text.tag, text.text) == (f"{{{names.MESSENGER_TEXT}}}plainTextWrapper", "sold & gone")
    assert (both.tag, [each.tag for each in both]) == ("{urn:dragoman:data:1}data", ["a", "b"])


@EVERY
async def test_the_current_message(gateway: Running, one: Peer) -> None:
    topic = next(TOPICS)
    asked = f'<n:Topic Dialect="{one.simple}">{topic}</n:Topic>'
    none = await gateway.ask(one.speaker, one.element("GetCurrentMessage", asked))
    assert none.fault.element == f"{{{one.wsnt}}}NoCurrentMessageOnTopicFault"
    await gateway.ask(one.speaker, one.notification(topic, "<speed>5</speed>"))
    answer = await gateway.ask(one.speaker, one.element("GetCurrentMessage", asked))
    [response] = answer.message.body
    assert response.tag == f"{{{one.wsnt}}}GetCurrentMessageResponse"
    assert canonical(response[0]) == b"<speed>5</speed>"


@EVERY
async def test_faults_of_subscribe(gateway: Running, consumer: Consumers, one: Peer) -> None:
    past = "<n:InitialTerminationTime>2003-12-25T00:00:00Z</n:InitialTerminationTime>"
    rows = [
        (past, "SubscribeCreationFailedFault"),
        ("<n:Selector>///</n:Selector>", "SubscribeCreationFailedFault"),
        ('<n:Selector Dialect="urn:odd">a</n:Selector>', "SubscribeCreationFailedFault"),
        ("<n:Precondition>/a[</n:Precondition>", "SubscribeCreationFailedFault"),
        ('<n:Precondition Dialect="urn:odd">a</n:Precondition>', "SubscribeCreationFailedFault"),
        ("<n:UseNotify>perhaps</n:UseNotify>", "SubscribeCreationFailedFault"),
    ]
    for more, fault in rows:
        answer = await gateway.ask(
            one.speaker, one.subscription(consumer.fresh(), next(TOPICS), more)
        )
        assert answer.status == (500 if one.speaker.soap is S11 else 400)
        assert answer.fault.element == f"{{{one.wsnt}}}{fault}", more
    odd = one.subscription(consumer.fresh(), "a").replace(one.simple, "urn:odd")
    answer = await gateway.ask(one.speaker, odd)
    assert answer.fault.element == f"{{{one.wsnt}}}TopicPathDialectUnknownFault"


async def test_the_producer_has_properties_in_either_draft(gateway: Running) -> None:
    for one in (PEERS[0], PEERS[-1]):
        topic = next(TOPICS)
        await gateway.ask(one.speaker, one.notification(topic, "<speed>6</speed>"))
        names_ = "".join(
            f"<p:ResourceProperty>n:{name}</p:ResourceProperty>"
            for name in ("Topic", "FixedTopicSet", "TopicExpressionDialects")
        )
        body = (
            f'<p:GetMultipleResourceProperties xmlns:p="{one.wsrp}" xmlns:n="{one.wsnt}">{names_}'
            "</p:GetMultipleResourceProperties>"
        )
        answer = await gateway.ask(one.speaker, body)
        [response] = answer.message.body
        topics = [(each.text or "") for each in response.iter(f"{{{one.wsnt}}}Topic")]
        assert any(each.rpartition(":")[2] == topic for each in topics)
        offered = {each.text for each in response.iter(f"{{{one.wsnt}}}TopicExpressionDialects")}
        assert one.simple in offered
        named = await gateway.ask(one.speaker, body.replace("FixedTopicSet", "Nothing"))
        fault = f"{{{one.wsrp}}}InvalidResourcePropertyQNameFault"
        assert named.fault.element == fault


async def test_messenger_ends_its_subscription_with_its_own_request(
    gateway: Running, consumer: Consumers
) -> None:
    one = peer("1.0", S11, Wsa.V2005_08)
    granted = await gateway.ask(one.speaker, one.subscription(consumer.fresh(), next(TOPICS)))
    assert manager_path(granted.message).startswith("/subscriptions/")
    action = f"{one.wsnt}/UnsubsribeRequest"
    done = await manage(gateway, one, granted, one.element("UnsubsribeRequest"), action)
    assert (done.status, done.message.body) == (200, [])
    assert one.wsa(done.message, "Action") == f"{one.wsnt}/UnsubscribeResponse"
    gone = await manage(gateway, one, granted, one.element("UnsubsribeRequest"), action)
    assert gone.fault.element == f"{{{one.wsnt}}}ResourceUnknownFault"
