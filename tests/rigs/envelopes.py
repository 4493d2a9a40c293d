"""Envelopes as peers write them, and as they read what the gateway sends."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from lxml import etree

from mediation.model.versions import Soap, Wsa

S11, S12 = Soap.V1_1, Soap.V1_2
WSE = "http://schemas.xmlsoap.org/ws/2004/08/eventing"
WSE11 = "http://www.w3.org/2011/03/ws-evt"
WSNT = "http://docs.oasis-open.org/wsn/b-2"
BW = "http://docs.oasis-open.org/wsn/bw-2"
RP = "http://docs.oasis-open.org/wsrf/rp-2"
RL = "http://docs.oasis-open.org/wsrf/rl-2"
R = "http://docs.oasis-open.org/wsrf/r-2"
BF = "http://docs.oasis-open.org/wsrf/bf-2"
WSA10 = Wsa.V2005_08.value
SIMPLE = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Simple"
CONCRETE = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Concrete"
FULL = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Full"
XPATH = "http://www.w3.org/TR/1999/REC-xpath-19991116"
IBM = "http://www.ibm.com/xmlns/stdwip/web-services/WS-BaseNotification"
IBM_SIMPLE = "http://www.ibm.com/xmlns/stdwip/web-services/WS-Topics/TopicExpression/simple"

_numbers = itertools.count(1)


def next_number() -> int:
    return next(_numbers)


def fresh_id() -> str:
    """A message id that no other test uses."""
    return f"urn:uuid:00000000-0000-4000-8000-{next_number():012d}"


def children(element: etree._Element) -> list[etree._Element]:
    return list(element.iterchildren(etree.Element))


def canonical(element: etree._Element | bytes) -> bytes:
    """Exclusive canonical form: equal for equal elements, whatever is in scope around them."""
    if isinstance(element, bytes):
        element = etree.fromstring(element)
    return etree.tostring(element, method="c14n", exclusive=True, with_tail=False)


class Message:
    """A SOAP envelope that somebody sent."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.root = etree.fromstring(octets)
        namespace = etree.QName(self.root).namespace
        self.soap = Soap(namespace)
        parts = {etree.QName(part).localname: part for part in children(self.root)}
        self.headers = children(parts["Header"]) if "Header" in parts else []
        self.body = children(parts["Body"])

    def header(self, name: str, namespace: str) -> etree._Element | None:
        found = [block for block in self.headers if block.tag == f"{{{namespace}}}{name}"]
        assert len(found) <= 1, f"{name} stands {len(found)} times"
        return found[0] if found else None

    def wsa(self, name: str, wsa: Wsa = Wsa.V2005_08) -> str | None:
        """The text of an addressing header."""
        found = self.header(name, wsa.value)
        return None if found is None else found.text

    def find(self, path: str) -> etree._Element | None:
        """The first element on *path*, in lxml's notation, below the body."""
        return self.root.find(f"{{{self.soap.value}}}Body/{path}")

    def text(self, path: str) -> str:
        found = self.find(path)
        assert found is not None, f"no {path} in {self.octets!r}"
        return (found.text or "").strip()


@dataclass(frozen=True)
class Answer:
    """What the gateway answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> Message:
        return Message(self.body)

    @property
    def type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def fault(self) -> "Fault":
        return Fault.of(self.message)


@dataclass(frozen=True)
class Fault:
    """A fault: expanded names of its code, subcodes and detail."""

    code: str
    subcodes: tuple[str, ...]
    text: str
    detail: etree._Element | None = None

    @classmethod
    def of(cls, message: Message) -> Self:
        [fault] = message.body
        assert fault.tag == f"{{{message.soap.value}}}Fault", message.octets
        if message.soap is S11:
            code = fault.find("faultcode")
            assert code is not None
            return cls(
                qname(code), (), fault.findtext("faultstring") or "", _only(fault.find("detail"))
            )
        s12 = f"{{{S12.value}}}"
        values = list(fault.iter(f"{s12}Value"))
        texts = list(fault.iter(f"{s12}Text"))
        detail = fault.find(f"{s12}Detail")
        names = [qname(value) for value in values]
        return cls(names[0], tuple(names[1:]), texts[0].text or "", _only(detail))

    @property
    def subcode(self) -> str:
        """Of SOAP 1.2 the first subcode, of SOAP 1.1 the code, which is the subcode there."""
        return self.subcodes[0] if self.subcodes else self.code

    @property
    def element(self) -> str:
        """The name of the element in the detail."""
        return "" if self.detail is None else str(self.detail.tag)


def _only(detail: etree._Element | None) -> etree._Element | None:
    if detail is None:
        return None
    found = children(detail)
    assert found, "an empty detail"
    return found[0]


def qname(element: etree._Element) -> str:
    """The QName in the text of *element*, expanded."""
    prefix, colon, local = (element.text or "").strip().rpartition(":")
    namespace = element.nsmap[prefix] if colon else None
    return f"{{{namespace}}}{local}" if namespace else local


@dataclass(frozen=True)
class Speaker:
    """What a peer speaks: it wraps bodies in envelopes of its versions."""

    soap: Soap = S12
    wsa: Wsa | None = Wsa.V2005_08

    @property
    def type(self) -> str:
        return f"{self.soap.media_type}; charset=utf-8"

    def envelope(
        self,
        body: str,
        *,
        action: str | None = None,
        to: str | None = None,
        message_id: str | None = None,
        headers: str = "",
    ) -> bytes:
        if self.wsa is not None:
            for name, value in (("Action", action), ("MessageID", message_id), ("To", to)):
                if value is not None:
                    headers += f"<wsa:{name}>{value}</wsa:{name}>"
        declared = f' xmlns:wsa="{self.wsa.value}"' if self.wsa else ""
        return (
            f'<s:Envelope xmlns:s="{self.soap.value}"{declared}><s:Header>{headers}</s:Header>'
            f"<s:Body>{body}</s:Body></s:Envelope>"
        ).encode()

    def epr(self, address: str, inner: str = "") -> str:
        """The children of an endpoint reference."""
        wsa = (self.wsa or Wsa.V2005_08).value
        return f'<a:Address xmlns:a="{wsa}">{address}</a:Address>{inner}'

    def parameters(self, *elements: str) -> str:
        """Reference parameters, or properties where the version has only those."""
        wsa = self.wsa or Wsa.V2005_08
        old = wsa in (Wsa.V2003_03, Wsa.V2004_03)
        name = "ReferenceProperties" if old else "ReferenceParameters"
        return f'<a:{name} xmlns:a="{wsa.value}">{"".join(elements)}</a:{name}>'

    def wse_subscribe(
        self,
        notify_to: str,
        *,
        filter: str = "",
        expires: str | None = None,
        end_to: str | None = None,
        inner: str = "",
    ) -> str:
        """The body of WS-Eventing's Subscribe. *inner*: further children of NotifyTo."""
        end = f"<e:EndTo>{self.epr(end_to)}</e:EndTo>" if end_to else ""
        time = "" if expires is None else f"<e:Expires>{expires}</e:Expires>"
        return (
            f'<e:Subscribe xmlns:e="{WSE}">{end}<e:Delivery><e:NotifyTo>'
            f"{self.epr(notify_to, inner)}</e:NotifyTo></e:Delivery>{time}{filter}</e:Subscribe>"
        )

    def wse11_subscribe(
        self,
        notify_to: str,
        *,
        format: str | None = None,
        filter: str = "",
        expires: str | None = None,
        best_effort: str | None = None,
        end_to: str | None = None,
        inner: str = "",
    ) -> str:
        """The body of Subscribe in WS-Eventing 2011/03, arguments as in `wse_subscribe`; *format*
        is ``Wrap`` or ``Unwrap``, or the URI of another."""
        end = f"<e:EndTo>{self.epr(end_to)}</e:EndTo>" if end_to else ""
        known = f"{WSE11}/DeliveryFormats/" if format in ("Wrap", "Unwrap") else ""
        how = f'<e:Format Name="{known}{format}"/>' if format else ""
        best = f' BestEffort="{best_effort}"' if best_effort else ""
        time = "" if expires is None else f"<e:Expires{best}>{expires}</e:Expires>"
        return (
            f'<e:Subscribe xmlns:e="{WSE11}">{end}<e:Delivery><e:NotifyTo>'
            f"{self.epr(notify_to, inner)}</e:NotifyTo></e:Delivery>{how}{time}{filter}"
            "</e:Subscribe>"
        )

    def wsn_subscribe(
        self,
        consumer: str,
        *,
        filter: str = "",
        expires: str | None = None,
        raw: bool = False,
        inner: str = "",
        policy: str = "",
    ) -> str:
        """The body of WS-BaseNotification's Subscribe. *expires* ``nil`` is nil."""
        if expires == "nil":
            time = (
                '<n:InitialTerminationTime xsi:nil="true" '
                'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"/>'
            )
        elif expires is None:
            time = ""
        else:
            time = f"<n:InitialTerminationTime>{expires}</n:InitialTerminationTime>"
        policy = ("<n:UseRaw/>" if raw else "") + policy
        policies = f"<n:SubscriptionPolicy>{policy}</n:SubscriptionPolicy>" if policy else ""
        filters = f"<n:Filter>{filter}</n:Filter>" if filter else ""
        return (
            f'<n:Subscribe xmlns:n="{WSNT}"><n:ConsumerReference>{self.epr(consumer, inner)}'
            f"</n:ConsumerReference>{filters}{time}{policies}</n:Subscribe>"
        )


def topic_expression(text: str, dialect: str = CONCRETE, scope: str = "") -> str:
    return (
        f'<n:TopicExpression xmlns:n="{WSNT}" {scope} Dialect="{dialect}">{text}'
        "</n:TopicExpression>"
    )


def message_content(xpath: str, scope: str = "", dialect: str = XPATH) -> str:
    return (
        f'<n:MessageContent xmlns:n="{WSNT}" {scope} Dialect="{dialect}">{xpath}</n:MessageContent>'
    )


def wse_filter(text: str, dialect: str | None = None, scope: str = "") -> str:
    said = f' Dialect="{dialect}"' if dialect else ""
    return f'<e:Filter xmlns:e="{WSE}" {scope}{said}>{text}</e:Filter>'


def wse11_filter(text: str, dialect: str | None = None, scope: str = "") -> str:
    return wse_filter(text, dialect, scope).replace(WSE, WSE11)


def notify(*messages: str, scope: str = "") -> str:
    """The body of a Notify; each message is what `notification_message` makes."""
    return f'<n:Notify xmlns:n="{WSNT}" {scope}>{"".join(messages)}</n:Notify>'


def notification_message(
    payload: str, topic: str | None = None, *, dialect: str = CONCRETE, producer: str = ""
) -> str:
    topics = "" if topic is None else f'<n:Topic Dialect="{dialect}">{topic}</n:Topic>'
    producers = f"<n:ProducerReference>{producer}</n:ProducerReference>" if producer else ""
    return (
        f"<n:NotificationMessage>{topics}{producers}<n:Message>{payload}</n:Message>"
        "</n:NotificationMessage>"
    )


def pairs(*sequences: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    return itertools.product(*sequences)
