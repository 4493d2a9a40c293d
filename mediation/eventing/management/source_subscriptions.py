"""Subscriptions that sources of Windows events make for themselves (MS-WSMV, sections 2.2.4.41,
3.1.4.6 and 3.1.4.8): a source enumerates what it is wanted to send, and gets each as a whole
Subscribe. From then on it sends, and the gateway is its sink."""

from collections.abc import Mapping

from lxml import etree

from filters import Reason
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.requests import (
    Arrival,
    AskForSubscriptions,
    Context,
    EndOfExchange,
    Operation,
    Request,
    Response,
    SourceSubscription,
    SourceSubscriptions,
)
from mediation.model.specification import Answer
from mediation.model.versions import Soap, Wsa
from mediation.soap.envelopes import xml_attribute, xml_text

RESOURCE = "http://schemas.microsoft.com/wbem/wsman/1/SubscriptionManager/Subscription"
"""The resource whose enumeration is asked for."""
END = "http://schemas.microsoft.com/wbem/wsman/1/wsman/End"
_EVENT_LOG = "http://schemas.microsoft.com/wbem/wsman/1/windows/EventLog"
_SUBSCRIPTION = "http://schemas.microsoft.com/wbem/wsman/1/subscription"
_AUTHENTICATION = "http://schemas.microsoft.com/wbem/wsman/1/authentication"
_MUTUAL = "http://schemas.dmtf.org/wbem/wsman/1/wsman/secprofile/https/mutual"
_POLICY = "http://schemas.xmlsoap.org/ws/2002/12/policy"
_MOST = 512000
"""Octets of a batch, as Windows' own collector asks for."""


class SourceRequests:
    """Enumerate of subscriptions, and End, behind which nothing more comes on a connection."""

    namespaces = frozenset({names.WSEN})
    elements: Mapping[str, Operation] = {f"{{{names.WSEN}}}Enumerate": Operation.ENUMERATE}
    actions: Mapping[str, Operation] = {END: Operation.END}

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        if operation is Operation.END:
            return EndOfExchange()
        if context.managed is None or context.managed.resource != RESOURCE:
            raise MediationError(
                Reason.ACTION_UNSUPPORTED, "WS-Enumeration is not offered beyond Pull and Release."
            )
        return AskForSubscriptions()

    def write(self, response: Response, context: Context) -> Answer:
        wanted = response.wanted if isinstance(response, SourceSubscriptions) else ()
        body = (
            f'<wsen:EnumerateResponse xmlns:wsen="{names.WSEN}" xmlns:wsman="{names.WSMAN}">'
            f"<wsen:EnumerationContext/><wsman:Items>{''.join(map(_write, wanted))}</wsman:Items>"
            "<wsman:EndOfSequence/></wsen:EnumerateResponse>"
        )
        return Answer(f"{names.WSEN}/EnumerateResponse", body)


def _write(wanted: SourceSubscription) -> str:
    wsa = Wsa.V2004_08
    properties = (
        "<a:ReferenceProperties>"
        f"<e:Identifier>{xml_text(wanted.version)}</e:Identifier></a:ReferenceProperties>"
    )
    address = f"<a:Address>{xml_text(wanted.address)}</a:Address>{properties}"
    existing, bookmark = "", ""
    if wanted.bookmark is not None:
        bookmark = wanted.bookmark.decode()
    elif wanted.existing:
        existing = '<w:Option Name="ReadExistingEvents">true</w:Option>'
    return (
        f'<m:Subscription xmlns:m="{_SUBSCRIPTION}">'
        f"<m:Version>uuid:{xml_text(wanted.version)}</m:Version>"
        f'<s:Envelope xmlns:s="{Soap.V1_2.value}" xmlns:a="{wsa.value}" '
        f'xmlns:e="{names.WSE_2004_08}" xmlns:w="{names.WSMAN}"><s:Header>'
        f"<a:To>{wsa.anonymous}</a:To>"
        f'<w:ResourceURI s:mustUnderstand="true">{_EVENT_LOG}</w:ResourceURI>'
        f"<a:ReplyTo><a:Address>{wsa.anonymous}</a:Address></a:ReplyTo>"
        f'<a:Action s:mustUnderstand="true">{names.WSE_2004_08}/Subscribe</a:Action>'
        f'<w:MaxEnvelopeSize s:mustUnderstand="true">{_MOST}</w:MaxEnvelopeSize>'
        f"<a:MessageID>{xml_text(wanted.message_id)}</a:MessageID>"
        f'<w:OptionSet xmlns:xsi="{names.XSI}">'
        f'<w:Option Name="SubscriptionName">{xml_text(wanted.name)}</w:Option>'
        '<w:Option Name="CDATA" xsi:nil="true"/><w:Option Name="ContentFormat">Raw</w:Option>'
        f'<w:Option Name="IgnoreChannelError" xsi:nil="true"/>{existing}</w:OptionSet>'
        f"</s:Header><s:Body><e:Subscribe><e:EndTo>{address}</e:EndTo>"
        f'<e:Delivery Mode="{names.WSMAN_EVENTS}">'
        f"<w:Heartbeats>{_duration(wanted.heartbeats)}</w:Heartbeats>"
        f"<e:NotifyTo>{address}{_authentication(wanted.issuer)}</e:NotifyTo>"
        f'<w:ConnectionRetry Total="5">{_duration(60)}</w:ConnectionRetry>'
        f"<w:MaxTime>{_duration(wanted.max_time)}</w:MaxTime>"
        f'<w:MaxEnvelopeSize Policy="Notify">{_MOST}</w:MaxEnvelopeSize>'
        "<w:ContentEncoding>UTF-16</w:ContentEncoding></e:Delivery>"
        '<w:Filter Dialect="http://schemas.microsoft.com/win/2004/08/events/eventquery">'
        f"{wanted.query}</w:Filter>{bookmark}<w:SendBookmarks/>"
        "</e:Subscribe></s:Body></s:Envelope></m:Subscription>"
    )


def _duration(seconds: float) -> str:
    return f"PT{seconds:.3f}S"


def _authentication(issuer: str | None) -> str:
    """The policy by which a source proves itself by a certificate of *issuer*, a thumbprint."""
    if issuer is None:
        return ""
    return (
        f'<c:Policy xmlns:c="{_POLICY}" xmlns:auth="{_AUTHENTICATION}"><c:ExactlyOne><c:All>'
        f"<auth:Authentication Profile={xml_attribute(_MUTUAL)}><auth:ClientCertificate>"
        f'<auth:Thumbprint Role="issuer">{xml_text(issuer)}</auth:Thumbprint>'
        "</auth:ClientCertificate></auth:Authentication></c:All></c:ExactlyOne></c:Policy>"
    )
