"""What WS-Messenger's own tests do, as a client of WS-Eventing 2004/08 over SOAP 1.1 and
WS-Addressing 1.0 does it."""

import pytest
from lxml import etree

from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import (
    IBM,
    IBM_SIMPLE,
    S11,
    WSE,
    WSNT,
    Message,
    Speaker,
    canonical,
    message_content,
    wse_filter,
)
from tests.rigs.gateways import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")


GATEWAY = {"adapter": "embedded:"}
"""Settings of the module's gateway."""


MESSENGER = Speaker(S11)
WSE_PUBLISH = "http://org.apache.airavata/WseNotification"
COMBINED = "http://docs.oasis-open.org/wsn"


def messenger_subscribe(url: str, *, topic: str | None = None, xpath: str | None = None) -> str:
    """Its children come in the order Expires, Delivery, Filter."""
    if topic is None:
        filter_ = wse_filter(xpath or "", "http://www.w3.org/TR/1999/REC-xpath-19991116")
    elif xpath is None:
        filter_ = wse_filter(f"widget:{topic}", IBM_SIMPLE, 'xmlns:widget="http://widgets.com"')
    else:
        filter_ = wse_filter(
            f'<n:TopicExpression xmlns:n="{WSNT}" xmlns:widget="http://widgets.com" '
            f'Dialect="{IBM_SIMPLE}">widget:{topic}</n:TopicExpression>' + message_content(xpath),
            COMBINED,
        )
    return (
        f'<e:Subscribe xmlns:e="{WSE}"><e:Expires>259200000</e:Expires><e:Delivery><e:NotifyTo>'
        f"{MESSENGER.epr(url)}</e:NotifyTo></e:Delivery>{filter_}</e:Subscribe>"
    )


async def messenger_publish(run: Running, payload: str, topic: str | None) -> None:
    header = ""
    if topic is not None:
        header = (
            f'<wsnt:Topic xmlns:wsnt="{IBM}" xmlns:widget="http://widgets.com" '
            f'Dialect="{IBM_SIMPLE}">widget:{topic}</wsnt:Topic>'
        )
    answer = await run.ask(MESSENGER, payload, headers=header, action=WSE_PUBLISH)
    assert answer.status == 200, answer.body
    [response] = answer.message.body
    event = etree.QName(etree.fromstring(payload)).localname
    assert response.tag == f"{{{WSE}}}{event}Response"
    assert answer.message.wsa("Action") == f"{WSE}/{event}Response"
    assert response.get("trackId")


@pytest.mark.parametrize("topic", ["WseRoundTripTestTopic", "/WsntRoundTripTestTopic"])
async def test_messenger_round_trip(gateway: Running, consumer: Consumers, topic: str) -> None:
    url = consumer.fresh()
    answer = await gateway.ask(MESSENGER, messenger_subscribe(url, topic=topic))
    assert answer.status == 200
    [identifier] = answer.message.root.iter(f"{{{WSE}}}Identifier")
    expires = answer.message.text(f"{{{WSE}}}SubscribeResponse/{{{WSE}}}Expires")
    assert expires.endswith("Z")  # Milliseconds are answered with a dateTime.
    text = "<wsmg:plainTextWrapper xmlns:wsmg='http://org.apache.airavata/ws-messenger/wsmg/2011'>"
    await messenger_publish(gateway, f"{text}hi &lt;foo/&gt;</wsmg:plainTextWrapper>", topic)
    await messenger_publish(gateway, "<foo><bar>Test</bar></foo>", topic)
    first, second = await consumer.next(url), await consumer.next(url)
    assert first.payload.text == "hi <foo/>"
    assert canonical(second.payload) == b"<foo><bar>Test</bar></foo>"
    for received in (first, second):
        message: Message = received.message
        assert message.soap is S11 and message.wsa("Action") == WSE_PUBLISH
        header = message.header("Topic", IBM)
        assert header is not None
        assert (header.text, header.get("Dialect")) == (f"widget:{topic}", IBM_SIMPLE)
        assert header.nsmap["widget"] == "http://widgets.com"
    headers = f'<e:Identifier xmlns:e="{WSE}">{identifier.text}</e:Identifier>'
    octets = MESSENGER.envelope(
        f'<e:Unsubscribe xmlns:e="{WSE}"/>', action=f"{WSE}/Unsubscribe", headers=headers
    )
    assert (await gateway.post(octets)).status == 200
    await messenger_publish(gateway, "<foo/>", topic)
    await gateway.quiet()
    assert consumer.waiting(url) == 0


MATCHING, OTHER = "<c><b><a> 123 </a></b></c>", "<a><b><c> 123 </c></b></a>"


@pytest.mark.parametrize("topic", ["XpathAndTopicTestWse", None])
async def test_messenger_xpath(gateway: Running, consumer: Consumers, topic: str | None) -> None:
    url = consumer.fresh()
    await gateway.subscribe(MESSENGER, messenger_subscribe(url, topic=topic, xpath="/c/b/a"))
    for payload in (OTHER, MATCHING, OTHER):
        await messenger_publish(gateway, payload, topic)
    if topic is not None:
        await messenger_publish(gateway, MATCHING, "elsewhere")
    await gateway.quiet()
    received = await consumer.next(url)
    assert received.payload.tag == "c" and b"123" in canonical(received.payload)
    assert consumer.waiting(url) == 0


async def test_messenger_topic_only_and_filtered(gateway: Running, consumer: Consumers) -> None:
    all_, one = consumer.fresh(), consumer.fresh()
    await gateway.subscribe(MESSENGER, messenger_subscribe(all_, topic="both"))
    filtered = messenger_subscribe(one, topic="both", xpath="/c/b/a[text()=1]")
    await gateway.subscribe(MESSENGER, filtered)
    for number in (1, 2):
        await messenger_publish(gateway, f"<c><b><a>{number}</a></b></c>", "both")
    await gateway.quiet()
    assert (consumer.waiting(all_), consumer.waiting(one)) == (2, 1)


async def test_messenger_same_xpath_again(gateway: Running, consumer: Consumers) -> None:
    """The same text subscribed after everyone has left must match again."""
    for _ in range(2):
        url = consumer.fresh()
        path = await gateway.subscribe(MESSENGER, messenger_subscribe(url, xpath="/foo/bar"))
        await messenger_publish(gateway, "<foo><bar/></foo>", None)
        assert (await consumer.next(url)).payload.tag == "foo"
        answer = await gateway.ask(MESSENGER, f'<e:Unsubscribe xmlns:e="{WSE}"/>', path)
        assert answer.status == 200
