"""SOAP messages of our own, laid out as the reference material's pages and samples are.

Pages of examples in Markdown, one a specification, and folders named for the stacks that write
headers and bodies in that way: Axis2, Savan, ServiceMix. Words, names and values are ours.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

S11 = "http://schemas.xmlsoap.org/soap/envelope/"
S12 = "http://www.w3.org/2003/05/soap-envelope"
WSA04 = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
WSA05 = "http://www.w3.org/2005/08/addressing"
WSE = "http://schemas.xmlsoap.org/ws/2004/08/eventing"
WSE11 = "http://www.w3.org/2011/03/ws-evt"
WSNT = "http://docs.oasis-open.org/wsn/b-2"
BR = "http://docs.oasis-open.org/wsn/br-2"
BW = "http://docs.oasis-open.org/wsn/bw-2"
RP = "http://docs.oasis-open.org/wsrf/rp-2"
RL = "http://docs.oasis-open.org/wsrf/rl-2"
DRAFT = "http://docs.oasis-open.org/wsn/2004/06/wsn-WS-BaseNotification-1.2-draft-01.xsd"
IBM = "http://www.ibm.com/xmlns/stdwip/web-services/WS-BaseNotification"
IBM_SIMPLE = "http://www.ibm.com/xmlns/stdwip/web-services/WS-Topics/TopicExpression/simple"
TEV = "http://www.onvif.org/ver10/events/wsdl"
BOX = "http://org.apache.airavata/ws-messenger/msgbox/2011"
WSMAN = "http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"
WSMAN_DETAIL = "http://schemas.dmtf.org/wbem/wsman/1/wsman/faultDetail"
SIMPLE = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Simple"
XPATH = "http://www.w3.org/TR/1999/REC-xpath-19991116"

PREFIXES = {
    "wse": WSE,
    "evt": WSE11,
    "wsnt": WSNT,
    "br": BR,
    "rp": RP,
    "rl": RL,
    "d": DRAFT,
    "ibm": IBM,
    "tev": TEV,
    "box": BOX,
    "wsman": WSMAN,
    "tide": "urn:example:tide",
    "xsi": "http://www.w3.org/2001/XMLSchema-instance",
}
LEVEL = "<tide:level><tide:metres>3.1</tide:metres></tide:level>"
SINK = "http://harbour.example.net/sink"


def envelope(
    body: str, action: str = "", *, soap: str = S12, wsa: str = WSA05, header: str = ""
) -> str:
    """An envelope with an action and what goes with it; without an action, no such headers."""
    declared = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in PREFIXES.items())
    if action:
        header = (
            f"<wsa:Action>{action}</wsa:Action><wsa:MessageID>urn:uuid:77</wsa:MessageID>"
            f"<wsa:To>http://gauge.example.net/soap</wsa:To>{header}"
        )
    return (
        f'<s:Envelope xmlns:s="{soap}" xmlns:wsa="{wsa}"{declared}>\n'
        f"  <s:Header>{header}</s:Header>\n  <s:Body>{body}</s:Body>\n</s:Envelope>"
    )


def epr(name: str, address: str = SINK, inner: str = "") -> str:
    return f"<{name}><wsa:Address>{address}</wsa:Address>{inner}</{name}>"


RELATES = "<wsa:RelatesTo>urn:uuid:76</wsa:RelatesTo>"
KEY = "<wse:Identifier>urn:uuid:5</wse:Identifier>"
PARAMETERS = f"<wsa:ReferenceParameters>{KEY}</wsa:ReferenceParameters>"
MANAGER = "http://gauge.example.net/subscriptions/5"


def fault(soap: str, wsa: str, action: str, subcode: str, detail: str = "") -> str:
    """A fault whose subcode, in SOAP 1.1 its code, is *subcode*."""
    words = "The gauge does not do that."
    if soap == S11:
        said = f"<faultcode>{subcode}</faultcode><faultstring>{words}</faultstring>"
        inner = f"{said}<detail>{detail}</detail>" if detail else said
    else:
        inner = (
            f"<s:Code><s:Value>s:Sender</s:Value><s:Subcode><s:Value>{subcode}</s:Value>"
            f'</s:Subcode></s:Code><s:Reason><s:Text xml:lang="en">{words}</s:Text></s:Reason>'
            + (f"<s:Detail>{detail}</s:Detail>" if detail else "")
        )
    body = f"<s:Fault>{inner}</s:Fault>"
    return envelope(body, action, soap=soap, wsa=wsa, header=RELATES)


def eventing() -> Iterator[str]:
    """WS-Eventing 2004/08 in both versions of SOAP and of addressing, 2011/03 in both versions of
    SOAP, and WS-Management's use of the former."""
    for soap, wsa in ((S12, WSA04), (S11, WSA05)):

        def said(body: str, name: str, header: str = "", soap: str = soap, wsa: str = wsa) -> str:
            return envelope(body, f"{WSE}/{name}", soap=soap, wsa=wsa, header=header)

        yield said(
            f"<wse:Subscribe>{epr('wse:EndTo')}"
            f'<wse:Delivery Mode="{WSE}/DeliveryModes/Push">'
            f"{epr('wse:NotifyTo', inner=PARAMETERS)}</wse:Delivery><wse:Expires>PT40M</wse:Expires>"
            f'<wse:Filter Dialect="{XPATH}">//tide:metres &gt; 3</wse:Filter></wse:Subscribe>',
            "Subscribe",
            epr("wsa:ReplyTo"),
        )
        yield said(
            f"<wse:SubscribeResponse>{epr('wse:SubscriptionManager', MANAGER, PARAMETERS)}"
            "<wse:Expires>PT40M</wse:Expires></wse:SubscribeResponse>",
            "SubscribeResponse",
            RELATES,
        )
        for name, request, response in (
            ("Renew", "<wse:Expires>2040-05-06T07:08:09Z</wse:Expires>", "PT20M"),
            ("GetStatus", "", "PT19M"),
            ("Unsubscribe", "", None),
        ):
            yield said(f"<wse:{name}>{request}</wse:{name}>", name, KEY)
            granted = (
                f"<wse:{name}Response><wse:Expires>{response}</wse:Expires></wse:{name}Response>"
            )
            yield said(granted if response else "", f"{name}Response", RELATES)
        yield said(
            f"<wse:SubscriptionEnd>{epr('wse:SubscriptionManager', MANAGER)}"
            f"<wse:Status>{WSE}/SourceCanceling</wse:Status>"
            '<wse:Reason xml:lang="en">The gauge is being cleaned.</wse:Reason>'
            "</wse:SubscriptionEnd>",
            "SubscriptionEnd",
        )
        yield envelope(LEVEL, "urn:example:tide/level", soap=soap, wsa=wsa, header=KEY)
        yield fault(soap, wsa, f"{wsa}/fault", "wse:UnableToRenew")
        yield fault(
            soap,
            wsa,
            f"{wsa}/fault",
            "wse:FilteringRequestedUnavailable",
            f"<wse:D>{XPATH}</wse:D>",
        )
    key = '<k:Identifier xmlns:k="urn:example:keys">urn:uuid:5</k:Identifier>'
    both = f"<wsa:ReferenceParameters>{key}</wsa:ReferenceParameters>"
    marked = key.replace(">", ' wsa:IsReferenceParameter="true">', 1)
    granted = "<evt:GrantedExpires>PT1H</evt:GrantedExpires>"
    for soap in (S11, S12):
        for name, inner, header in (
            ("Subscribe", f"<evt:Delivery>{epr('evt:NotifyTo')}</evt:Delivery>", ""),
            (
                "Subscribe",
                f"{epr('evt:EndTo')}<evt:Delivery>\n {epr('evt:NotifyTo', inner=both)}\n"
                f'</evt:Delivery><evt:Format Name="{WSE11}/DeliveryFormats/Wrap"/>'
                '<evt:Expires BestEffort="1">P1D</evt:Expires>'
                f'<evt:Filter Dialect="{WSE11}/Dialects/XPath10">tide:metres &gt; 3</evt:Filter>',
                "",
            ),
            ("SubscribeResponse", epr("evt:SubscriptionManager", MANAGER, both) + granted, RELATES),
            ("Renew", "<evt:Expires>PT1H</evt:Expires>", marked),
            ("Renew", '<evt:Expires BestEffort="true">2040-05-06T07:08:09Z</evt:Expires>', key),
            ("RenewResponse", granted, RELATES),
            ("GetStatus", "", marked),
            ("GetStatusResponse", granted, RELATES),
            ("Unsubscribe", "", key),
            ("UnsubscribeResponse", "", RELATES),
            (
                "SubscriptionEnd",
                f"<evt:Status>{WSE11}/SourceCancelling</evt:Status>"
                '<evt:Reason xml:lang="en">The gauge is being cleaned.</evt:Reason>',
                "",
            ),
        ):
            yield envelope(
                f"<evt:{name}>{inner}</evt:{name}>", f"{WSE11}/{name}", soap=soap, header=header
            )
        yield envelope(
            f'<evt:Notify actionURI="urn:example:tide/level">{LEVEL}</evt:Notify>',
            f"{WSE11}/WrappedSinkPortType/NotifyEvent",
            soap=soap,
        )
        yield fault(soap, WSA05, f"{WSE11}/fault", "evt:UnknownSubscription")
    for mode in ("Pull", "PushWithAck", "Events"):
        delivery = f"http://schemas.dmtf.org/wbem/wsman/1/wsman/{mode}"
        yield envelope(
            f'<wse:Subscribe><wse:Delivery Mode="{delivery}">{epr("wse:NotifyTo")}'
            "<wsman:MaxTime>PT5S</wsman:MaxTime></wse:Delivery></wse:Subscribe>",
            f"{WSE}/Subscribe",
            wsa=WSA04,
            header='<wsman:ResourceURI s:mustUnderstand="true">urn:example:gauges</wsman:ResourceURI>'
            "<wsman:MaxEnvelopeSize>51200</wsman:MaxEnvelopeSize>",
        )
    yield envelope(
        f'<wsman:Events><wsman:Event Action="urn:e">{LEVEL}</wsman:Event></wsman:Events>',
        "http://schemas.dmtf.org/wbem/wsman/1/wsman/Events",
        wsa=WSA04,
        header='<wsman:AckRequested s:mustUnderstand="true"/>',
    )
    yield envelope("", "http://schemas.dmtf.org/wbem/wsman/1/wsman/Ack", wsa=WSA04, header=RELATES)


TOPIC = f'<wsnt:Topic Dialect="{SIMPLE}">tide:spring</wsnt:Topic>'
FILTER = (
    f'<wsnt:Filter><wsnt:TopicExpression Dialect="{SIMPLE}">tide:spring</wsnt:TopicExpression>'
    f'<wsnt:MessageContent Dialect="{XPATH}">//tide:metres</wsnt:MessageContent></wsnt:Filter>'
)
HOLDER = (
    f"<wsnt:NotificationMessage>{epr('wsnt:SubscriptionReference', MANAGER)}{TOPIC}"
    f"<wsnt:Message>{LEVEL}</wsnt:Message></wsnt:NotificationMessage>"
)
TIMES = (
    "<wsnt:CurrentTime>2039-01-02T03:04:05Z</wsnt:CurrentTime>"
    "<wsnt:TerminationTime>2039-02-02T03:04:05Z</wsnt:TerminationTime>"
)
REFERENCE = epr("wsnt:SubscriptionReference", MANAGER)
NOTIFICATION: tuple[tuple[str, str, str], ...] = (
    (f"{BW}/NotificationConsumer", "wsnt:Notify", HOLDER),
    (
        f"{BW}/NotificationProducer",
        "wsnt:SubscribeRequest",
        f"{epr('wsnt:ConsumerReference')}{FILTER}"
        "<wsnt:InitialTerminationTime>PT3H</wsnt:InitialTerminationTime>",
    ),
    (f"{BW}/NotificationProducer", "wsnt:SubscribeResponse", REFERENCE + TIMES),
    (f"{BW}/NotificationProducer", "wsnt:GetCurrentMessageRequest", TOPIC),
    (f"{BW}/NotificationProducer", "wsnt:GetCurrentMessageResponse", LEVEL),
    (
        f"{BW}/SubscriptionManager",
        "wsnt:RenewRequest",
        "<wsnt:TerminationTime>PT4H</wsnt:TerminationTime>",
    ),
    (
        f"{BW}/SubscriptionManager",
        "wsnt:RenewResponse",
        "<wsnt:TerminationTime>2039-02-02T03:04:05Z</wsnt:TerminationTime>"
        "<wsnt:CurrentTime>2039-01-02T03:04:05Z</wsnt:CurrentTime>",
    ),
    (f"{BW}/SubscriptionManager", "wsnt:UnsubscribeRequest", ""),
    (f"{BW}/SubscriptionManager", "wsnt:UnsubscribeResponse", ""),
    (f"{BW}/PausableSubscriptionManager", "wsnt:PauseSubscriptionRequest", ""),
    (f"{BW}/CreatePullPoint", "wsnt:CreatePullPointRequest", ""),
    (f"{BW}/CreatePullPoint", "wsnt:CreatePullPointResponse", epr("wsnt:PullPoint", MANAGER)),
    (
        f"{BW}/PullPoint",
        "wsnt:GetMessagesRequest",
        "<wsnt:MaximumNumber>3</wsnt:MaximumNumber>",
    ),
    (f"{BW}/PullPoint", "wsnt:GetMessagesResponse", HOLDER),
    (f"{BW}/PullPoint", "wsnt:DestroyPullPointRequest", ""),
    (
        "http://docs.oasis-open.org/wsn/brw-2/RegisterPublisher",
        "br:RegisterPublisherRequest",
        epr("br:PublisherReference", MANAGER) + "<br:Demand>true</br:Demand>",
    ),
    (
        "http://docs.oasis-open.org/wsrf/rpw-2/GetResourceProperty",
        "rp:GetResourcePropertyRequest",
        "wsnt:TerminationTime",
    ),
    (
        "http://docs.oasis-open.org/wsrf/rpw-2/GetResourceProperty",
        "rp:GetResourcePropertyResponse",
        "<wsnt:TerminationTime>2039-02-02T03:04:05Z</wsnt:TerminationTime>",
    ),
    (
        "http://docs.oasis-open.org/wsrf/rlw-2/ScheduledResourceTermination",
        "rl:SetTerminationTimeRequest",
        "<rl:RequestedLifetimeDuration>PT2H</rl:RequestedLifetimeDuration>",
    ),
    ("http://docs.oasis-open.org/wsrf/rlw-2/ImmediateResourceTermination", "rl:DestroyRequest", ""),
    (
        f"{TEV}/EventPortType",
        "tev:CreatePullPointSubscriptionRequest",
        "<tev:InitialTerminationTime>PT6M</tev:InitialTerminationTime>",
    ),
    (
        f"{TEV}/EventPortType",
        "tev:CreatePullPointSubscriptionResponse",
        epr("tev:SubscriptionReference", MANAGER) + TIMES,
    ),
    (
        f"{TEV}/PullPointSubscription",
        "tev:PullMessagesRequest",
        "<tev:Timeout>PT2S</tev:Timeout><tev:MessageLimit>7</tev:MessageLimit>",
    ),
    (
        f"{TEV}/PullPointSubscription",
        "tev:PullMessagesResponse",
        "<tev:CurrentTime>2039-01-02T03:04:05Z</tev:CurrentTime>"
        "<tev:TerminationTime>2039-02-02T03:04:05Z</tev:TerminationTime>" + HOLDER,
    ),
)
"""To each message its port type, its name with "Request", and its children."""


def notification() -> Iterator[str]:
    """WS-BaseNotification 1.3, its broker and resources, ONVIF; and the drafts before."""
    for soap in (S12, S11):
        for port_type, name, inner in NOTIFICATION:
            element = name.removesuffix("Request")
            yield envelope(
                f"<{element}>{inner}</{element}>",
                f"{port_type}/{name.partition(':')[2]}",
                soap=soap,
                header=RELATES if name.endswith("Response") else "",
            )
        detail = (
            '<f:ResourceUnknownFault xmlns:f="http://docs.oasis-open.org/wsrf/r-2">'
            '<b:Timestamp xmlns:b="http://docs.oasis-open.org/wsrf/bf-2">2039-01-02T03:04:05Z'
            "</b:Timestamp></f:ResourceUnknownFault>"
        )
        yield fault(soap, WSA05, "http://docs.oasis-open.org/wsrf/fault", "s:Sender", detail)
    yield envelope(f"<wsnt:Subscribe>{epr('wsnt:ConsumerReference')}</wsnt:Subscribe>", soap=S11)
    for name, inner in (
        ("Subscribe", epr("d:ConsumerReference") + "<d:UseNotify>true</d:UseNotify>"),
        ("SubscribeResponse", epr("d:SubscriptionReference", MANAGER)),
    ):
        yield envelope(f"<d:{name}>{inner}</d:{name}>", f"{DRAFT}/{name}", soap=S11)


def messenger() -> Iterator[str]:
    """WS-Messenger: WS-Eventing with its filters, topics in headers, IBM's names, mailboxes."""
    ask = "http://org.apache.airavata"
    both = f'<wse:Filter Dialect="{ask}/dialect"><ibm:TopicExpression Dialect="{IBM_SIMPLE}">'
    yield envelope(
        "<wse:Subscribe><wse:Expires>7200000</wse:Expires><wse:Delivery>"
        f"{epr('wse:NotifyTo')}</wse:Delivery>{both}tide:spring</ibm:TopicExpression>"
        "</wse:Filter></wse:Subscribe>",
        f"{WSE}/Subscribe",
        soap=S11,
    )
    yield envelope(
        LEVEL,
        f"{ask}/WseNotification",
        soap=S11,
        header=f'<ibm:Topic Dialect="{IBM_SIMPLE}">tide:spring</ibm:Topic>',
    )
    yield envelope("<wse:levelResponse/>", f"{WSE}/levelResponse", soap=S11, header=RELATES)
    holder = f'<ibm:Topic Dialect="{IBM_SIMPLE}">tide:spring</ibm:Topic>'
    holder = f"<ibm:NotificationMessage>{holder}<ibm:Message>{LEVEL}</ibm:Message></ibm:NotificationMessage>"
    for name, inner in (
        ("Notify", holder),
        ("NotifyResponse", ""),
        ("SubscribeRequest", epr("ibm:ConsumerReference")),
        ("SubscribeResponse", epr("ibm:SubscriptionReference", MANAGER)),
    ):
        yield envelope(f"<ibm:{name}>{inner}</ibm:{name}>", f"{IBM}/{name}", soap=S11)
    box = "<box:MsgBoxId>11111111-2222-4333-8444-555555555555</box:MsgBoxId>"
    for name in ("createMsgBox", "takeMessages"):
        yield envelope(f"<box:{name}>{box}</box:{name}>", soap=S11)
        yield envelope(
            f'<r:{name}Response xmlns:r="{BOX}/"><r:MsgBoxId>1</r:MsgBoxId></r:{name}Response>',
            soap=S11,
        )


PAGES = {
    "ws-eventing.md": eventing,
    "ws-notification.md": notification,
    "ws-messenger.md": messenger,
}


def axis2() -> Iterator[tuple[str, str]]:
    """Headers as Axis2's addressing module writes them: each left out, each twice, each for
    another node; and its faults."""
    extra = ' xmlns:n="urn:example:axis" n:hint="1"'
    for folder, wsa in (("final", WSA05), ("submission", WSA04)):
        address = "<wsa:Address>\n      http://quay.example.net/axis2/services/tide</wsa:Address>"
        parameters = '<wsa:ReferenceParameters><n:Berth xmlns:n="urn:n">9</n:Berth></wsa:ReferenceParameters>'
        blocks = {
            "To": "http://gauge.example.net/axis2/services/gauge",
            "From": address,
            "ReplyTo": address + parameters,
            "FaultTo": address,
            "MessageID": "uuid:0A0B",
            "Action": "urn:example:read",
        }

        def written(
            blocks: Mapping[str, str], attributes: str = "", relates: str = "urn:uuid:76"
        ) -> str:
            return "".join(
                f"\n    <wsa:{name}{attributes}>{inner}</wsa:{name}>"
                for name, inner in [*blocks.items(), ("RelatesTo", relates)]
            )

        def said(header: str, soap: str = S11, wsa: str = wsa) -> str:
            return envelope("<tide:read/>", soap=soap, wsa=wsa, header=header)

        for name, inner in blocks.items():
            fewer = {other: inner for other, inner in blocks.items() if other != name}
            yield f"omitted-header-messages/{folder}/no{name}Message.xml", said(written(fewer))
            twice = f"{written(blocks)}<wsa:{name}>{inner}</wsa:{name}>"
            yield (
                f"invalid-cardinality-messages/{folder}/invalidCardinality{name}Message.xml",
                said(twice),
            )
        bare = {name: blocks[name] for name in ("To", "From", "Action")}
        parameter = '<n:One xmlns:n="urn:n" wsa:IsReferenceParameter="true">1</n:One>'
        yield (
            f"omitted-header-messages/{folder}/noMessageIDNoReplyToNoFaultToMessage.xml",
            said(written(bare) + parameter),
        )
        yield f"valid-messages/{folder}/soapmessage.xml", said(written(blocks, extra))
        for soap, attribute, suffix in ((S11, "actor", ""), (S12, "role", ".soap12")):
            role = f' s:{attribute}="urn:example:other-node"'
            yield (
                f"valid-messages/{folder}/soapmessage.customrole{suffix}.xml",
                said(written(blocks) + written(blocks, role + extra), soap),
            )
            name = "soap12" if soap == S12 else "soap11"
            if folder == "submission":
                empty = envelope("", soap=soap, wsa=wsa, header=written(blocks, role))
                yield f"{name}roleTest.xml", empty
            else:
                for code in ("MessageAddressingHeaderRequired", "InvalidAddressingHeader"):
                    detail = "<wsa:ProblemHeaderQName>wsa:From</wsa:ProblemHeaderQName>"
                    yield (
                        f"fault-messages/{name}/{code}.xml",
                        fault(soap, wsa, f"{wsa}/fault", f"wsa:{code}", detail),
                    )


def savan() -> Iterator[tuple[str, str]]:
    """Savan writes headers of one version of addressing and references of another."""
    mixed = f'<a:Address xmlns:a="{WSA04}">http://harbour.example.net/listener</a:Address>'
    topic = '<wse:Filter Dialect="http://synapse.apache.org/eventing/dialect/topicFilter">tide/3</wse:Filter>'

    def subscribe(mode: str, end: str) -> str:
        sent = f"<wse:Delivery{mode}><wse:NotifyTo>{mixed}</wse:NotifyTo></wse:Delivery>"
        return f"<wse:Subscribe>\n{sent}{end}</wse:Subscribe>"

    push = f' Mode="{WSE}/DeliveryModes/Push"'
    until = "<wse:Expires>2040-06-26T21:07:00.000-08:00</wse:Expires>"
    for name, body, soap in (
        ("savan-java/eventing-subscription", subscribe(push, until), S11),
        ("savan-c/esb_subscribe", subscribe(push, topic), S11),
        ("savan-c/savanc_subscribe", subscribe("", topic), S12),
        ("savan-java/eventing-renew-datetime", f"<wse:Renew>{until}</wse:Renew>", S11),
        (
            "savan-java/eventing-renew-duration",
            "<wse:Renew><wse:Expires>P1Y2M3DT10H30M40S</wse:Expires></wse:Renew>",
            S11,
        ),
        ("savan-c/renew", f"<wse:Renew>{until}</wse:Renew>", S12),
    ):
        operation = "Renew" if "<wse:Renew" in body else "Subscribe"
        header = KEY if operation == "Renew" else ""
        yield f"{name}.xml", envelope(body, f"{WSE}/{operation}", soap=soap, header=header)


def servicemix() -> Iterator[tuple[str, str]]:
    """Bodies alone: addresses and topics in blanks, prefixes that nobody needs."""
    consumer = epr("wsnt:ConsumerReference", f"\n      {SINK}\n    ")
    time = "wsnt:InitialTerminationTime"
    bus = '<bus:end-point xmlns:bus="urn:example:bus" service-name="bus:gauge"/>'
    for name, inner in {
        "subscribe-nil-itt": f'{consumer}{FILTER}<{time} xsi:nil="true"/>',
        "subscribe-no-itt": consumer + FILTER,
        "subscribe-raw": f"{consumer}{FILTER}<wsnt:SubscriptionPolicy><wsnt:UseRaw />"
        "</wsnt:SubscriptionPolicy>",
        "subscribe-no-topic": f"{consumer}<wsnt:Filter>\n  </wsnt:Filter>",
        "subscription-subscribe": consumer + FILTER.replace("tide:spring", "\n      neap\n    "),
        "subscribe-abs-itt": f"{consumer}{FILTER}<{time}>2003-02-01T00:00:00</{time}>",
        "subscribe-epr": f"<wsnt:ConsumerReference>{bus}</wsnt:ConsumerReference>{FILTER}",
        "subscribe-empty-itt": f"{consumer}{FILTER}<{time} />",
        "subscribe-pp": consumer
        + FILTER.replace(
            "<wsnt:Mess", "<wsnt:ProducerProperties>\n</wsnt:ProducerProperties>\n<wsnt:Mess"
        ),
    }.items():
        yield f"servicemix-wsn2005/{name}.xml", element(f"<wsnt:Subscribe>{inner}</wsnt:Subscribe>")
    notify = (
        f'<Notify xmlns="{DRAFT}"><NotificationMessage><Topic Dialect="{IBM_SIMPLE}">\n  neap\n'
        f"  </Topic><Message>{LEVEL}</Message></NotificationMessage></Notify>"
    )
    yield "servicemix-wsn-1.2-draft/wsn-notify.xml", element(notify)
    older = "http://schemas.xmlsoap.org/ws/2003/03/addressing"
    yield "servicemix-wsn-1.2-draft/notify.xml", envelope(notify, f"{DRAFT}/Notify", wsa=older)
    plain = HOLDER.replace("tide:spring", "neap").replace(f' Dialect="{SIMPLE}"', "")
    yield "servicemix-examples/wsn-message.xml", element(f"<wsnt:Notify>{plain}</wsnt:Notify>")


def element(text: str) -> str:
    """*text* with the prefixes of `PREFIXES` and addressing declared at its first tag."""
    declared = "".join(f' xmlns:{p}="{uri}"' for p, uri in {**PREFIXES, "wsa": WSA05}.items())
    end = text.index(">")
    return f"{text[:end]}{declared}{text[end:]}"


WSMAN_DETAILS = (
    "Ack", "AddressingMode", "AuthorizationMode", "Bookmarks", "CharacterSet", "DeliveryRetries",
    "Expired", "FragmentLevelAccess", "Invalid", "Heartbeats", "Locale", "MaxElements", "MaxEnvelopePolicy",
    "MaxEnvelopeSize", "MaxEnvelopeSizeExceeded", "MaxTime", "OptionSet", "UnexpectedSelectors",
)  # fmt: skip
"""What a fault's detail may name (WS-Management 1.2, section 14.6), of what Dragoman refuses."""


def management() -> str:
    """A schema of that detail."""
    values = "".join(f'<xs:enumeration value="{WSMAN_DETAIL}/{name}"/>' for name in WSMAN_DETAILS)
    return (
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:simpleType name="Detail">'
        f'<xs:restriction base="xs:anyURI">{values}</xs:restriction></xs:simpleType></xs:schema>'
    )


def write(folder: Path) -> None:
    """Write the pages and the samples below *folder*."""
    files = {
        name: "".join(f"```xml\n{one}\n```\n\n" for one in page()) for name, page in PAGES.items()
    }
    for home, samples in (
        ("schemas/ws-addressing/samples/axis2", axis2()),
        ("schemas/ws-eventing/samples", savan()),
        ("schemas/wsn/samples", servicemix()),
    ):
        files |= {f"{home}/{name}": text for name, text in samples}
    files["schemas/ws-eventing/wsman-1.xsd"] = management()
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
