"""Every fault as it stands on the wire, and where answers go."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mediation.model.versions import Wsa
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import (
    BF,
    CONCRETE,
    FULL,
    RL,
    RP,
    S11,
    S12,
    SIMPLE,
    WSA10,
    WSE,
    WSNT,
    XPATH,
    Answer,
    Fault,
    R,
    Speaker,
    children,
    fresh_id,
    message_content,
    pairs,
    qname,
    topic_expression,
    wse_filter,
)
from tests.rigs.gateways import Running, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEAKERS = [
    Speaker(soap, wsa) for soap, wsa in pairs((S11, S12), (Wsa.V2004_08, Wsa.V2005_08, None))
]
DEAD = "http://consumer.example.org/sink"


def sub(speaker: Speaker, **more: Any) -> str:
    return speaker.wse_subscribe(DEAD, **more)


def subn(speaker: Speaker, **more: Any) -> str:
    return speaker.wsn_subscribe(DEAD, **more)


Body = Callable[[Speaker], str]
WSE_FAULTS: dict[str, tuple[Body, str]] = {
    "no delivery": (lambda s: f'<e:Subscribe xmlns:e="{WSE}"/>', "InvalidMessage"),
    "no notify to": (
        lambda s: f'<e:Subscribe xmlns:e="{WSE}"><e:Delivery/></e:Subscribe>',
        "InvalidMessage",
    ),
    "no address": (
        lambda s: (
            f'<e:Subscribe xmlns:e="{WSE}"><e:Delivery><e:NotifyTo/></e:Delivery></e:Subscribe>'
        ),
        "InvalidMessage",
    ),
    "mode": (
        lambda s: sub(s).replace("<e:Delivery>", f'<e:Delivery Mode="{WSE}/DeliveryModes/Wrap">'),
        "DeliveryModeRequestedUnavailable",
    ),
    "expires in the past": (
        lambda s: sub(s, expires="2001-01-01T00:00:00Z"),
        "InvalidExpirationTime",
    ),
    "expires at once": (lambda s: sub(s, expires="PT0S"), "InvalidExpirationTime"),
    "expires of zero ms": (lambda s: sub(s, expires="0"), "InvalidExpirationTime"),
    "expires that is none": (lambda s: sub(s, expires="soon"), "InvalidMessage"),
    "expires below zero": (lambda s: sub(s, expires="-PT1H"), "InvalidExpirationTime"),
    "dialect": (
        lambda s: sub(s, filter=wse_filter("x", "urn:test:dialect")),
        "FilteringRequestedUnavailable",
    ),
    "xpath": (lambda s: sub(s, filter=wse_filter("///")), "FilteringRequestedUnavailable"),
    "xpath prefix": (lambda s: sub(s, filter=wse_filter("//u:x")), "FilteringRequestedUnavailable"),
    "topic": (
        lambda s: sub(s, filter=wse_filter("a b", SIMPLE)),
        "FilteringRequestedUnavailable",
    ),
    "two filters": (
        lambda s: sub(s, filter=wse_filter("//a") + wse_filter("//b")),
        "InvalidMessage",
    ),
    "forbidden address": (lambda s: s.wse_subscribe("http://10.0.0.1/"), "InvalidMessage"),
    "forbidden end": (lambda s: sub(s, end_to="http://10.0.0.1/"), "InvalidMessage"),
}


@pytest.mark.parametrize("speaker", SPEAKERS)
async def test_ws_eventing(gateway: Running, speaker: Speaker) -> None:
    for name, (body, subcode) in WSE_FAULTS.items():
        message_id = fresh_id()
        answer = await gateway.ask(
            speaker, body(speaker), message_id=message_id, action=f"{WSE}/Subscribe"
        )
        assert answer.status == (500 if speaker.soap is S11 else 400), name
        check_envelope(answer, speaker, message_id, speaker.wsa.fault_action if speaker.wsa else "")
        fault = answer.fault
        assert fault.subcode == f"{{{WSE}}}{subcode}", name
        if speaker.soap is S11:  # WS-Eventing, section 6: "detail ... is not included".
            assert fault.detail is None
            continue
        assert fault.code == f"{{{S12.value}}}Sender"
        if name == "mode":
            assert fault.element == f"{{{WSE}}}SupportedDeliveryMode"
            assert fault.detail is not None and fault.detail.text == f"{WSE}/DeliveryModes/Push"
        if name == "dialect":
            assert fault.element == f"{{{WSE}}}SupportedDialect"
    await nothing_happened(gateway)


def check_envelope(answer: Answer, speaker: Speaker, message_id: str, action: str) -> None:
    message = answer.message
    assert message.soap is speaker.soap
    assert answer.type == f"{speaker.soap.media_type}; charset=utf-8"
    if speaker.wsa is None:
        assert message.headers == []
    else:
        assert message.wsa("RelatesTo", speaker.wsa) == message_id
        assert message.wsa("Action", speaker.wsa) == action
        assert message.wsa("To", speaker.wsa) == speaker.wsa.anonymous


async def nothing_happened(gateway: Running) -> None:
    """No subscription is there, and a good request still works."""
    listed = await gateway.api("GET", "/subscriptions")
    assert b'"subscriptions":[]' in listed.body
    assert len(gateway.gateway.subscriptions) == gateway.gateway.publishing.accepted == 0


def policy(name: str) -> str:
    return f'<p:{name} xmlns:p="urn:test:policy"/>'


INITIAL, CREATION = "UnacceptableInitialTerminationTimeFault", "SubscribeCreationFailedFault"
CONTENT = "InvalidMessageContentExpressionFault"
BAD_PROPERTIES = "InvalidProducerPropertiesExpressionFault"


def properties(text: str, dialect: str = XPATH) -> str:
    return (
        f'<n:ProducerProperties xmlns:n="{WSNT}" Dialect="{dialect}">{text}</n:ProducerProperties>'
    )


WSN_FAULTS: dict[str, tuple[Body, str]] = {
    "no consumer": (lambda s: f'<n:Subscribe xmlns:n="{WSNT}"/>', CREATION),
    "empty consumer": (
        lambda s: f'<n:Subscribe xmlns:n="{WSNT}"><n:ConsumerReference/></n:Subscribe>',
        CREATION,
    ),
    "forbidden address": (lambda s: s.wsn_subscribe("http://10.0.0.1/"), CREATION),
    "time in the past": (lambda s: subn(s, expires="2001-01-01T00:00:00Z"), INITIAL),
    "time at once": (lambda s: subn(s, expires="PT0S"), INITIAL),
    "empty time": (lambda s: subn(s, expires=""), INITIAL),
    "time that is none": (lambda s: subn(s, expires="3600"), INITIAL),
    "unknown filter": (lambda s: subn(s, filter=policy("Geo")), "InvalidFilterFault"),
    "topic dialect": (
        lambda s: subn(s, filter=topic_expression("a", "urn:test:dialect")),
        "TopicExpressionDialectUnknownFault",
    ),
    "topic": (
        lambda s: subn(s, filter=topic_expression("a//", FULL)),
        "InvalidTopicExpressionFault",
    ),
    "wildcard in concrete": (
        lambda s: subn(s, filter=topic_expression("a/*", CONCRETE)),
        "InvalidTopicExpressionFault",
    ),
    "content": (lambda s: subn(s, filter=message_content("a[")), CONTENT),
    "content dialect": (
        lambda s: subn(s, filter=message_content("a", dialect="urn:test:dialect")),
        CONTENT,
    ),
    "properties": (lambda s: subn(s, filter=properties("a[")), BAD_PROPERTIES),
    "properties dialect": (lambda s: subn(s, filter=properties("a", "urn:x")), BAD_PROPERTIES),
    "properties that take too long": (
        lambda s: subn(s, filter=properties("/a" * 100)),
        BAD_PROPERTIES,
    ),
    "policy": (lambda s: subn(s, policy=policy("Fast")), "UnrecognizedPolicyRequestFault"),
    "no current message": (
        lambda s: (
            f'<n:GetCurrentMessage xmlns:n="{WSNT}"><n:Topic Dialect="{SIMPLE}">silent</n:Topic>'
            "</n:GetCurrentMessage>"
        ),
        "NoCurrentMessageOnTopicFault",
    ),
    "several topics": (
        lambda s: (
            f'<n:GetCurrentMessage xmlns:n="{WSNT}"><n:Topic Dialect="{FULL}">a|b</n:Topic>'
            "</n:GetCurrentMessage>"
        ),
        "MultipleTopicsSpecifiedFault",
    ),
    "current topic": (
        lambda s: (
            f'<n:GetCurrentMessage xmlns:n="{WSNT}"><n:Topic Dialect="{SIMPLE}">a b</n:Topic>'
            "</n:GetCurrentMessage>"
        ),
        "InvalidTopicExpressionFault",
    ),
}


@pytest.mark.parametrize("speaker", SPEAKERS)
async def test_ws_notification(gateway: Running, speaker: Speaker) -> None:
    for name, (body, element) in WSN_FAULTS.items():
        message_id = fresh_id()
        answer = await gateway.ask(speaker, body(speaker), message_id=message_id)
        assert answer.status == (500 if speaker.soap is S11 else 400), name
        check_envelope(answer, speaker, message_id, "http://docs.oasis-open.org/wsn/fault")
        fault = answer.fault
        assert fault.element == f"{{{WSNT}}}{element}", name
        assert (
            fault.code == f"{{{speaker.soap.value}}}{'Client' if speaker.soap is S11 else 'Sender'}"
        )
        check_base_fault(fault)
        assert fault.detail is not None
        extra = children(fault.detail)[2:]
        names = [one.tag for one in extra]
        if element == INITIAL:
            assert names == [f"{{{WSNT}}}MinimumTime"]
        elif name == "unknown filter":
            assert names == [f"{{{WSNT}}}UnknownFilter"]
            assert qname(extra[0]) == "{urn:test:policy}Geo"
        elif name == "policy":
            assert names == [f"{{{WSNT}}}UnrecognizedPolicy"]
            assert qname(extra[0]) == "{urn:test:policy}Fast"
        else:
            assert names == []
    await nothing_happened(gateway)


def check_base_fault(fault: Fault) -> None:
    """Timestamp, then Description; one element in the detail (WS-BaseFaults 1.2)."""
    assert fault.detail is not None
    parent = fault.detail.getparent()
    assert parent is not None and len(parent) == 1
    names = [one.tag for one in children(fault.detail)[:2]]
    assert names == [f"{{{BF}}}Timestamp", f"{{{BF}}}Description"]


async def test_ws_resource(gateway: Running) -> None:
    speaker = Speaker()
    async with Consumers() as consumer:
        path = await gateway.subscribe(speaker, speaker.wsn_subscribe(consumer.fresh()))
        unknown = (
            f'<r:GetResourceProperty xmlns:r="{RP}" xmlns:x="urn:x">x:y</r:GetResourceProperty>'
        )
        faults = {
            unknown: f"{{{RP}}}InvalidResourcePropertyQNameFault",
            unknown.replace("x:y", "u:y"): f"{{{RP}}}InvalidResourcePropertyQNameFault",
            f'<r:SetTerminationTime xmlns:r="{RL}"><r:RequestedLifetimeDuration>x'
            "</r:RequestedLifetimeDuration></r:SetTerminationTime>": (
                f"{{{RL}}}UnableToSetTerminationTimeFault"
            ),
        }
        for body, element in faults.items():
            answer = await gateway.ask(speaker, body, path)
            assert (answer.status, answer.fault.element) == (400, element)
            assert answer.message.wsa("Action") == "http://docs.oasis-open.org/wsrf/fault"
            check_base_fault(answer.fault)
        answer = await gateway.ask(speaker, unknown)  # The producer has no such property either.
        assert answer.fault.element == f"{{{RP}}}InvalidResourcePropertyQNameFault"
        for operation in ("Renew", "Renew"):
            body = f'<n:{operation} xmlns:n="{WSNT}"><n:TerminationTime>PT0S</n:TerminationTime></n:{operation}>'
            answer = await gateway.ask(speaker, body, path)
            assert answer.fault.element == f"{{{WSNT}}}UnacceptableTerminationTimeFault"
        assert (
            await gateway.ask(speaker, f'<n:Unsubscribe xmlns:n="{WSNT}"/>', path)
        ).status == 200
        gone = await gateway.ask(speaker, f'<r:Destroy xmlns:r="{RL}"/>', path)
        assert gone.fault.element == f"{{{R}}}ResourceUnknownFault"


@pytest.mark.parametrize("speaker", SPEAKERS)
async def test_what_is_not_offered(gateway: Running, speaker: Speaker) -> None:
    unknown = [
        '<e:Subscribe xmlns:e="http://www.w3.org/2010/08/ws-evt"/>',
        '<e:Subscribe xmlns:e="http://schemas.xmlsoap.org/ws/2004/01/eventing"/>',
        '<t:Create xmlns:t="http://schemas.xmlsoap.org/ws/2004/09/transfer"/>',
        '<m:PutMetadata xmlns:m="http://www.w3.org/2011/03/ws-mex"/>',
        '<d:Probe xmlns:d="http://docs.oasis-open.org/ws-dd/ns/discovery/2009/01"/>',
        '<trt:GetProfiles xmlns:trt="http://www.onvif.org/ver10/media/wsdl"/>',
        f'<n:SubscribeResponse xmlns:n="{WSNT}"/>',
        f'<e:SubscriptionEnd xmlns:e="{WSE}"/>',
        f'<r:GetResourcePropertyResponse xmlns:r="{RP}"/>',
        f'<s:Fault xmlns:s="{speaker.soap.value}"/>',
    ]
    for body in unknown:
        answer = await gateway.ask(speaker, body, action="urn:test:action")
        assert answer.status == (500 if speaker.soap is S11 else 400), body
        if speaker.wsa is not None:
            assert answer.fault.subcode == f"{{{speaker.wsa.value}}}ActionNotSupported"
            assert answer.message.wsa("Action", speaker.wsa) == speaker.wsa.fault_action
    await nothing_happened(gateway)


@pytest.mark.parametrize("speaker", [Speaker(S11), Speaker(S12)])
async def test_headers_that_must_be_understood(gateway: Running, speaker: Speaker) -> None:
    soap = speaker.soap.value

    def block(namespace: str, value: str = "1", role: str = "") -> str:
        return f'<h:Block xmlns:h="{namespace}" s:mustUnderstand="{value}" {role}>x</h:Block>'

    body = f'<e:GetStatus xmlns:e="{WSE}"/>'
    for value in ("1", "true"):
        answer = await gateway.ask(speaker, body, headers=block("urn:test:unknown", value))
        assert (answer.status, answer.fault.code) == (500, f"{{{soap}}}MustUnderstand")
        if speaker.soap is S12:
            found = answer.message.header("NotUnderstood", soap)
            assert found is not None
            prefix, _, local = (found.get("qname") or "").partition(":")
            assert (found.nsmap[prefix], local) == ("urn:test:unknown", "Block")
    role = "actor" if speaker.soap is S11 else "role"
    known = [
        block("urn:test:unknown", "0"),
        block("urn:test:unknown", "1", f's:{role}="urn:test:somebody"'),
        block(WSE),
        block(WSA10),
        block("http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"),
    ]
    for headers in known:
        answer = await gateway.ask(speaker, body, headers=headers)
        assert answer.fault.subcode == f"{{{WSE}}}InvalidMessage"  # An unknown subscription.
    answer = await gateway.ask(speaker, "<event/>", headers=block("urn:test:unknown"))
    assert answer.status == 500
    await nothing_happened(gateway)


@pytest.mark.parametrize("speaker", [Speaker(S11), Speaker(S12, Wsa.V2004_08), Speaker(S12)])
async def test_headers_that_stand_twice(gateway: Running, speaker: Speaker) -> None:
    assert speaker.wsa is not None
    for name in ("To", "Action", "MessageID"):
        double = f"<wsa:{name}>urn:a</wsa:{name}><wsa:{name}>urn:b</wsa:{name}>"
        octets = speaker.envelope("<event/>", headers=double)
        answer = await gateway.post(octets)
        final = speaker.wsa is Wsa.V2005_08
        expected = "InvalidAddressingHeader" if final else "InvalidMessageInformationHeader"
        assert answer.fault.subcode == f"{{{speaker.wsa.value}}}{expected}"
        if final and speaker.soap is S12:
            assert answer.fault.subcodes[1] == f"{{{WSA10}}}InvalidCardinality"
            assert answer.fault.element == f"{{{WSA10}}}ProblemHeaderQName"
    await nothing_happened(gateway)


# Where the answer goes.


def reply_to(address: str, name: str = "ReplyTo", inner: str = "") -> str:
    return f"<wsa:{name}><wsa:Address>{address}</wsa:Address>{inner}</wsa:{name}>"


async def test_anonymous_replies(gateway: Running) -> None:
    async with Consumers() as consumer:
        for wsa in Wsa:
            speaker = Speaker(S12, wsa)
            misspelt = WSA10 + "/role/anonymous"
            for address in (
                wsa.anonymous,
                Wsa.V2005_08.anonymous,
                misspelt,
                f"\n {wsa.anonymous} ",
            ):
                answer = await gateway.ask(
                    speaker,
                    speaker.wse_subscribe(consumer.fresh()),
                    headers=reply_to(address),
                    action=f"{WSE}/Subscribe",
                )
                assert answer.status == 200
                assert answer.message.wsa("To", wsa) == wsa.anonymous
                path = answer.message.root.findtext(".//{*}Identifier")
                headers = f'<e:Identifier xmlns:e="{WSE}">{path}</e:Identifier>'
                end = f'<e:Unsubscribe xmlns:e="{WSE}"/>'
                assert (await gateway.ask(speaker, end, headers=headers)).status == 200
    await nothing_happened(gateway)


async def test_no_reply_is_wanted(gateway: Running) -> None:
    speaker = Speaker()
    async with Consumers() as consumer:
        none = reply_to(WSA10 + "/none")
        url = consumer.fresh()
        answer = await gateway.ask(speaker, speaker.wsn_subscribe(url), headers=none)
        assert (answer.status, answer.body) == (202, b"")
        [entry] = gateway.gateway.subscriptions.entries
        path = f"/subscriptions/{entry.subscription.key}"
        renew = f'<n:Renew xmlns:n="{WSNT}"><n:TerminationTime>bad</n:TerminationTime></n:Renew>'
        answer = await gateway.ask(speaker, renew, path, headers=none)
        assert (answer.status, answer.body) == (202, b"")
        answer = await gateway.ask(
            speaker, f'<n:Unsubscribe xmlns:n="{WSNT}"/>', path, headers=none
        )
        assert (answer.status, answer.body) == (202, b"")
        # Whether an event was accepted is said on the connection always.
        answer = await gateway.ask(speaker, f'<n:Notify xmlns:n="{WSNT}"/>', headers=none)
        assert (answer.status, answer.fault.code) == (400, f"{{{S12.value}}}Sender")
    await nothing_happened(gateway)


@pytest.mark.parametrize("wsa", [Wsa.V2004_08, Wsa.V2005_08])
async def test_replies_go_elsewhere(gateway: Running, wsa: Wsa) -> None:
    speaker = Speaker(S11, wsa)
    async with Consumers() as consumer:
        replies, faults = consumer.fresh(), consumer.fresh()
        box = '<x:Box xmlns:x="urn:test:box">1</x:Box>'
        headers = reply_to(replies, inner=speaker.parameters(box))
        message_id = fresh_id()
        answer = await gateway.ask(
            speaker,
            speaker.wse_subscribe(consumer.fresh()),
            headers=headers,
            message_id=message_id,
            action=f"{WSE}/Subscribe",
        )
        assert (answer.status, answer.body) == (202, b"")
        received = await consumer.next(replies)
        assert received.headers["soapaction"] == f'"{WSE}/SubscribeResponse"'
        message = received.message
        assert message.wsa("To", wsa) == replies
        assert message.wsa("RelatesTo", wsa) == message_id
        assert message.header("Box", "urn:test:box") is not None
        path = message.root.findtext(f".//{{{WSE}}}SubscriptionManager/{{{wsa.value}}}Address")
        assert path is not None
        path = path[path.index("/", 8) :]
        renew = f'<e:Renew xmlns:e="{WSE}"><e:Expires>bad</e:Expires></e:Renew>'
        for more, where in ((headers, replies), (headers + reply_to(faults, "FaultTo"), faults)):
            answer = await gateway.ask(speaker, renew, path, headers=more)
            assert (answer.status, answer.body) == (202, b"")
            sent = await consumer.next(where)
            fault = sent.message
            assert fault.wsa("To", wsa) == where
            assert sent.headers["soapaction"] == f'"{fault.wsa("Action", wsa)}"'
            assert Fault.of(fault).code == f"{{{WSE}}}InvalidMessage"
        end = f'<e:Unsubscribe xmlns:e="{WSE}"/>'
        assert (await gateway.ask(speaker, end, path)).status == 200
    await nothing_happened(gateway)


async def test_the_action_of_a_fault_that_goes_elsewhere(gateway: Running) -> None:
    """In SOAP 1.2 it is a parameter of the media type."""
    async with Consumers() as consumer:
        faults = consumer.fresh()
        answer = await gateway.ask(
            Speaker(),
            Speaker().wse_subscribe(consumer.fresh(), expires="bad"),
            headers=reply_to(faults, "FaultTo"),
        )
        assert (answer.status, answer.body) == (202, b"")
        sent = await consumer.next(faults)
        action = sent.message.wsa("Action")
        assert f'action="{action}"' in sent.headers["content-type"]


async def test_a_consumer_that_waits_on_the_connection(gateway: Running) -> None:
    """agsh/onvif names its consumer as ReplyTo, and reads the answer on the connection."""
    speaker = Speaker()
    async with Consumers() as consumer:
        url = consumer.fresh()
        path = await gateway.subscribe(speaker, speaker.wsn_subscribe(url), headers=reply_to(url))
        answer = await gateway.ask(
            speaker, speaker.wsn_subscribe(url, expires="bad"), headers=reply_to(url)
        )
        assert answer.fault.element == f"{{{WSNT}}}UnacceptableInitialTerminationTimeFault"
        end = f'<n:Unsubscribe xmlns:n="{WSNT}"/>'
        assert (await gateway.ask(speaker, end, path)).status == 200
        await gateway.quiet()
        assert consumer.waiting(url) == 0
    await nothing_happened(gateway)


@pytest.mark.parametrize("name", ["ReplyTo", "FaultTo"])
async def test_forbidden_replies(gateway: Running, name: str) -> None:
    async with Consumers() as consumer:
        for speaker in (Speaker(), Speaker(S11), Speaker(S12, Wsa.V2004_08)):
            assert speaker.wsa is not None
            headers = reply_to("http://10.0.0.1/reply", name)
            body = speaker.wse_subscribe(consumer.fresh())
            answer = await gateway.ask(speaker, body, headers=headers)
            final = speaker.wsa is Wsa.V2005_08
            expected = "InvalidAddressingHeader" if final else "DestinationUnreachable"
            assert answer.fault.subcode == f"{{{speaker.wsa.value}}}{expected}"
            if final and speaker.soap is S12:
                assert answer.fault.subcodes[1] == f"{{{WSA10}}}InvalidAddress"
                assert answer.fault.detail is not None
                assert qname(answer.fault.detail) == f"{{{WSA10}}}{name}"
    await nothing_happened(gateway)


async def test_while_stopping(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        run.gateway.application.drain()
        for speaker in (Speaker(S11), Speaker(S12), Speaker(S12, None)):
            for body in ("<event/>", speaker.wse_subscribe(DEAD)):
                answer = await run.ask(speaker, body)
                assert answer.status == 503
                assert 1 <= int(answer.headers["retry-after"]) <= 30
                if speaker.wsa is not None:
                    assert answer.fault.subcode == f"{{{WSA10}}}EndpointUnavailable"
        assert (await run.request("GET", "/readyz")).status == 503
        assert (await run.request("GET", "/healthz")).status == 200
        assert run.gateway.publishing.accepted == 0


async def test_actions_are_those_of_the_port_types(gateway: Running) -> None:
    answer = await gateway.ask(
        Speaker(),
        f'<r:GetResourcePropertyDocument xmlns:r="{RP}"/>',
        action="urn:any",  # It decides nothing.
    )
    said = answer.message.wsa("Action") or ""
    assert said.endswith("GetResourcePropertyDocument/GetResourcePropertyDocumentResponse")
