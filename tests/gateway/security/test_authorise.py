"""Every door asks for a right, and one module makes principals."""

import ast
import json
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import get_args

import pytest
import pytest_asyncio

from filters import Reason, Refused
from gateway.security.authorise import (
    OPEN_TO_TENANTS,
    RIGHTS,
    authorise,
    authorise_request,
    rights_for,
)
from gateway.security.identify import Identification, anonymous
from gateway.security.principals import OF_NAMED, Principal
from gateway.security.rights import Right
from gateway.sequences.operations import PublishInSequence
from gateway.soap.room import SoapRoom
from mediation.model.requests import Publish, Request
from mediation.model.versions import Soap
from mediation.packaging.dime import DimeMessage, Encoder
from tests.conftest import ROOT
from tests.rigs.cases import for_each
from tests.rigs.cloudevents import STRUCTURED, post
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.soap_tcp import RawPeer

SPEAKER = Speaker()
FOR_EVERYBODY = {
    "/healthz": "who sees to it that the gateway lives",
    "/readyz": "who sees to it that the gateway lives",
    "/soap?wsdl": "who makes a client",
    "/events/consents/{key}": "the consumer that was asked, at an address with a key",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nobody_may(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """A gateway at which nobody has any right."""
    with pytest.MonkeyPatch.context() as patch:
        without = partial(Identification, rights=frozenset())
        patch.setattr("gateway.server.peers.Identification", without)
        token = {"token": "t" * 40, "location": "http://127.0.0.1:9/"}
        async with running(
            tmp_path_factory.mktemp("gateway"), soap_tcp_port=0, relays=[token]
        ) as run:
            yield run


at_the_gateway = pytest.mark.asyncio(loop_scope="module")


def test_principals_are_made_in_one_module() -> None:
    """By their class, or by `replace` with a field of theirs."""
    makes = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / "gateway").rglob("*.py")
        if path.name != "identify.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and (
            node.func.id == "Principal"
            or (
                node.func.id == "replace"
                and {"limits", "rights", "owner"} & {one.arg for one in node.keywords}
                and "principal" in ast.unparse(node.args[0])
            )
        )
    ]
    assert makes == []


@at_the_gateway
async def test_every_request_has_its_right(nobody_may: Running) -> None:
    [soap] = [one for one in nobody_may.gateway.application.rooms if isinstance(one, SoapRoom)]
    offered = soap.service._registry.offered
    assert len(offered) > 20
    assert {one for one in offered if not set(one.__mro__) & RIGHTS.keys()} == set()


def test_what_nobody_listed_is_for_operators() -> None:
    assert rights_for(Publish) == rights_for(PublishInSequence) == {Right.PUBLISH}
    assert rights_for(int) == {Right.OPERATE}  # type: ignore[arg-type]


@pytest.mark.parametrize("right", Right)
def test_a_right_that_is_missing(right: Right) -> None:
    somebody = anonymous("127.0.0.1", trusted=True, rights=frozenset(Right) - {right})
    with pytest.raises(Refused) as caught:
        authorise(somebody, right)
    assert caught.value.reason is Reason.NOT_ALLOWED
    for other in somebody.rights:
        authorise(somebody, other)


@at_the_gateway
async def test_no_route_is_open(nobody_may: Running) -> None:
    described = json.loads((await nobody_may.request("GET", "/openapi.json")).body)["paths"]
    routes = [
        (method.upper(), re.sub(r"\{[^}]*\}", "x", path))
        for path, methods in described.items()
        for method in methods
        if path not in FOR_EVERYBODY and not path.startswith(("/soap", "/schemas"))
    ]
    assert len(routes) > 40
    routes += [("GET", "/metrics"), ("POST", f"/relay/{'t' * 40}"), ("POST", "/relay/unknown")]
    routes += [("POST", "/events"), ("POST", "/events/topic/storms")]
    answers = {}
    for method, path in routes:
        if path.startswith("/events") and method == "POST" and "subscriptions" not in path:
            continue  # Below, with an event.
        answer = await nobody_may.request(
            method, path, b"{}" if method != "GET" else b"", content_type="application/json"
        )
        if answer.status != 403:
            answers[method, path] = (answer.status, answer.body[:200])
    assert answers == {}


@at_the_gateway
async def test_events_are_for_who_may_publish(nobody_may: Running) -> None:
    event = b'{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": 1}'
    answer = await post(nobody_may, event, STRUCTURED)
    assert (answer.status, json.loads(answer.body)["reason"]) == (403, "not-allowed")


@at_the_gateway
async def test_soap_is_for_who_may(nobody_may: Running) -> None:
    for body in ("<storm/>", SPEAKER.wse_subscribe("http://consumer.example.org/")):
        answer = await nobody_may.ask(SPEAKER, body)
        assert answer.status >= 400, answer.body
        assert b"You have no right to" in answer.body
    assert nobody_may.gateway.publishing.accepted == 0


@at_the_gateway
async def test_soap_tcp_is_for_who_may(nobody_may: Running) -> None:
    envelope = SPEAKER.envelope(
        SPEAKER.wse_subscribe("http://consumer.example.org/"), message_id="urn:x:1"
    )
    peer = await RawPeer.connect(nobody_may.soap_tcp_port)
    await peer.send(Encoder().encode(DimeMessage(Soap.V1_2, envelope)))
    assert b"You have no right to subscribe" in (await peer.receive()).envelope
    await peer.close()


@at_the_gateway
async def test_some_may_be_for_everybody(nobody_may: Running) -> None:
    for path in FOR_EVERYBODY:
        status = (await nobody_may.request("GET", path)).status
        assert status == (404 if "{key}" in path else 200), path


@for_each("kind", get_args(Request), ids=lambda kind: kind.__name__)
def test_a_request_is_open_to_tenants_or_not_offered_to_them(kind: type[Request]) -> None:
    """Whatever the rights: what nobody listed is the default tenant's alone."""
    principal = Principal("", "tenant:acme:user:a", "", OF_NAMED, name="a", tenant="acme")
    request = object.__new__(kind)
    if kind in OPEN_TO_TENANTS:
        authorise_request(principal, request)
        return
    with pytest.raises(Refused) as refused:
        authorise_request(principal, request)
    assert refused.value.reason is Reason.ACTION_UNSUPPORTED
