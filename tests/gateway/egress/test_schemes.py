"""Addresses of schemes that are spoken, and of others."""

import json
from pathlib import Path

import pytest

from gateway.egress import AddressPolicy, AddressRefused, Schemes, Target
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running

GENERAL = "This is not an address to send to: "


class Folder:
    """Reads ``folder:``."""

    def read(self, address: str) -> Target:
        return Target("folder", "here", 0, "/", address)


def refusal(address: str, owner: str | None, policy: AddressPolicy | None = None) -> str:
    schemes = Schemes(
        policy or AddressPolicy(),
        {"folder": Folder(), "mailto": Folder()},
        strangers=frozenset({"mailto"}),
        trusts=lambda who: who == "peer",
    )
    with pytest.raises(AddressRefused) as refused:
        schemes.read(address, owner)
    return refused.value.text


@pytest.mark.parametrize(
    ("owner", "spoken"),
    [
        pytest.param("stranger", "http, https, soap.tcp, soap.tcps, mailto", id="a stranger"),
        pytest.param("peer", "http, https, soap.tcp, soap.tcps, folder, mailto", id="a peer"),
    ],
)
def test_a_scheme_that_is_not_spoken(owner: str, spoken: str) -> None:
    text = refusal("FTP://h.example.org/in", owner)
    assert text == f"Addresses with the scheme ftp are not sent to, but those with {spoken}."


def test_schemes_that_the_operator_closed_are_not_named() -> None:
    text = refusal("ftp://h.example.org/in", None, AddressPolicy(schemes=("https",)))
    assert text.endswith("but those with https, mailto.")


@pytest.mark.parametrize(
    "address", ["", "h.example.org", "http://10.0.0.1:x/", "http:", f"{'a' * 40}://h/", "1:2", ":"]
)
def test_of_everything_else_its_form_is_said(address: str) -> None:
    assert refusal(address, "stranger").startswith(GENERAL)


def test_a_scheme_of_others() -> None:
    schemes = Schemes(AddressPolicy(), {"folder": Folder()})
    assert schemes.read("Folder:/in").scheme == "folder"


async def test_a_subscriber_is_told_which_schemes_are_spoken(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        answer = await run.ask(Speaker(), Speaker().wsn_subscribe("ftp://h.example.org/in"))
        assert answer.status == 400
        assert b"the scheme ftp are not sent to, but those with http, https, " in answer.body


NONE = ["http:///onvif/events", "/onvif/events", "http:/127.0.0.1:8899/x", "http://127.0.0.1:1/%zz"]


@pytest.mark.parametrize("trusted", [True, False])
async def test_form_is_told_apart_from_policy(tmp_path: Path, trusted: bool) -> None:
    """Whoever is trusted is told the setting that can allow an address, and strangers nothing."""
    speaker = Speaker()
    networks = {} if trusted else {"trusted": ("192.0.2.0/24",)}
    async with running(tmp_path, **networks) as run:
        for address in NONE:
            answer = await run.ask(speaker, speaker.wsn_subscribe(address))
            assert answer.status == 400 and b"This is not an address to send to" in answer.body
            assert b"policy" not in answer.body
        answer = await run.ask(speaker, speaker.wsn_subscribe("http://alice:s3cr@127.0.0.1/"))
        assert b"a user or a password before @" in answer.body and b"s3cr" not in answer.body
        answer = await run.ask(speaker, speaker.wsn_subscribe("http://10.0.0.1/"))
        assert b"does not allow to send to this address" in answer.body
        assert (b"egress_allow" in answer.body) is trusted
        answer = await run.ask(speaker, speaker.wsn_subscribe("http://127.0.0.1:81/"))
        assert (answer.status == 200) is trusted, answer.body
        asked = json.dumps({"url": "http://10.1.2.3/wsn", "spec": "wsn-1.3"}).encode()
        answer = await run.api("POST", "/sources", asked)
        assert answer.status == 400 and b"egress_allow" in answer.body
