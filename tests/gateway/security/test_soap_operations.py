"""Each operation that the WSDL describes, asked with each right alone, with all, and with none.

Which right lets what is said here as docs/security.md says it, not as the gateway's table does.
"""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from lxml import etree

from gateway.identities.file_editing import add_key, add_rule, add_user, create_identities
from mediation.model.versions import Soap, Wsa
from mediation.names import WSMAN_IDENTITY
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import (
    CONCRETE,
    WSE,
    WSE11,
    WSNT,
    XPATH,
    Answer,
    Speaker,
    fresh_id,
    notification_message,
    notify,
)
from tests.rigs.gateways import Running, manager_path, running
from tests.rigs.grid_events import handle, lease

WSDL = "{http://schemas.xmlsoap.org/wsdl/}"
OLD_WSNT = "http://docs.oasis-open.org/wsn/2004/06/wsn-WS-BaseNotification-1.2-draft-01.xsd"
OLD_WSNB = "http://docs.oasis-open.org/wsn/2004/06/wsn-WS-BrokeredNotification-1.2-draft-01.xsd"
OLD_RP = "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceProperties-1.2-draft-01.xsd"
OLD_RL = "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceLifetime-1.2-draft-01.xsd"
RP, RL = "http://docs.oasis-open.org/wsrf/rp-2", "http://docs.oasis-open.org/wsrf/rl-2"
EVENTS, DEVICE = (f"http://www.onvif.org/ver10/{one}/wsdl" for one in ("events", "device"))
MANAGEMENT = "urn:dragoman:management:1"
MEX = "http://schemas.xmlsoap.org/ws/2004/09/mex"
WSNB = "http://docs.oasis-open.org/wsn/br-2"
SPEAKER = Speaker()
NOWHERE = "http://127.0.0.1:1025/"
SINGLE = ("publish", "subscribe", "manage", "operate", "read")
EVERYBODY = ("nobody", *SINGLE)


def operation(namespace: str, local: str, inner: str = "") -> str:
    return f'<x:{local} xmlns:x="{namespace}" xmlns:n="{WSNT}">{inner}</x:{local}>'


def properties(namespace: str) -> dict[str, str]:
    """What reads properties, and what would change them."""
    named = "<x:ResourceProperty>n:Topic</x:ResourceProperty>"
    query = f'<x:QueryExpression Dialect="{XPATH}">//*</x:QueryExpression>'
    changed = "<x:Delete ResourceProperty='n:Topic'/>"
    return {
        "GetResourcePropertyDocument": "",
        "GetResourceProperty": "n:Topic",
        "GetMultipleResourceProperties": named,
        "QueryResourceProperties": query,
        "SetResourceProperties": changed,
        "DeleteResourceProperties": changed,
        "InsertResourceProperties": "<x:Insert><n:Topic/></x:Insert>",
        "UpdateResourceProperties": "<x:Update><n:Topic/></x:Update>",
        "PutResourcePropertyDocument": "",
    }


READS_PROPERTIES = (
    "GetResourcePropertyDocument",
    "GetResourceProperty",
    "GetMultipleResourceProperties",
    "QueryResourceProperties",
)
OLD_PROPERTIES = (*READS_PROPERTIES[1:], "SetResourceProperties")
TIME = "2040-01-01T00:00:00Z"
OLD = Speaker(Soap.V1_1, Wsa.V2003_03)
TOPIC = f'<x:Topic Dialect="{CONCRETE}">storms</x:Topic>'
OLD_TOPIC = (
    '<x:Topic Dialect="http://docs.oasis-open.org/wsn/2004/06/TopicExpression/Simple">storms'
    "</x:Topic>"
)


@dataclass(frozen=True)
class Row:
    """An operation: whoever has one of the rights *may*; ``nobody`` in them means everybody."""

    body: str
    may: tuple[str, ...]
    speaker: Speaker = SPEAKER
    path: str = ""
    """Where it is asked; empty: at the manager of a subscription."""
    call: bytes = b""
    """The whole message, where that is no body in an envelope."""


def rows() -> Iterator[tuple[tuple[str, str], Row]]:
    soap = "/soap"
    yield ("", "handleEvent"), Row("", ("publish",), path=soap, call=handle("<a>1</a>"))
    yield ("", "subscribeLease"), Row("", ("subscribe",), path=soap, call=lease())
    for namespace in (WSE, WSE11):
        asked = SPEAKER.wse_subscribe(NOWHERE) if namespace == WSE else None
        asked = asked or SPEAKER.wse11_subscribe(NOWHERE)
        yield (namespace, "Subscribe"), Row(asked, ("subscribe",), path=soap)
        for local in ("GetStatus", "Renew", "Unsubscribe"):
            yield (namespace, local), Row(operation(namespace, local), ("manage",))
    yield (WSE11, "Notify"), Row(operation(WSE11, "Notify", "<a/>"), ("publish",), path=soap)
    yield (WSNT, "Subscribe"), Row(SPEAKER.wsn_subscribe(NOWHERE), ("subscribe",), path=soap)
    yield (
        (WSNT, "Notify"),
        Row(notify(notification_message("<a/>", "storms")), ("publish",), path=soap),
    )
    yield (
        (WSNT, "GetCurrentMessage"),
        Row(operation(WSNT, "GetCurrentMessage", TOPIC), ("subscribe",), path=soap),
    )
    yield (
        (WSNT, "CreatePullPoint"),
        Row(operation(WSNT, "CreatePullPoint"), ("subscribe",), path=soap),
    )
    for local, inner in (
        ("Renew", f"<x:TerminationTime>{TIME}</x:TerminationTime>"),
        ("Unsubscribe", ""),
        ("PauseSubscription", ""),
        ("ResumeSubscription", ""),
        ("GetMessages", ""),
        ("DestroyPullPoint", ""),
    ):
        yield (WSNT, local), Row(operation(WSNT, local, inner), ("manage",))
    consumer = f"<x:ConsumerReference>{OLD.epr(NOWHERE)}</x:ConsumerReference>"
    message = (
        f"<x:NotificationMessage>{OLD_TOPIC}<x:Message><a/></x:Message></x:NotificationMessage>"
    )
    old_topic = OLD_TOPIC.replace("x:Topic", "x:TopicExpression")
    for local, inner, right, path in (
        ("Subscribe", consumer + old_topic, "subscribe", soap),
        ("Notify", message, "publish", soap),
        ("GetCurrentMessage", OLD_TOPIC, "subscribe", soap),
        ("PauseSubscription", "", "manage", ""),
        ("ResumeSubscription", "", "manage", ""),
    ):
        yield (OLD_WSNT, local), Row(operation(OLD_WSNT, local, inner), (right,), OLD, path)
    for namespace in (WSNB, OLD_WSNB):
        speaker = SPEAKER if namespace == WSNB else OLD
        body = operation(namespace, "RegisterPublisher")
        yield (namespace, "RegisterPublisher"), Row(body, ("publish",), speaker, soap)
    body = operation(WSNB, "DestroyRegistration")
    yield (WSNB, "DestroyRegistration"), Row(body, ("publish",))
    for namespace in (RP, OLD_RP):
        speaker = SPEAKER if namespace == RP else OLD
        for local, inner in properties(namespace).items():
            if namespace == OLD_RP and local not in OLD_PROPERTIES:
                continue
            reads = local in READS_PROPERTIES
            may = ("publish", "subscribe", "manage", "read") if reads else ("manage",)
            yield (namespace, local), Row(operation(namespace, local, inner), may, speaker)
    for namespace in (RL, OLD_RL):
        speaker = SPEAKER if namespace == RL else OLD
        until = f"<x:RequestedTerminationTime>{TIME}</x:RequestedTerminationTime>"
        for local, inner in (("SetTerminationTime", until), ("Destroy", "")):
            yield (namespace, local), Row(operation(namespace, local, inner), ("manage",), speaker)
    for local, rights in (
        ("CreatePullPointSubscription", ("subscribe",)),
        ("GetEventProperties", ("subscribe", "read")),
        ("GetServiceCapabilities", ("subscribe", "read")),
        ("Seek", EVERYBODY),  # It is not offered to anybody.
        ("SetSynchronizationPoint", ("manage",)),
    ):
        path = "" if local == "SetSynchronizationPoint" else soap
        yield (EVENTS, local), Row(operation(EVENTS, local), rights, path=path)
    body = operation(EVENTS, "PullMessages", "<x:Timeout>PT0S</x:Timeout>")
    yield (EVENTS, "PullMessages"), Row(body, ("manage",))
    for local in ("GetSystemDateAndTime", "GetServices", "GetCapabilities", "GetDeviceInformation"):
        body = operation(DEVICE, local)
        yield (DEVICE, local), Row(body, EVERYBODY, path=soap)
    yield (
        (WSMAN_IDENTITY, "Identify"),
        Row(operation(WSMAN_IDENTITY, "Identify"), EVERYBODY, path="/wsman"),
    )
    yield (MEX, "GetMetadata"), Row(operation(MEX, "GetMetadata"), EVERYBODY, path=soap)
    body = operation(MANAGEMENT, "ListSubscriptions")
    yield (MANAGEMENT, "ListSubscriptions"), Row(body, ("operate",), path=soap)
    body = operation(MANAGEMENT, "DeleteSubscriptions", "<x:Id>nothing</x:Id>")
    yield (MANAGEMENT, "DeleteSubscriptions"), Row(body, ("operate",), path=soap)


ROWS = dict(rows())


@dataclass
class Door:
    """A gateway, keys of users by the one right that each has, and the address of a subscription
    that another user made."""

    run: Running
    keys: dict[str, str]
    manager: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Door]:
    folder = tmp_path_factory.mktemp("gateway")
    file = folder / "identities.toml"
    keys = {"everything": create_identities(file)}
    for right in EVERYBODY:
        add_user(file, right, None, [])
        keys[right] = add_key(file, right)
        if right != "nobody":
            add_rule(file, {"who": [f"user:{right}"], "may": [right]})
    keys["expired"] = add_key(file, "publish", (), datetime.now(UTC) - timedelta(days=1))
    async with running(folder / "data", identities=file) as run, consumers() as others:
        key = {"authorization": f"Bearer {keys['everything']}"}
        body = SPEAKER.wsn_subscribe(others.url("a"))
        answer = await run.post(SPEAKER.envelope(body, message_id=fresh_id()), **key)
        yield Door(run, keys, manager_path(answer.message))


at_the_door = pytest.mark.asyncio(loop_scope="module")


async def ask(door: Door, row: Row, who: str) -> Answer:
    headers = {"authorization": f"Bearer {door.keys[who]}"} if who else {}
    octets = row.call or row.speaker.envelope(row.body, message_id=fresh_id())
    return await door.run.post(octets, row.path or door.manager, **headers)


@at_the_door
async def test_all_that_is_described_is_asked(door: Door) -> None:
    described = set()
    index = (await door.run.request("GET", "/soap?wsdl")).body.decode()
    for name in {"", *re.findall(r"wsdl=([a-z0-9.-]+)", index)}:
        answer = await door.run.request("GET", f"/soap?wsdl={name}" if name else "/soap?wsdl")
        root = etree.fromstring(answer.body)
        elements = {
            message.get("name"): etree.QName(_expanded(part, "element"))
            for message in root.iter(f"{WSDL}message")
            for part in message.iter(f"{WSDL}part")
            if part.get("element")
        }
        for each in root.iter(f"{WSDL}operation"):
            asked = each.find(f"{WSDL}input")
            if etree.QName(each.getparent()).localname != "portType" or asked is None:
                continue
            element = elements.get(asked.get("message", "").rpartition(":")[2])
            described.add(
                (element.namespace, element.localname) if element else ("", each.get("name"))
            )
    assert len(described) > 50
    assert described - ROWS.keys() == set()


def _expanded(element: etree._Element, attribute: str) -> str:
    prefix, _, local = element.get(attribute, "").rpartition(":")
    return f"{{{element.nsmap[prefix or None]}}}{local}"


@at_the_door
async def test_each_with_each_right(door: Door) -> None:
    """Without the right it is refused for that; with it, whatever becomes of it otherwise. What
    ends the subscription is asked last."""
    wrong = []
    order = sorted(ROWS, key=lambda one: one[1] in ("Unsubscribe", "Destroy", "DestroyPullPoint"))
    for name in order:
        row = ROWS[name]
        asked = ["", "expired", "nobody", *(one for one in SINGLE if one not in row.may)]
        for who in (*asked, *(one for one in SINGLE if one in row.may)):
            answer = await ask(door, row, who)
            refused = re.search(
                rb"(Say who you are|You have no right|There is no such key)", answer.body
            )
            allowed = who in row.may or ("nobody" in row.may and who != "expired")
            status = answer.status
            if (refused is None) != allowed or status == 404 or (refused and status < 400):
                wrong.append((name, who, status, answer.body[-300:]))
    assert wrong == []


LIMITED = {"who": ["user:nobody"], "may": ["subscribe"], "topics": ["calm"]}
TELL_TOPICS = (
    operation(EVENTS, "GetEventProperties"),
    operation(RP, "GetResourceProperty", "n:TopicExpression"),
    operation(MEX, "GetMetadata"),
)


async def test_whoever_may_subscribe_to_some_topics_is_told_of_these_alone(tmp_path: Path) -> None:
    file = tmp_path / "identities.toml"
    keys = {"everything": create_identities(file)}
    add_user(file, "nobody", None, [])
    keys["nobody"] = add_key(file, "nobody")
    add_rule(file, LIMITED)
    async with running(tmp_path / "data", identities=file) as run:
        door = Door(run, keys, "/soap")
        for topic in ("calm", "storms"):
            row = Row(notify(notification_message(f"<of-{topic}/>", topic)), ())
            assert (await ask(door, row, "everything")).status == 202
        told = {
            (body[3:20], who): [topic in answer.body.decode() for topic in ("calm", "storms")]
            for body in TELL_TOPICS
            for who in keys
            for answer in [await ask(door, Row(body, ()), who)]
        }
        assert {
            who: {tuple(one) for (_, asker), one in told.items() if asker == who} for who in keys
        } == {
            "everything": {(True, True)},
            "nobody": {(True, False)},
        }
        answer = await ask(door, Row(TELL_TOPICS[2], ()), "")
        assert answer.status == 200 and b"calm" not in answer.body
