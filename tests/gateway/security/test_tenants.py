"""Tenants: nothing of one is seen, changed or got by another, by any door; and who asks for it is
answered exactly as one who asks for what never existed."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from gateway.identities.file_editing import add_key, add_user, create_identities
from gateway.publishing import operations
from gateway.security.keys import new_key
from gateway.security.principals import tenant_of
from mediation.names import PUBLISHER
from tests.rigs.cloudevents import STRUCTURED, event
from tests.rigs.consumers import consumers
from tests.rigs.consumers import status as status_of
from tests.rigs.envelopes import (
    CONCRETE,
    Message,
    Speaker,
    fresh_id,
    notification_message,
    notify,
    topic_expression,
    wse_filter,
)
from tests.rigs.gateways import Running, manager_path, running
from tests.rigs.repeats import repeated
from tests.rigs.waiting import DEADLINE, until

SPEAKER = Speaker()
RULES = """
[[tenants]]
name = "acme"

[[tenants]]
name = "umbrella"

[[tenants]]
name = "small"
subscriptions = 1
mailboxes = 1
disk = 200000

[[rights]]
who = ["user:ada", "user:bob", "user:eve", "user:sam"]
may = ["everything"]

[[rights]]
who = ["user:dora"]
may = ["publish", "subscribe", "manage"]
"""
WSE = "http://schemas.xmlsoap.org/ws/2004/08/eventing"
WSE11 = "http://www.w3.org/2011/03/ws-evt"
WSNT = "http://docs.oasis-open.org/wsn/b-2"
WSNB = "http://docs.oasis-open.org/wsn/br-2"
RP, RL = "http://docs.oasis-open.org/wsrf/rp-2", "http://docs.oasis-open.org/wsrf/rl-2"
BOX = "http://org.apache.airavata/ws-messenger/msgbox/2011"
OPERATIONS = (
    f'<e:Renew xmlns:e="{WSE}"><e:Expires>PT1H</e:Expires></e:Renew>',
    f'<e:GetStatus xmlns:e="{WSE}"/>',
    f'<e:Unsubscribe xmlns:e="{WSE}"/>',
    f'<e:Renew xmlns:e="{WSE11}"/>',
    f'<e:GetStatus xmlns:e="{WSE11}"/>',
    f'<e:Unsubscribe xmlns:e="{WSE11}"/>',
    f'<n:Renew xmlns:n="{WSNT}"><n:TerminationTime>PT1H</n:TerminationTime></n:Renew>',
    f'<n:Unsubscribe xmlns:n="{WSNT}"/>',
    f'<n:PauseSubscription xmlns:n="{WSNT}"/>',
    f'<n:ResumeSubscription xmlns:n="{WSNT}"/>',
    f'<n:GetMessages xmlns:n="{WSNT}"/>',
    f'<n:DestroyPullPoint xmlns:n="{WSNT}"/>',
    f'<r:GetResourcePropertyDocument xmlns:r="{RP}"/>',
    f'<r:GetResourceProperty xmlns:r="{RP}" xmlns:n="{WSNT}">n:ConsumerReference'
    "</r:GetResourceProperty>",
    f'<r:QueryResourceProperties xmlns:r="{RP}"><r:QueryExpression '
    'Dialect="http://www.w3.org/TR/1999/REC-xpath-19991116">//*</r:QueryExpression>'
    "</r:QueryResourceProperties>",
    f'<l:SetTerminationTime xmlns:l="{RL}"><l:RequestedTerminationTime>2040-01-01T00:00:00Z'
    "</l:RequestedTerminationTime></l:SetTerminationTime>",
    f'<l:Destroy xmlns:l="{RL}"/>',
    '<t:PullMessages xmlns:t="http://www.onvif.org/ver10/events/wsdl"><t:Timeout>PT0S</t:Timeout>'
    "<t:MessageLimit>9</t:MessageLimit></t:PullMessages>",
    '<t:SetSynchronizationPoint xmlns:t="http://www.onvif.org/ver10/events/wsdl"/>',
    f'<b:takeMessages xmlns:b="{BOX}"/>',
    f'<b:destroyMsgBox xmlns:b="{BOX}"/>',
    notify(notification_message("<storm/>")),
)
"""What is asked of a resource by its address."""

RELAY = "desk-5-0123456789"
"""The token of a relay, which is the default tenant's."""


@dataclass
class Tenants:
    """A gateway, keys of its users by name, and the paths and ids of what ada of acme made."""

    run: Running
    keys: dict[str, str]
    paths: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    async def post(self, who: str, body: str, path: str = "/soap") -> tuple[int, bytes]:
        envelope = SPEAKER.envelope(body, message_id=fresh_id(), to=f"{self.run.url}{path}")
        answer = await self.run.post(envelope, path, type=SPEAKER.type, **self.as_(who))
        return answer.status, answer.body

    async def ask(self, who: str, method: str, path: str, said: object = None) -> tuple[int, bytes]:
        body = b"" if said is None else json.dumps(said).encode()
        answer = await self.run.request(
            method, path, body, content_type="application/json", **self.as_(who)
        )
        return answer.status, answer.body

    def as_(self, who: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.keys[who]}"}


def make_file(folder: Path) -> tuple[Path, dict[str, str]]:
    """A file of identities, and the keys of its users."""
    file = folder / "identities.toml"
    keys = {"administrator": create_identities(file)}
    for name in ("ada", "bob", "eve", "dora", "sam"):
        add_user(file, name, None, [])
        keys[name] = add_key(file, name)
    text = file.read_text()
    of_tenants = (("ada", "acme"), ("bob", "acme"), ("eve", "umbrella"), ("sam", "small"))
    for name, tenant in of_tenants:
        text = text.replace(f'name = "{name}"', f'name = "{name}"\ntenant = "{tenant}"')
    file.write_text(text + RULES)
    return file, keys


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenants(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenants]:
    folder = tmp_path_factory.mktemp("gateway")
    file, keys = make_file(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operations, "LOOKS_AT_ONCE", 1000.0)
        relay = {"token": RELAY, "location": "http://127.0.0.1:1025/"}
        settings = {"identities": file, "relays": (relay,), "console_messages": 100}
        async with running(folder / "data", **settings) as run:
            given = Tenants(run, keys)
            await make_all(given)
            yield given


async def make_all(tenants: Tenants) -> None:
    """Have ada make one of everything that has an address."""
    run, paths = tenants.run, tenants.paths
    nowhere = "http://127.0.0.1:1025/"
    pulls = '<t:CreatePullPointSubscription xmlns:t="http://www.onvif.org/ver10/events/wsdl"/>'
    for body in (
        SPEAKER.wse_subscribe(nowhere), SPEAKER.wse11_subscribe(nowhere),
        SPEAKER.wsn_subscribe(nowhere), pulls,
    ):  # fmt: skip
        status, said = await tenants.post("ada", body)
        assert status == 200, said
        paths.append(manager_path(Message(said)))
    for body in (f'<n:CreatePullPoint xmlns:n="{WSNT}"/>', f'<b:createMsgBox xmlns:b="{BOX}"/>'):
        status, said = await tenants.post("ada", body)
        assert status == 200, said
        key = re.search(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", said.split(b"Body")[1])
        assert key is not None
        kind = "/pullpoints/" if "PullPoint" in body else "/msgbox/clientid/"
        paths.append(kind + key[0].decode())
    for path, said_ in (("/mailboxes", {}), ("/mailboxes", {"all": True})):
        status, said = await tenants.ask("ada", "POST", path, said_)
        assert status == 201, said
        made = json.loads(said)
        paths.append(urlsplit(made["address"]).path)
        tenants.ids.append(made["id"])
    status, said = await tenants.ask(
        "ada", "POST", "/events/subscriptions", {"sink": nowhere, "protocol": "HTTP"}
    )
    assert status == 201, said
    paths.append(f"/events/subscriptions/{json.loads(said)['id']}")
    tenants.ids += [entry.id for entry in run.gateway.subscriptions.entries]


LISTS = {
    f"/api/v1/{path}": name
    for path, name in (
        *((name, name) for name in ("tenants", "subscriptions", "mailboxes")),
        ("deadletters", "dead_letters"),
        ("messages", "messages"),
        ("destinations", "destinations"),
    )
}
"""Lists of the administration that show each tenant its own."""


CHOOSES = ("/api/v1/subscriptions", "/api/v1/deadletters/redrive", "/api/v1/deadletters/purge")
"""What a tenant may ask for of its own, and has to say of what."""


def is_of(record: dict[str, Any], tenant: str) -> bool:
    """Whether *record* names the tenant as its owner, as what published it, or as what it is."""
    if "destination" in record:  # Those of all tenants are one host: `test_tenant_views`.
        return record["decides"] is False and record["failures"] == 0
    owner = record.get("owner") or record.get("by", "").removeprefix(PUBLISHER)
    return bool(owner.startswith(f"tenant:{tenant}:") or record.get("name") == tenant)


at_the_gateway = pytest.mark.asyncio(loop_scope="module")
OTHERS = ("eve", "dora")


def comparable(body: bytes, *names: str) -> bytes:
    """An answer without what differs between two of the same: ids, times, and the name asked for."""
    for name in names:
        body = body.replace(name.encode(), b"NAME")
    body = re.sub(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", b"KEY", body)
    return re.sub(rb"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)", b"TIME", body)


@at_the_gateway
@pytest.mark.parametrize("who", OTHERS)
async def test_no_operation_tells_what_is_another_tenant_s(tenants: Tenants, who: str) -> None:
    """Of WS-Eventing, WS-Notification, WSRF, ONVIF and message boxes, at each address."""
    wrong = []
    for path in tenants.paths:
        before, _, key = path.rpartition("/")
        if before == "/events/subscriptions":
            continue
        other = new_key()
        for body in OPERATIONS:
            found = await tenants.post(who, body, path)
            never = await tenants.post(who, body, f"{before}/{other}")
            if found[0] != never[0] or comparable(found[1], key) != comparable(never[1], other):
                wrong.append((path, body[:60], found, never))
    assert wrong == []
    await still_there(tenants)


@at_the_gateway
async def test_no_operation_tells_what_is_the_default_tenant_s(tenants: Tenants) -> None:
    """Channels, publishers' registrations, mailboxes and subscriptions of those whose tenant has no
    name, each asked by who operates in another."""
    paths = await of_the_default_tenant(tenants)
    asked = (
        *OPERATIONS,
        SPEAKER.wse_subscribe("http://127.0.0.1:1025/", filter=wse_filter("/never")),
        SPEAKER.wsn_subscribe("http://127.0.0.1:1025/", filter=topic_expression("never")),
        f'<b:DestroyRegistration xmlns:b="{WSNB}"/>',
        f'<n:GetCurrentMessage xmlns:n="{WSNT}"><n:Topic Dialect="http://docs.oasis-open.org/wsn/'
        't-1/TopicExpression/Concrete">storms</n:Topic></n:GetCurrentMessage>',
        "<storm/>",
    )
    wrong: list[object] = []
    for path in paths:
        before, _, key = path.rpartition("/")
        other = new_key() if "-" in key else "nowhere"
        for body in asked:
            found = await tenants.post("eve", body, path)
            never = await tenants.post("eve", body, f"{before}/{other}")
            if found[0] != never[0] or comparable(found[1], key) != comparable(never[1], other):
                wrong.append((path, body[:60], found, never))
        for query in ("", "?wsdl", "?wsdl=grid-events", "?WSDL"):
            answers = [
                await tenants.ask("eve", "GET", f"{before}/{one}{query}") for one in (key, other)
            ]
            if answers[0][0] != answers[1][0] or (
                comparable(answers[0][1], key) != comparable(answers[1][1], other)
            ):
                wrong.append((path, query, *answers))
    assert wrong == []
    there = json.loads((await tenants.ask("administrator", "GET", "/api/v1/channels"))[1])
    assert [one["name"] for one in there["channels"]] == ["lab"]
    assert (await tenants.post("administrator", OPERATIONS[1], paths[0]))[0] == 200


async def of_the_default_tenant(tenants: Tenants) -> list[str]:
    """The paths of what the administrator makes: a subscription first."""
    paths, nowhere = [], "http://127.0.0.1:1025/"
    never = wse_filter("/never")
    status, said = await tenants.post("administrator", SPEAKER.wse_subscribe(nowhere, filter=never))
    assert status == 200, said
    paths.append(manager_path(Message(said)))
    status, said = await tenants.ask("administrator", "POST", "/mailboxes", {})
    assert status == 201, said
    paths.append(urlsplit(json.loads(said)["address"]).path)
    status, said = await tenants.ask("administrator", "POST", "/api/v1/channels", {"name": "lab"})
    assert status == 201, said
    paths.append("/soap/channel/lab")
    register = (
        f'<b:RegisterPublisher xmlns:b="{WSNB}" xmlns:n="{WSNT}"><b:Topic Dialect="http://docs.'
        'oasis-open.org/wsn/t-1/TopicExpression/Concrete">storms</b:Topic><b:Demand>false'
        "</b:Demand></b:RegisterPublisher>"
    )
    status, said = await tenants.post("administrator", register)
    assert status == 200, said
    paths.append(manager_path(Message(said)))
    return paths


@at_the_gateway
@pytest.mark.parametrize("who", OTHERS)
async def test_no_route_tells_what_is_another_tenant_s(tenants: Tenants, who: str) -> None:
    """Each of OpenAPI, with each id and key of another tenant, answers as to an unknown one."""
    described = json.loads((await tenants.ask("administrator", "GET", "/openapi.json"))[1])
    paths = tenants.paths[2:]  # Of each kind one or two.
    names = [path.rpartition("/")[2] for path in paths] + tenants.ids[:2]
    wrong = []
    for path, methods in described["paths"].items():
        passed_by = ["/soap", "/schemas", "/events/consents"]
        if who == "dora":  # Who may not operate is refused there, whatever it asks for.
            passed_by.append("/api")
        if "{" not in path or path.startswith(tuple(passed_by)):
            continue
        for method in methods:
            for name in names:
                other = new_key() if "-" in name else "0123456789ab"
                if name.isdigit():  # Where a number is wanted, another one is.
                    other = "123456789012"
                answers = []
                for one in (name, other):
                    concrete = re.sub(r"\{[^}]*\}", one, path)
                    status, body = await tenants.ask(who, method.upper(), concrete, {})
                    answers.append((status, comparable(body, one)))
                if answers[0] != answers[1]:
                    wrong.append((method, path, *answers))
    assert wrong == []
    await still_there(tenants)


@at_the_gateway
async def test_the_administration_is_the_default_tenant_s(tenants: Tenants) -> None:
    """All of its routes: who operates in another tenant finds those alone that show it its own."""
    described = json.loads((await tenants.ask("administrator", "GET", "/openapi.json"))[1])
    for path, methods in described["paths"].items():
        if not path.startswith(("/api/v1", "/xregistry", "/metrics")):
            continue
        for method in methods:
            if path == "/api/v1/tap":  # Its answer has no end: a test of its own.
                continue
            concrete = re.sub(r"\{[^}]*\}", "x", path.replace("{number}", "9"))
            status, said = await tenants.ask("eve", method.upper(), concrete, {})
            if path in LISTS and method == "get":
                found = json.loads(said)[LISTS[path]]
                assert status == 200
                assert all(is_of(one, "umbrella") for one in found), (path, found)
                continue
            if path in CHOOSES:  # What is sent is not enough.
                assert status == 422
                continue
            assert status == 404, (method, path, said)
    for page, status in (
        ("", 200),
        ("/subscriptions", 200),
        ("/destinations", 200),
        ("/mailboxes", 200),
        ("/spool", 404),
    ):
        found, said = await tenants.ask("eve", "GET", f"/console{page}")
        assert found == status, page
        assert b"tenant:acme" not in said
    assert b"tenant:acme" in (await tenants.ask("bob", "GET", "/console/mailboxes"))[1]


async def still_there(tenants: Tenants) -> None:
    """What ada made is as it was: for ada, and for bob of the same tenant, who has the keys."""
    subscriptions = [one for one in tenants.paths if one.startswith("/subscriptions/")]
    assert len(subscriptions) == 4
    for path in subscriptions[:1]:
        for who in ("ada", "bob", "administrator"):
            assert (await tenants.post(who, OPERATIONS[1], path))[0] == 200
    for path in tenants.paths:
        if path.startswith(("/mailboxes/", "/events/subscriptions/")):
            assert (await tenants.ask("ada", "GET", path))[0] == 200, path
    there = {entry.id for entry in tenants.run.gateway.subscriptions.entries}
    assert there >= set(tenants.ids[1:])


@at_the_gateway
async def test_an_event_is_for_its_tenant_alone(tenants: Tenants) -> None:
    """Over SOAP and as a CloudEvent, on the same topic, with the same ids; and current messages."""
    people = ("ada", "eve", "dora")
    async with consumers() as sinks:
        sink = {who: sinks.at(f"/{who}") for who in people}
        for who in people:
            for body in (
                SPEAKER.wse_subscribe(sinks.url(who)),
                SPEAKER.wsn_subscribe(sinks.url(who), filter=topic_expression("storms")),
            ):
                assert (await tenants.post(who, body))[0] == 200
        for who in people:
            storm = f"<storm><n>{who}</n></storm>"
            assert (await tenants.post(who, storm, "/soap/topic/storms"))[0] == 202
            said = event(id="1", source="urn:x", data={"n": who})
            answer = await tenants.run.request(
                "POST", "/events/topic/storms", json.dumps(said).encode(),
                content_type=STRUCTURED, **tenants.as_(who),
            )  # fmt: skip
            assert answer.status == 202
        for who in people:
            await sink[who].have(4)
        await tenants.run.quiet()
        for who in people:
            received = [receipt.body for receipt in sink[who].received]
            assert len(received) == 4, (who, received)
            assert all(who.encode() in octets for octets in received), received
            assert not any(b"urn:dragoman:tenant" in octets for octets in received)
            if who == "dora":  # She may not read.
                continue
            current = (
                f'<n:GetCurrentMessage xmlns:n="{WSNT}"><n:Topic Dialect="http://docs.oasis-open.org'
                '/wsn/t-1/TopicExpression/Concrete">storms</n:Topic></n:GetCurrentMessage>'
            )
            status, said_ = await tenants.post(who, current)
            assert status == 200
            assert who.encode() in said_


@at_the_gateway
async def test_an_explanation_tells_of_its_tenant_alone(tenants: Tenants) -> None:
    """Of topics that others published on, and of where names lead, nothing."""
    for who in ("ada", "eve", "dora"):
        topic = f"/soap/topic/of-{who}"
        assert (await tenants.post(who, "<storm/>", topic))[0] == 202
    await tenants.run.quiet()
    everything = topic_expression("*", CONCRETE.replace("Concrete", "Full"))
    body = SPEAKER.wsn_subscribe("http://localhost:1025/", filter=everything)
    before = {entry.id for entry in tenants.run.gateway.subscriptions.entries}
    assert (await tenants.post("ada", body))[0] == 200
    [id_] = {entry.id for entry in tenants.run.gateway.subscriptions.entries} - before
    said = {}
    for who in ("bob", "administrator", "eve"):
        status, explained = await tenants.ask(
            who, "POST", f"/api/v1/subscriptions/{id_}/explain", {}
        )
        said[who] = (status, explained.decode())
    assert said["eve"][0] == 404
    for who in ("bob", "administrator"):
        assert said[who][0] == 200 and "of-ada" in said[who][1], said[who]
        assert "of-eve" not in said[who][1] and "of-dora" not in said[who][1]
    assert "127.0.0.1" in said["administrator"][1] and "127.0.0.1" not in said["bob"][1]
    for who, status in (("bob", 200), ("eve", 404)):
        path = f"/api/v1/subscriptions/{id_}/request"
        assert (await tenants.ask(who, "GET", path))[0] == status


@at_the_gateway
async def test_who_sees_that_a_channel_is_there(tenants: Tenants) -> None:
    """By its description: who may publish, subscribe or read in the default tenant, and nobody
    else, with credentials that prove nothing or without any."""
    run, path = tenants.run, "/soap/channel/seen"
    status, said = await tenants.ask("administrator", "POST", "/api/v1/channels", {"name": "seen"})
    assert status == 201, said
    wanted = {"administrator": 200, "dora": 200, "ada": 404, "eve": 404}
    for who, status in wanted.items():
        for query in ("?wsdl", "?wsdl=grid-events"):
            assert (await tenants.ask(who, "GET", path + query))[0] == status, who
    for authorization in ("Bearer drg_unknown", "Basic eDp5", None):
        headers = {} if authorization is None else {"authorization": authorization}
        answers = [
            await run.request("GET", f"/soap/channel/{one}?wsdl", b"", **headers)
            for one in ("seen", "never")
        ]
        assert [one.status for one in answers] == [404, 404], authorization
        assert answers[0].body == answers[1].body


@at_the_gateway
async def test_each_tenant_s_messages_are_its_own(tenants: Tenants) -> None:
    """Listed, traced, with what is in them, and as they pass; by ids that all of them chose."""
    people = ("ada", "eve", "administrator")
    nowhere = "http://127.0.0.1:1025/"
    topic, own = "own/messages", "urn:own-id"
    for who in people[:2]:
        body = SPEAKER.wsn_subscribe(nowhere, filter=topic_expression(topic))
        assert (await tenants.post(who, body))[0] == 200
    async with AsyncExitStack() as stack:
        told = {who: await stack.enter_async_context(tapping(tenants, who)) for who in people}
        for who in people:
            envelope = SPEAKER.envelope(
                f"<storm><n>{who}</n></storm>", message_id=own, to=tenants.run.url
            )
            path = f"/soap/topic/{topic}"
            answer = await tenants.run.post(envelope, path, type=SPEAKER.type, **tenants.as_(who))
            assert answer.status == 202
        for who in people:
            others = {one for one in people if one != who}
            read = (await told[who](who)).decode()
            assert own in read
            if who == "administrator":
                assert "<n>ada" in read and "<n>eve" in read
            else:
                assert not any(f"<n>{other}" in read or f"user:{other}" in read for other in others)
                assert "urn:dragoman:tenant" not in read
    ids = {own}
    for who in ("ada", "eve"):
        tenant, [other] = {"ada": "acme", "eve": "umbrella"}[who], {"ada", "eve"} - {who}
        listed = json.loads((await tenants.ask(who, "GET", "/api/v1/messages"))[1])["messages"]
        assert own in [one["id"] for one in listed]
        assert all(is_of(one, tenant) for one in listed)
        assert all("urn:dragoman" not in (one["topic"] or "") for one in listed)
        there = await tenants.ask(who, "GET", f"/api/v1/messages/{own}?content=true")
        [traced] = json.loads(there[1])["messages"]
        assert traced["topic"] == topic
        # How many there are depends on what has ended by now: whose they are does not.
        entries = tenants.run.gateway.subscriptions.entries
        own_ids = {one.id for one in entries if tenant_of(one.subscription.owner) == tenant}
        assert 1 <= traced["matched"] <= len(own_ids)
        fates = (*traced["deliveries"], *traced["waiting"], *traced["dead"])
        assert {one["subscription"] for one in fates} <= own_ids
        assert is_of(traced, tenant)
        assert who in traced["content"]["came"]["body"]["text"]
        assert traced["content"]["understood"]["topic"] == topic
        # Not the bare name: "ada" is in many an id in hex.
        assert not any(f"{before}{other}".encode() in there[1] for before in ("user:", "<n>"))
        assert b"urn:dragoman:tenant" not in there[1]
        ids |= {one["id"] for one in listed}
    everything = json.loads((await tenants.ask("administrator", "GET", "/api/v1/messages"))[1])
    assert sum(one["id"] == own for one in everything["messages"]) == 3
    traced = json.loads((await tenants.ask("administrator", "GET", f"/api/v1/messages/{own}"))[1])
    assert len(traced["messages"]) == 3
    # What one tenant alone has is to another as what never was.
    path = "/soap/topic/of-ada-alone"
    assert (await tenants.post("ada", "<storm/>", path))[0] == 202
    lists = {
        who: json.loads((await tenants.ask(who, "GET", "/api/v1/messages"))[1])["messages"]
        for who in ("ada", "eve")
    }
    hers = {one["id"] for one in lists["ada"]} - {one["id"] for one in lists["eve"]}
    assert hers
    for id_ in (*hers, "urn:never"):
        found = await tenants.ask("eve", "GET", f"/api/v1/messages/{id_}?content=true")
        assert found[0] == 404, id_
    for who, status in (("dora", 403), ("ada", 200), ("sam", 200)):
        assert (await tenants.ask(who, "GET", "/api/v1/messages"))[0] == status


@asynccontextmanager
async def tapping(
    tenants: Tenants, who: str
) -> AsyncIterator[Callable[[str], Coroutine[None, None, bytes]]]:
    """The tap as *who* sees it, with payloads; a function that reads until something is told, and
    all that is told in that second."""
    run = tenants.run
    watchers = run.gateway.dispatchers.scheduler.taps.watchers
    before = len(watchers)
    reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
    lines = (
        "GET /api/v1/tap?payload=true HTTP/1.1", f"Host: 127.0.0.1:{run.port}",
        f"Authorization: {tenants.as_(who)['authorization']}", "", "",
    )  # fmt: skip
    writer.write("\r\n".join(lines).encode())

    async def read(until_said: str) -> bytes:
        said = b""
        async with asyncio.timeout(DEADLINE):
            while f"<n>{until_said}".encode() not in said:
                said += await reader.read(65536)
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while True:
                    said += await reader.read(65536)
        return said

    await run.until(lambda: len(watchers) > before)
    yield read
    writer.close()
    await writer.wait_closed()


@at_the_gateway
async def test_watchers_of_tenants_leave_room_for_operators(tenants: Tenants) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(tapping(tenants, "eve"))
        status, said = await tenants.ask("eve", "GET", "/api/v1/tap")
        assert (status, b"2 watch already" in said) == (503, True)
        for who in ("ada", "administrator"):
            await stack.enter_async_context(tapping(tenants, who))


@at_the_gateway
async def test_a_topic_of_the_messaging_system_is_refused(tenants: Tenants) -> None:
    """No publisher names the topic of another tenant as the messaging system knows it."""
    for who in OTHERS:
        said = event(data=1, topic="{urn:dragoman:tenant}acme/storms")
        answer = await tenants.run.request(
            "POST", "/events", json.dumps(said).encode(),
            content_type=STRUCTURED, **tenants.as_(who),
        )  # fmt: skip
        assert answer.status == 400, answer.body


@at_the_gateway
async def test_a_relay_is_the_default_tenant_s(tenants: Tenants) -> None:
    """Another finds none, though it knows the token, and though the relay is broken, as here."""
    wanted = {"ada": (404, 404), "dora": (502, 404)}
    for who, statuses in wanted.items():
        answers = [await tenants.post(who, "<a/>", f"/relay/{one}") for one in (RELAY, "other")]
        assert tuple(status for status, _ in answers) == statuses, answers
        if who == "ada":
            assert answers[0] == answers[1]


@at_the_gateway
async def test_quotas(tenants: Tenants) -> None:
    """Of all users of a tenant together; each refusal is the fault of what was asked."""
    nowhere = "http://127.0.0.1:1025/"
    bodies = (SPEAKER.wse_subscribe(nowhere), SPEAKER.wsn_subscribe(nowhere))
    before = json.loads((await tenants.ask("sam", "GET", "/api/v1/tenants/small"))[1])
    refused = {name: count["refused"] for name, count in before.items() if "refused" in str(count)}
    assert (await tenants.post("sam", bodies[0]))[0] == 200
    faults = (b"EventSourceUnableToProcess", b"SubscribeCreationFailedFault")
    for body, fault in zip(bodies, faults, strict=True):
        status, said = await tenants.post("sam", body)
        assert status in (400, 500)
        assert fault in said, said
        assert b"The tenant small may have 1 subscriptions, by its quota" in said
    wanted = {"sink": nowhere, "protocol": "HTTP"}
    status, said = await tenants.ask("sam", "POST", "/events/subscriptions", wanted)
    assert (status, b"its quota 'subscriptions'" in said) == (403, True)
    with repeated():  # A transaction that is tried again refuses once.
        assert (await tenants.ask("sam", "POST", "/mailboxes", {}))[0] == 201
        status, said = await tenants.ask("sam", "POST", "/mailboxes", {})
    assert (status, b"its quota 'mailboxes'" in said) == (403, True)
    for who in ("sam", "administrator"):
        status, said = await tenants.ask(who, "GET", "/api/v1/tenants/small")
        found = json.loads(said)
        for name, count in (("subscriptions", 3), ("mailboxes", 1)):
            assert found[name] == {"used": 1, "limit": 1.0, "refused": refused[name] + count}
        assert found["messages"] == {"used": None, "limit": None, "refused": 0}
    assert (await tenants.ask("sam", "GET", "/api/v1/tenants/acme"))[0] == 404
    metrics = (await tenants.ask("administrator", "GET", "/metrics"))[1]
    total = sum(refused.values()) + 4
    assert f'dragoman_tenant_refused_total{{tenant="small"}} {total:.1f}'.encode() in metrics
    everyone = json.loads((await tenants.ask("administrator", "GET", "/api/v1/tenants"))[1])
    assert [one["name"] for one in everyone["tenants"]] == ["acme", "small", "umbrella"]


@at_the_gateway
async def test_who_operates_in_a_tenant_reaches_its_own(tenants: Tenants) -> None:
    """Lists, what is in them, and selections to end: nothing else of the gateway."""
    run = tenants.run
    there = {one.id: one.subscription.owner for one in run.gateway.subscriptions.entries}
    for who, tenant in (("bob", "acme"), ("administrator", "")):
        for query in ("", "?sort=owner", "?state=active&state=failing"):
            status, said = await tenants.ask(who, "GET", f"/api/v1/subscriptions{query}")
            assert status == 200
            found = {one["id"] for one in json.loads(said)["subscriptions"]}
            own = {id_ for id_, owner in there.items() if owner.startswith(f"tenant:{tenant}:")}
            assert found == (own if tenant else there.keys())
        boxes = json.loads((await tenants.ask(who, "GET", "/api/v1/mailboxes"))[1])["mailboxes"]
        assert all(is_of(one, "acme") for one in boxes) == bool(tenant)
        assert len(boxes) >= 4
    id_ = tenants.ids[0]
    assert (await tenants.ask("bob", "GET", f"/api/v1/mailboxes/{id_}"))[0] == 200
    id_ = next(id_ for id_, owner in there.items() if owner == "tenant:acme:user:ada")
    for action in ("pause", "resume", "renew"):
        path = f"/api/v1/subscriptions/{id_}/{action}"
        assert (await tenants.ask("bob", "POST", path, {}))[0] == 200
        assert (await tenants.ask("eve", "POST", path, {}))[0] == 404
    for chosen in (f"id={id_}", "all=true"):
        path = f"/api/v1/subscriptions?{chosen}&dry_run=true"
        for who, reached in (("bob", True), ("eve", False), ("administrator", True)):
            status, said = await tenants.ask(who, "DELETE", path)
            assert status == 200
            assert (id_ in json.loads(said)["ids"]) == reached, (who, chosen)


async def test_tenants_after_a_restart(tmp_path: Path) -> None:
    """What was stored is matched with its tenant's events again, and with no others."""
    file, keys = make_file(tmp_path)
    async with consumers() as sinks:
        sink = sinks.at("/ada")
        async with running(tmp_path / "data", identities=file) as run:
            before = Tenants(run, keys)
            for body in (
                SPEAKER.wse_subscribe(sinks.url("ada")),
                SPEAKER.wsn_subscribe(sinks.url("ada"), filter=topic_expression("storms")),
            ):
                assert (await before.post("ada", body))[0] == 200
        async with running(tmp_path / "data", identities=file) as run:
            after = Tenants(run, keys)
            for number, who in enumerate(("dora", "eve", "administrator", "bob")):
                storm = f"<storm><n>{number}</n></storm>"
                assert (await after.post(who, storm, "/soap/topic/storms"))[0] == 202
            assert await sink.have(2) == ["3", "3"]
            await run.quiet()
        assert sink.numbers == ["3", "3"]


@at_the_gateway
async def test_dead_letters_are_their_tenant_s(tenants: Tenants) -> None:
    """Listed, shown, counted, redriven and purged: each tenant its own."""
    run = tenants.run
    async with consumers() as sinks:
        for who in ("bob", "eve"):
            sinks.at(f"/dies/{who}").behaviour = status_of(400)
            body = SPEAKER.wsn_subscribe(sinks.url(f"dies/{who}"), filter=topic_expression("dying"))
            assert (await tenants.post(who, body))[0] == 200
            assert (await tenants.post(who, "<dying/>", "/soap/topic/dying"))[0] == 202
            await until(partial(has_letter, tenants, who))
        numbers = {who: await letters_of(tenants, who) for who in ("bob", "eve")}
    assert len(await letters_of(tenants, "administrator")) >= 2
    for who, other in (("bob", "eve"), ("eve", "bob")):
        [own], [foreign] = numbers[who], numbers[other]
        found = [
            (await tenants.ask(who, "GET", f"/api/v1/deadletters/{n}"))[0] for n in (own, foreign)
        ]
        assert found == [200, 404]
        for action in ("redrive", "purge"):
            for chosen, number in (
                ({"all": True}, 1), ({"numbers": [foreign]}, 0), ({"numbers": [own, foreign]}, 1),
            ):  # fmt: skip
                path = f"/api/v1/deadletters/{action}"
                status, said = await tenants.ask(who, "POST", path, chosen | {"dry_run": True})
                assert (status, json.loads(said)["number"]) == (200, number), (action, chosen)
    assert (await tenants.ask("eve", "POST", "/api/v1/deadletters/purge", {"all": True}))[0] == 200
    assert await letters_of(tenants, "eve") == []
    assert await letters_of(tenants, "bob") == numbers["bob"]
    await run.quiet()


async def has_letter(tenants: Tenants, who: str) -> bool:
    return bool(await letters_of(tenants, who))


async def letters_of(tenants: Tenants, who: str) -> list[int]:
    """The numbers of the dead letters that *who* sees, of those that died here."""
    path = "/api/v1/deadletters?topic=dying"

    status, said = await tenants.ask(who, "GET", path)
    assert status == 200, said
    return [one["number"] for one in json.loads(said)["dead_letters"]]
