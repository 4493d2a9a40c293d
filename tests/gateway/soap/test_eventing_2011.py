"""WS-Eventing 2011/03 against a gateway: the life of a subscription, leases, filters, formats, and
every fault."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from filters import dialects
from mediation.model.versions import Soap, Wsa
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import (
    CONCRETE,
    S11,
    S12,
    SIMPLE,
    WSE,
    WSE11,
    WSNT,
    Answer,
    Message,
    Speaker,
    children,
    fresh_id,
    topic_expression,
    wse11_filter,
)
from tests.rigs.gateways import Running, manager_path, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEAKERS = [pytest.param(Speaker(soap), id=soap.name) for soap in Soap]
for_each_speaker = pytest.mark.parametrize("speaker", SPEAKERS)
SOMEWHERE = "http://consumer.example.org/sink"
STORM = '<o:Storm xmlns:o="urn:test:weather">120</o:Storm>'
NOTIFY_ACTION = f"{WSE11}/WrappedSinkPortType/NotifyEvent"
XPATH_10, XPATH_20 = f"{WSE11}/Dialects/XPath10", f"{WSE11}/Dialects/XPath20"


def request(name: str, inner: str = "") -> str:
    return f'<e:{name} xmlns:e="{WSE11}">{inner}</e:{name}>'


def renew(expires: str | None, best_effort: str = "false") -> str:
    said = f'<e:Expires BestEffort="{best_effort}">{expires}</e:Expires>'
    return request("Renew", "" if expires is None else said)


def granted(message: Message, operation: str) -> str:
    return message.text(f"{{{WSE11}}}{operation}Response/{{{WSE11}}}GrantedExpires")


async def asked(run: Running, speaker: Speaker, name: str, body: str, path: str) -> Message:
    """Ask, and check that the answer is what the specification says of all answers."""
    message_id = fresh_id()
    answer = await run.ask(speaker, body, path, action=f"{WSE11}/{name}", message_id=message_id)
    assert answer.status == 200, answer.body
    message = answer.message
    assert message.soap is speaker.soap
    assert message.wsa("Action") == f"{WSE11}/{name}Response"
    assert message.wsa("RelatesTo") == message_id
    assert [child.tag for child in message.body] == [f"{{{WSE11}}}{name}Response"]
    return message


async def subscribed(run: Running, speaker: Speaker, url: str, **more: Any) -> str:
    body = speaker.wse11_subscribe(url, **more)
    return manager_path(await asked(run, speaker, "Subscribe", body, "/soap"))


@for_each_speaker
@pytest.mark.parametrize("format_", [None, "Unwrap", "Wrap"])
async def test_a_life(
    gateway: Running, consumer: Consumers, speaker: Speaker, format_: str | None
) -> None:
    url, topic = consumer.fresh(), f"t{fresh_id()[-6:]}"
    path = await subscribed(
        gateway,
        speaker,
        url,
        format=format_,
        expires="PT1H",
        filter=wse11_filter(topic, SIMPLE),
        inner=speaker.parameters('<x:Box xmlns:x="urn:test:box">7</x:Box>'),
    )
    for event_action in ("urn:test:storm?a&amp;b", None):
        await gateway.publish(STORM, path=f"/soap/topic/{topic}", action=event_action)
        received = await consumer.next(url)
        delivered = received.message
        assert delivered.soap is speaker.soap
        assert delivered.wsa("To") == url
        box = delivered.header("Box", "urn:test:box")
        assert box is not None and box.get(f"{{{Wsa.V2005_08.value}}}IsReferenceParameter")
        assert received.payload.tag == "{urn:test:weather}Storm"
        assert received.topic is not None and received.topic.text == topic
        action = "urn:test:storm?a&b" if event_action else "urn:test:weather/Storm"
        if format_ == "Wrap":
            assert delivered.wsa("Action") == NOTIFY_ACTION
            assert delivered.body[0].get("actionURI") == action
        else:
            assert delivered.wsa("Action") == action
    for length in ("PT2H", "PT30M"):
        message = await asked(gateway, speaker, "Renew", renew(length), path)
        assert granted(message, "Renew") == length
    message = await asked(gateway, speaker, "GetStatus", request("GetStatus"), path)
    assert re.fullmatch(r"PT(30M|29M\d+S)", granted(message, "GetStatus"))
    message = await asked(gateway, speaker, "Unsubscribe", request("Unsubscribe"), path)
    assert children(message.body[0]) == []
    await gateway.publish(STORM, path=f"/soap/topic/{topic}")
    await gateway.quiet()
    assert consumer.waiting(url) == 0
    for body in (request("GetStatus"), renew("PT1H"), request("Unsubscribe")):
        answer = await gateway.ask(speaker, body, path)
        check_fault(answer, speaker, "UnknownSubscription")


@for_each_speaker
async def test_its_end(tmp_path: Path, consumer: Consumers, speaker: Speaker) -> None:
    async with running(tmp_path) as run:
        end = consumer.fresh()
        await subscribed(run, speaker, consumer.fresh(), end_to=end)
        [entry] = run.gateway.subscriptions.entries
        assert (await run.api("DELETE", f"/subscriptions/{entry.id}")).status == 204
        told = (await consumer.next(end)).message
        assert told.soap is speaker.soap
        assert (told.wsa("Action"), told.wsa("To")) == (f"{WSE11}/SubscriptionEnd", end)
        [ended] = told.body
        assert [child.tag for child in ended] == [f"{{{WSE11}}}Status", f"{{{WSE11}}}Reason"]
        assert ended[0].text == f"{WSE11}/SourceCancelling"


async def test_a_subscription_is_the_same_after_a_restart(
    tmp_path: Path, consumer: Consumers
) -> None:
    speaker, url = Speaker(S11), consumer.fresh()
    async with running(tmp_path) as run:
        path = await subscribed(run, speaker, url, format="Wrap", expires="PT0S")
    async with running(tmp_path) as run:
        await run.publish(STORM)
        assert (await consumer.next(url)).message.wsa("Action") == NOTIFY_ACTION
        message = await asked(run, speaker, "GetStatus", request("GetStatus"), path)
        assert granted(message, "GetStatus") == "PT0S"


# As Apache CXF does it.


async def test_cxf(gateway: Running, consumer: Consumers) -> None:
    """It echoes reference parameters without a mark, at whatever address; and takes anything but
    202 for an answer."""
    speaker, url = Speaker(S11), consumer.fresh()
    body = speaker.wse11_subscribe(url, filter=wse11_filter("//*[local-name()='Storm']", XPATH_10))
    message = await asked(gateway, speaker, "Subscribe", body, "/soap")
    [manager] = [child for child in message.body[0] if child.tag.endswith("}SubscriptionManager")]
    address, parameters = children(manager)
    assert address.tag == f"{{{Wsa.V2005_08.value}}}Address"
    [parameter] = children(parameters)
    echoed = f'<k:Identifier xmlns:k="urn:dragoman:reference:1">{parameter.text}</k:Identifier>'
    assert parameter.tag == "{urn:dragoman:reference:1}Identifier"
    await gateway.publish(STORM)
    assert (await consumer.next(url)).payload.tag == "{urn:test:weather}Storm"
    answer = await gateway.ask(speaker, renew("PT2H"), headers=echoed)
    assert granted(answer.message, "Renew") == "PT2H"
    answer = await gateway.ask(speaker, request("Unsubscribe"), headers=echoed)
    assert answer.message.body[0].tag == f"{{{WSE11}}}UnsubscribeResponse"


# Leases.


@pytest.mark.parametrize(
    ("expires", "best_effort", "expected"),
    [
        (None, None, "PT0S"),
        ("", None, "PT0S"),
        ("PT0S", None, "PT0S"),
        ("PT0S", "true", "PT0S"),
        (" PT90M ", "1", "PT1H30M"),
        ("PT90.5S", None, "PT1M30.5S"),
        ("P400D", "false", "PT9600H"),
        ("2199-05-06T07:08:09+01:00", None, "2199-05-06T06:08:09.000Z"),
        ("2199-05-06T07:08:09.123456Z", "0", "2199-05-06T07:08:09.123456Z"),
    ],
)
@for_each_speaker
async def test_the_trusted_get_what_they_ask_for(
    gateway: Running, speaker: Speaker, expires: str | None, best_effort: str | None, expected: str
) -> None:
    body = speaker.wse11_subscribe(SOMEWHERE, expires=expires, best_effort=best_effort)
    message = await asked(gateway, speaker, "Subscribe", body, "/soap")
    assert granted(message, "Subscribe") == expected
    path = manager_path(message)
    if expires is not None:
        message = await asked(gateway, speaker, "Renew", renew(expires), path)
        assert granted(message, "Renew") == expected
    message = await asked(gateway, speaker, "GetStatus", request("GetStatus"), path)
    status = granted(message, "GetStatus")
    assert status.startswith("PT") is expected.startswith("PT")
    assert (status == "PT0S") is (expected == "PT0S")
    await asked(gateway, speaker, "Unsubscribe", request("Unsubscribe"), path)


async def test_strangers_get_less_only_where_they_say_so(tmp_path: Path) -> None:
    speaker = Speaker()
    later = (datetime.now(UTC) + timedelta(days=9)).isoformat()
    async with running(tmp_path, trusted=(), longest_lease=3600, default_lease=1800) as run:
        path = await subscribed(run, speaker, SOMEWHERE)
        message = await asked(run, speaker, "GetStatus", request("GetStatus"), path)
        assert re.fullmatch(r"PT(30M|29M[\d.]+S)", granted(message, "GetStatus"))
        for expires in ("P30D", "PT0S", later, "9999-12-31T23:59:59Z"):
            best = speaker.wse11_subscribe(SOMEWHERE, expires=expires, best_effort="true")
            told = granted(await asked(run, speaker, "Subscribe", best, "/soap"), "Subscribe")
            if expires.startswith("P"):
                assert told == "PT1H"
            else:
                left = datetime.fromisoformat(told) - datetime.now(UTC)
                assert timedelta(minutes=59) < left <= timedelta(hours=1)
            answer = await run.ask(speaker, speaker.wse11_subscribe(SOMEWHERE, expires=expires))
            check_fault(answer, speaker, "UnsupportedExpirationValue")
            answer = await run.ask(speaker, renew(expires), path)
            check_fault(answer, speaker, "UnsupportedExpirationValue")
            message = await asked(run, speaker, "Renew", renew(expires, "1"), path)
            assert granted(message, "Renew") != "PT0S"


# Filters.


@pytest.mark.parametrize(
    ("filter_", "passes"),
    [
        (wse11_filter("self::o:Storm", XPATH_10, 'xmlns:o="urn:test:weather"'), True),
        (wse11_filter("/o:Storm[. &gt; 100]", None, 'xmlns:o="urn:test:weather"'), True),
        (wse11_filter(". &gt; 200"), False),
        (wse11_filter("/*/*[local-name()='Body']"), False),
        (wse11_filter("not(/*[local-name()='Envelope'])"), True),
        (wse11_filter("//*[local-name()='Storm']", dialects.XPATH_1_0), True),
        (wse11_filter("urn:test:storm urn:test:other", dialects.ACTION_DPWS_1_1), True),
        (wse11_filter("urn:test:stor", dialects.ACTION_DPWS_1_0), False),
        (wse11_filter("no/topic", CONCRETE), False),
    ],
)
async def test_filters(gateway: Running, consumer: Consumers, filter_: str, passes: bool) -> None:
    """Context is the event's root, the root of its own document."""
    speaker, url, all_ = Speaker(), consumer.fresh(), consumer.fresh()
    paths = [
        await subscribed(gateway, speaker, url, filter=filter_),
        await subscribed(gateway, speaker, all_),
    ]
    await gateway.publish(STORM, action="urn:test:storm")
    await consumer.next(all_)
    await gateway.quiet()
    assert consumer.waiting(url) == passes
    for path in paths:
        await asked(gateway, speaker, "Unsubscribe", request("Unsubscribe"), path)


# Publications.


@for_each_speaker
async def test_what_is_published_wrapped(
    gateway: Running, consumer: Consumers, speaker: Speaker
) -> None:
    """Its events reach subscribers of each specification, with the action of ``actionURI``."""
    topic = f"t{fresh_id()[-6:]}"
    urls = [consumer.fresh() for _ in range(3)]
    paths = [
        await subscribed(gateway, speaker, urls[0], filter=wse11_filter(topic, SIMPLE)),
        await gateway.subscribe(
            speaker,
            speaker.wse_subscribe(urls[1], filter=wse11_filter(topic, SIMPLE).replace(WSE11, WSE)),
        ),
        await gateway.subscribe(
            speaker, speaker.wsn_subscribe(urls[2], filter=topic_expression(topic))
        ),
    ]
    header = f'<n:Topic xmlns:n="{WSNT}">{topic}</n:Topic>'
    notify = f'<e:Notify xmlns:e="{WSE11}" actionURI="urn:test:act"><a/> <b/></e:Notify>'
    await gateway.publish(notify, headers=header, speaker=speaker, action=NOTIFY_ACTION)
    for url in urls:
        got = [await consumer.next(url) for _ in range(2)]
        assert [each.payload.tag for each in got] == ["a", "b"]
        if url != urls[2]:
            assert [each.message.wsa("Action") for each in got] == ["urn:test:act"] * 2
    for path in paths:
        await gateway.ask(speaker, request("Unsubscribe"), path)


# Faults.

Body = Callable[[Speaker], str]


def sub(speaker: Speaker, **more: Any) -> str:
    return speaker.wse11_subscribe(SOMEWHERE, **more)


FAULTS: dict[str, tuple[Body, str]] = {
    "no notify to": (
        lambda s: request("Subscribe", "<e:Delivery> </e:Delivery>"),
        "NoDeliveryMechanismEstablished",
    ),
    "an extension": (
        lambda s: request("Subscribe", '<e:Delivery><x:Pull xmlns:x="urn:x"/></e:Delivery>'),
        "NoDeliveryMechanismEstablished",
    ),
    "no address": (
        lambda s: request("Subscribe", "<e:Delivery><e:NotifyTo/></e:Delivery>"),
        "UnusableEPR",
    ),
    "forbidden address": (lambda s: s.wse11_subscribe("http://10.0.0.1/"), "UnusableEPR"),
    "forbidden end": (lambda s: sub(s, end_to="http://10.0.0.1/"), "UnusableEPR"),
    "format": (lambda s: sub(s, format="urn:zip"), "DeliveryFormatRequestedUnavailable"),
    "in the past": (
        lambda s: sub(s, expires="2001-01-01T00:00:00Z"),
        "UnsupportedExpirationValue",
    ),
    "in the past, whatever": (
        lambda s: sub(s, expires="2001-01-01T00:00:00Z", best_effort="true"),
        "UnsupportedExpirationValue",
    ),
    "below zero": (lambda s: sub(s, expires="-PT1H"), "UnsupportedExpirationValue"),
    "no time": (lambda s: sub(s, expires="soon"), "UnsupportedExpirationType"),
    "dialect": (
        lambda s: sub(s, filter=wse11_filter("x", "urn:test:dialect")),
        "FilteringRequestedUnavailable",
    ),
    "XPath 2.0": (
        lambda s: sub(s, filter=wse11_filter("//a", XPATH_20)),
        "FilteringRequestedUnavailable",
    ),
    "xpath": (lambda s: sub(s, filter=wse11_filter("///")), "CannotProcessFilter"),
    "xpath prefix": (lambda s: sub(s, filter=wse11_filter("//u:x")), "CannotProcessFilter"),
    "topic": (lambda s: sub(s, filter=wse11_filter("a b", SIMPLE)), "CannotProcessFilter"),
    "empty": (lambda s: sub(s, filter=wse11_filter("1 = 2")), "EmptyFilter"),
    "unknown": (lambda s: request("GetStatus"), "UnknownSubscription"),
}


@pytest.mark.parametrize("name", FAULTS)
@for_each_speaker
async def test_faults(gateway: Running, speaker: Speaker, name: str) -> None:
    body, subcode = FAULTS[name]
    answer = await gateway.ask(speaker, body(speaker))
    check_fault(answer, speaker, subcode)
    if name == "format":
        offered = [f"{WSE11}/DeliveryFormats/{one}" for one in ("Unwrap", "Wrap")]
        assert listed(answer, "SupportedDeliveryFormat") == offered
    if subcode == "FilteringRequestedUnavailable":
        known = listed(answer, "SupportedDialect")
        assert known[0] == XPATH_10 and dialects.ACTION_DPWS_1_1 in known


def check_fault(answer: Answer, speaker: Speaker, subcode: str) -> None:
    assert answer.status == (500 if speaker.soap is S11 else 400), answer.body
    assert answer.fault.subcode == f"{{{WSE11}}}{subcode}"
    assert answer.message.wsa("Action") == f"{WSE11}/fault"
    if speaker.soap is S12:
        assert answer.fault.code == f"{{{S12.value}}}Sender"


def listed(answer: Answer, name: str) -> list[str | None]:
    return [element.text for element in answer.message.root.iter(f"{{{WSE11}}}{name}")]


@for_each_speaker
async def test_what_has_no_fault_of_its_own(gateway: Running, speaker: Speaker) -> None:
    answer = await gateway.ask(speaker, request("Subscribe"))
    assert answer.status == (500 if speaker.soap is S11 else 400)
    assert answer.fault.subcode == f"{{{speaker.soap.value}}}" + (
        "Client" if speaker.soap is S11 else "Sender"
    )


@pytest.mark.parametrize(
    ("namespace", "title"),
    [
        ("http://www.w3.org/2009/09/ws-evt", "WS-Eventing 2009/09"),
        ("http://www.w3.org/2010/08/ws-evt", "WS-Eventing 2010/08"),
        ("http://www.w3.org/2009/02/ws-evt", "This version of WS-Eventing"),
        ("http://schemas.xmlsoap.org/ws/2004/01/eventing", "WS-Eventing 2004/01"),
    ],
)
@for_each_speaker
async def test_other_versions_are_refused_by_name(
    gateway: Running, speaker: Speaker, namespace: str, title: str
) -> None:
    answer = await gateway.ask(speaker, sub(speaker).replace(WSE11, namespace))
    assert answer.fault.subcode == f"{{{Wsa.V2005_08.value}}}ActionNotSupported"
    assert f"{title} is not offered" in answer.fault.text
    assert "WS-Eventing 2004/08" in answer.fault.text
