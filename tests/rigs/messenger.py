"""WS-Messenger's own Java clients (Apache Airavata 0.11), octet by octet: Axis2's requests over
HTTP/1.1, three addressing headers written by hand, expirations in milliseconds.

`WseClient` is its ``WseMsgBrokerClient``, `WsntClient` its ``WsntMsgBrokerClient``. They read of an
answer what those read: where one would throw, these fail.
"""

from dataclasses import dataclass
from typing import ClassVar
from xml.sax.saxutils import escape

from lxml import etree

from tests.rigs.envelopes import IBM, IBM_SIMPLE, S11, WSA10, WSE, XPATH, Answer, children, fresh_id
from tests.rigs.gateways import Running, exchange

EVENTING = "/axis2/services/EventingService"
NOTIFICATION = "/axis2/services/NotificationService"
WSE_PUBLISH = "http://org.apache.airavata/WseNotification"
COMBINED = "http://docs.oasis-open.org/wsn"
LIFETIME = "259200000"
"""72 hours, the default of the clients."""
_WIDGET = 'xmlns:widget="http://widgets.com"'


def http_post(
    port: int,
    path: str,
    envelope: bytes,
    action: str | None,
    *,
    version: str = "1.1",
    chunked: bool = False,
    quoted: bool = True,
    content_type: str = "text/xml; charset=UTF-8",
) -> bytes:
    """A request as Axis2 1.5 writes it."""
    lines = [f"POST {path} HTTP/{version}", f"Content-Type: {content_type}"]
    if action is not None:
        lines.append(f'SOAPAction: "{action}"' if quoted else f"SOAPAction: {action}")
    lines += ["User-Agent: Axis2", f"Host: 127.0.0.1:{port}"]
    if chunked:
        half = len(envelope) // 2
        body = b"".join(
            b"%x\r\n%s\r\n" % (len(part), part) for part in (envelope[:half], envelope[half:])
        )
        lines.append("Transfer-Encoding: chunked")
        envelope = body + b"0\r\n\r\n"
    else:
        lines.append(f"Content-Length: {len(envelope)}")
    return "\r\n".join([*lines, "", ""]).encode() + envelope


def by_hand(action: str, to: str, more: str = "") -> str:
    """The addressing headers that the high-level clients write."""
    return (
        f"<wsa:Action>{action}</wsa:Action><wsa:MessageID>{fresh_id()}</wsa:MessageID>"
        f"<wsa:To>{to}</wsa:To>{more}"
    )


def by_module(action: str, to: str, more: str = "") -> str:
    """Those of Axis2's addressing module."""
    return (
        f"<wsa:To>{to}</wsa:To><wsa:ReplyTo><wsa:Address>{WSA10}/anonymous</wsa:Address>"
        f"</wsa:ReplyTo><wsa:MessageID>{fresh_id()}</wsa:MessageID><wsa:Action>{action}</wsa:Action>"
        f"{more}"
    )


def enveloped(body: str, headers: str = "") -> bytes:
    header = f"<soapenv:Header>{headers}</soapenv:Header>" if headers else ""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="{S11.value}" '
        f'xmlns:wsa="{WSA10}">{header}<soapenv:Body>{body}</soapenv:Body></soapenv:Envelope>'
    ).encode()


def topic_header(topic: str) -> str:
    return (
        f'<wsnt:Topic xmlns:wsnt="{IBM}" {_WIDGET} Dialect="{IBM_SIMPLE}">widget:{topic}'
        "</wsnt:Topic>"
    )


def plain_text(text: str) -> str:
    """What ``publish(topic, string)`` makes of a text."""
    namespace = "http://org.apache.airavata/ws-messenger/wsmg/2011"
    return f'<wsmg:plainTextWrapper xmlns:wsmg="{namespace}">{escape(text)}</wsmg:plainTextWrapper>'


@dataclass
class Client:
    """What both clients share."""

    run: Running
    path: str = ""
    modules: bool = False
    """Whether Axis2's addressing module is loaded."""

    namespace: ClassVar[str]
    at: ClassVar[str]

    @property
    def url(self) -> str:
        return f"{self.run.url}{self.path or self.at}"

    async def call(
        self, action: str, body: str, headers: str = "", *, path: str = "", chunked: bool = False
    ) -> Answer:
        """Send a request, and read the answer as a client that waits for a response does."""
        where = path or self.path or self.at
        written = (by_module if self.modules else by_hand)(
            action, f"{self.run.url}{where}", headers
        )
        octets = http_post(self.run.port, where, enveloped(body, written), action, chunked=chunked)
        return await exchange(self.run.port, octets)

    async def ask(
        self, action: str, body: str, headers: str = "", *, path: str = "", chunked: bool = False
    ) -> Answer:
        """As `call`; anything but 200 with an envelope makes the client throw."""
        answer = await self.call(action, body, headers, path=path, chunked=chunked)
        assert answer.status == 200, answer.body
        assert answer.type.startswith("text/xml")
        assert answer.message.soap is S11
        assert b">\n" not in answer.body and b"> " not in answer.body
        return answer

    def identifier_header(self, identifier: str) -> str:
        return f'<p:Identifier xmlns:p="{self.namespace}">{identifier}</p:Identifier>'

    def read_identifier(self, reference: etree._Element | None) -> str:
        """The text of ``Identifier`` among the reference parameters: all that the clients read."""
        assert reference is not None
        assert reference.find(f"{{{WSA10}}}Address") is not None
        for name in ("ReferenceProperties", "ReferenceParameters"):
            found = reference.find(f"{{{WSA10}}}{name}/{{{self.namespace}}}Identifier")
            if found is not None and found.text:
                return str(found.text)
        raise AssertionError("no Identifier")


class WseClient(Client):
    """``WseMsgBrokerClient``."""

    namespace = WSE
    at = EVENTING

    @staticmethod
    def subscribe_body(
        consumer: str,
        topic: str | None = None,
        xpath: str | None = None,
        expires: str | None = LIFETIME,
        inner: str = "",
    ) -> str:
        """Subscribe; its children come in the order Expires, Delivery, Filter."""
        if topic is not None and xpath is not None:
            dialect, scope = COMBINED, ""
            text = (
                f'<wsnt:TopicExpression xmlns:wsnt="{IBM}" {_WIDGET} Dialect="{IBM_SIMPLE}">'
                f"widget:{topic}</wsnt:TopicExpression>"
                f'<wsnt:MessageContent xmlns:wsnt="{IBM}" Dialect="{XPATH}">{escape(xpath)}'
                "</wsnt:MessageContent>"
            )
        elif topic is not None:
            dialect, text, scope = IBM_SIMPLE, f"widget:{topic}", _WIDGET
        else:
            dialect, text, scope = XPATH, escape(xpath or ""), ""
        lifetime = "" if expires is None else f"<wse:Expires>{expires}</wse:Expires>"
        return (
            f'<wse:Subscribe xmlns:wse="{WSE}">{lifetime}<wse:Delivery><NotifyTo xmlns="{WSE}">'
            f"<wsa:Address>{consumer}</wsa:Address>{inner}</NotifyTo></wse:Delivery>"
            f'<wse:Filter {scope} Dialect="{dialect}">{text}</wse:Filter></wse:Subscribe>'
        )

    async def subscribe(
        self,
        consumer: str,
        topic: str | None = None,
        xpath: str | None = None,
        expires: str | None = LIFETIME,
        path: str = "",
    ) -> str:
        """Subscribe; the identifier."""
        body = self.subscribe_body(consumer, topic, xpath, expires)
        answer = await self.ask(f"{WSE}/Subscribe", body, path=path)
        [response] = answer.message.body
        return self.read_identifier(response.find(f"{{{WSE}}}SubscriptionManager"))

    async def manage(self, name: str, identifier: str, inner: str = "") -> Answer:
        """Unsubscribe, Renew or GetStatus, at the broker's address."""
        body = f'<wse:{name} xmlns:wse="{WSE}">{inner}</wse:{name}>'
        return await self.call(f"{WSE}/{name}", body, self.identifier_header(identifier))

    async def unsubscribe(self, identifier: str) -> None:
        answer = await self.manage("Unsubscribe", identifier)
        assert (answer.status, answer.message.body) == (200, []), answer.body

    async def publish(
        self, topic: str | None, event: str, *, action: str = WSE_PUBLISH, path: str = "",
        chunked: bool = False,
    ) -> str:  # fmt: skip
        """Publish; the track id."""
        header = "" if topic is None else topic_header(topic)
        answer = await self.ask(action, event, header, path=path, chunked=chunked)
        [response] = answer.message.body
        name = etree.QName(etree.fromstring(event)).localname
        assert response.tag == f"{{{WSE}}}{name}Response" and not children(response)
        return str(response.attrib["trackId"])


class WsntClient(Client):
    """``WsntMsgBrokerClient``, and the low-level stubs below it."""

    namespace = IBM
    at = NOTIFICATION

    @staticmethod
    def subscribe_body(
        consumer: str,
        topic: str | None = None,
        xpath: str | None = None,
        use_notify: str | None = "true",
        name: str = "SubscribeRequest",
        more: str = "",
    ) -> str:
        """``SubscribeRequest``: the Dialect of its topic is qualified, that of its Selector not."""
        topics = selector = notify = ""
        if topic is not None:
            topics = (
                f'<wsnt:TopicExpression {_WIDGET} wsnt:Dialect="{IBM_SIMPLE}">widget:{topic}'
                "</wsnt:TopicExpression>"
            )
        if xpath is not None:
            selector = f'<wsnt:Selector Dialect="{XPATH}">{escape(xpath)}</wsnt:Selector>'
        if use_notify is not None:
            notify = f"<wsnt:UseNotify>{use_notify}</wsnt:UseNotify>"
        return (
            f'<wsnt:{name} xmlns:wsnt="{IBM}">{topics}{selector}{notify}<wsnt:ConsumerReference>'
            f"<wsa:Address>{consumer}</wsa:Address></wsnt:ConsumerReference>{more}</wsnt:{name}>"
        )

    async def subscribe(
        self,
        consumer: str,
        topic: str | None = None,
        xpath: str | None = None,
        use_notify: str | None = "true",
    ) -> str:
        """Subscribe; the identifier."""
        body = self.subscribe_body(consumer, topic, xpath, use_notify)
        answer = await self.ask(f"{IBM}/SubscribeRequest", body)
        assert answer.message.wsa("Action") == f"{IBM}/SubscribeRequestResponse"
        [response] = answer.message.body
        assert response.tag == f"{{{IBM}}}SubscribeResponse"
        return self.read_identifier(response.find(f"{{{IBM}}}SubscriptionReference"))

    async def manage(self, name: str, identifier: str) -> Answer:
        """Pause, resume or end a subscription, at the broker's address."""
        return await self.call(
            f"{IBM}/{name}",
            f'<wsnt:{name} xmlns:wsnt="{IBM}"/>',
            self.identifier_header(identifier),
        )

    async def unsubscribe(self, identifier: str) -> None:
        answer = await self.manage("UnsubsribeRequest", identifier)
        assert (answer.status, answer.message.body) == (200, []), answer.body
        assert answer.message.wsa("Action") == f"{IBM}/UnsubscribeResponse"

    @staticmethod
    def message(topic: str | None, event: str, producer: str = "http://192.0.2.20") -> str:
        """A NotificationMessage as its publisher writes it."""
        named = "" if topic is None else (
            f'<wsnt:Topic {_WIDGET} Dialect="{IBM_SIMPLE}">widget:{topic}</wsnt:Topic>'
        )  # fmt: skip
        reference = (
            f"<wsnt:ProducerReference><wsa:Address>{producer}</wsa:Address>"
            "</wsnt:ProducerReference>"
        )
        return (
            f"<wsnt:NotificationMessage>{named}{reference if producer else ''}"
            f"<wsnt:Message>{event}</wsnt:Message></wsnt:NotificationMessage>"
        )

    async def publish(
        self, topic: str | None, *events: str, producer: str = "http://192.0.2.20", path: str = ""
    ) -> str:
        """Publish in one Notify; the track id."""
        messages = "".join(self.message(topic, event, producer) for event in events)
        body = f'<wsnt:Notify xmlns:wsnt="{IBM}">{messages}</wsnt:Notify>'
        answer = await self.ask(f"{IBM}/Notify", body, path=path)
        assert answer.message.wsa("Action") == f"{IBM}/NotifyResponse"
        [response] = answer.message.body
        assert response.tag == f"{{{IBM}}}NotifyResponse" and not children(response)
        return str(response.attrib["trackId"])
