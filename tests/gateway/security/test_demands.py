"""What must be signed or encrypted is, at every door and in every spelling of an address."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.identities.file_editing import create_identities
from gateway.security.demands import Demand, Demands
from gateway.security.keys import new_key
from gateway.security.resource_addresses import ResourceKind, addressed, resource_at
from gateway.security.rights import Right
from tests.rigs.cases import for_each
from tests.rigs.envelopes import Speaker, fresh_id
from tests.rigs.gateways import Running, running
from tests.rigs.signers import Signers

SPEAKER = Speaker()
KEY = new_key()
FORMS = (
    "{path}", "{path}/", "/proxy{path}", "/a/b{path}", "http://gateway.example{path}",
    "https://g.example:8443/proxy{path}?a=1", "soap.tcp://gateway.example{path}",
)  # fmt: skip
RULES = '\n[[rights]]\nwho = ["anonymous"]\nmay = ["everything"]\n'
EVENT = b'{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": 1}'
SIGNED = "signed"
EVENTS = ("/events", "/events/topic/x")


@for_each("form", FORMS)
@for_each("kind", ResourceKind, ids=lambda kind: kind.name)
def test_every_spelling_of_an_address(kind: ResourceKind, form: str) -> None:
    """Whichever is in the settings; as the request's path, or named by the message alone."""
    for key in (KEY, KEY.upper()):
        address = form.format(path=f"{kind.value}{key}")
        for said in (
            f"{kind.value}{KEY}",
            f"{kind.value}{KEY.upper()}/",
            kind.value,
            kind.value[:-1],
        ):
            demand = Demand.of([said])
            assert demand.covers("/soap", [Right.PUBLISH], addressed("/soap", address)), said
            if form.startswith(("{", "/")):
                assert demand.covers(address, [Right.PUBLISH]), said
        other = Demand.of([f"{kind.value}{new_key()}", "/soap/other"])
        assert not other.covers("/soap", [Right.PUBLISH], resource_at(address))


def test_what_is_not_demanded() -> None:
    demands = Demands.of(["/soap/channel/alarms", "subscribe"], ["/wsman"])
    assert not demands.lacking("/soap/channel/alarm", [Right.PUBLISH])
    assert not demands.lacking("/soap/channel/alarms2", [Right.PUBLISH])
    assert demands.lacking("/soap", [Right.SUBSCRIBE]) == "signed"
    assert demands.lacking("/wsman", [Right.SUBSCRIBE], signed=True) == "encrypted"
    assert not demands.lacking("/wsman", [Right.SUBSCRIBE], signed=True, encrypted=True)


def _identities(folder: Path) -> Path:
    file = folder / "identities.toml"
    create_identities(file)
    file.write_text(file.read_text() + RULES)
    return file


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def all_rights(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """A gateway where everybody may everything, and everything must be signed."""
    folder = tmp_path_factory.mktemp("gateway")
    table = {
        "signers": Signers.make(folder, "mole").authority.certificate,
        "required": [right.value for right in Right],
    }
    identities = _identities(folder)
    async with running(folder / "data", identities=identities, ws_security=table) as found:
        yield found


@pytest.mark.asyncio(loop_scope="module")
async def test_every_route_is_closed(all_rights: Running) -> None:
    """Of the administration, of mailboxes and of events: nothing in them can be signed. What
    everybody may know stays open."""
    answer = await all_rights.request("GET", "/openapi.json")
    doors = [
        (method.upper(), re.sub(r"\{[^}]*\}", "x", path))
        for path, methods in json.loads(answer.body)["paths"].items()
        for method in methods
        if not path.startswith(("/soap", "/schemas", "/events/consents"))
        and path not in ("/healthz", "/readyz")
    ]
    doors += [("GET", "/metrics"), ("GET", "/console/subscriptions")]
    assert len(doors) > 40
    open_ones = []
    for method, path in doors:
        body = EVENT if path.startswith("/events") else b"{}"
        type = "application/cloudevents+json" if path in EVENTS else "application/json"
        answer = await all_rights.request(
            method, path, body if method != "GET" else b"", content_type=type
        )
        if answer.status != 403 or SIGNED.encode() not in answer.body:
            open_ones.append((method, path, answer.status, answer.body[:200]))
    assert open_ones == []


async def test_a_path_by_every_door(tmp_path: Path) -> None:
    table = {
        "signers": Signers.make(tmp_path, "mole").authority.certificate,
        "required": ["/soap/channel/Alarms", "/mailboxes", "/api"],
    }
    async with running(
        tmp_path / "data",
        identities=_identities(tmp_path),
        ws_security=table,
        channels=[{"name": "alarms"}, {"name": "others"}],
    ) as run:
        channel = "/soap/channel/alarms"
        for path, to in (
            (channel, None), ("/soap/channel/ALARMS", None), (f"{channel}/", None),
            (f"/proxy{channel}", None), ("/soap/channel/%61larms", None),
            ("/soap", f"{run.url}{channel}"), ("/soap", f"{run.url}/proxy/soap/channel/ALARMS"),
            ("/wsman", f"{run.url}{channel}/"),
        ):  # fmt: skip
            said = {} if to is None else {"to": to}
            octets = SPEAKER.envelope("<alarm/>", message_id=fresh_id(), **said)
            answer = await run.post(octets, path, type=SPEAKER.type)
            assert b"InvalidSecurity" in answer.body, (path, to, answer.body)
        octets = SPEAKER.envelope("<alarm/>", message_id=fresh_id())
        assert (await run.post(octets, "/soap/channel/others", type=SPEAKER.type)).status == 202
        wanted: tuple[object, ...] = ({}, {"all": True}, {"topic": "a"}, {"xpath": "//a"})
        for each in wanted:
            answer = await run.request(
                "POST", "/mailboxes", json.dumps(each).encode(), content_type="application/json"
            )
            assert answer.status == 403 and SIGNED.encode() in answer.body, (each, answer.body)
        for method in ("GET", "DELETE"):
            answer = await run.request(method, "/api/v1/subscriptions?all=true")
            assert answer.status == 403 and SIGNED.encode() in answer.body, answer.body
        assert (await run.request("GET", "/metrics")).status == 200
