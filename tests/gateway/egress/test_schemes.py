"""Addresses of schemes that are spoken, and of others."""

from pathlib import Path

import pytest

from gateway.egress import AddressPolicy, AddressRefused, Schemes, Target
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running

GENERAL = "The policy of this gateway does not allow to send to this address."


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
    "address", ["", "h.example.org", "http://10.0.0.1:1/", "http:", f"{'a' * 40}://h/", "1:2", ":"]
)
def test_of_everything_else_nothing_is_said(address: str) -> None:
    assert refusal(address, "stranger") == GENERAL


def test_a_scheme_of_others() -> None:
    schemes = Schemes(AddressPolicy(), {"folder": Folder()})
    assert schemes.read("Folder:/in").scheme == "folder"


async def test_a_subscriber_is_told_which_schemes_are_spoken(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        answer = await run.ask(Speaker(), Speaker().wsn_subscribe("ftp://h.example.org/in"))
        assert answer.status == 400
        assert b"the scheme ftp are not sent to, but those with http, https, " in answer.body
