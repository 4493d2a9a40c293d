"""What doctor, and a gateway at its start, say of the key and the certificates of a node."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.checks import Verdict
from gateway.checks.discovery import check_discovery
from gateway.discovery.node_factory import DiscoveryUnusable
from gateway.settings.settings import Settings
from tests.rigs.discovery_keys import BEGINS, ec_key, parties, rsa_key
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.gateways import running


def said(settings: Mapping[str, Any]) -> list[tuple[Verdict, str]]:
    found = check_discovery(Settings(**settings))
    return [(finding.verdict, str(finding)) for finding in found]


def pem(settings: Mapping[str, Any], name: str, octets: bytes) -> None:
    settings["discovery"][name].write_bytes(octets)


def test_a_node_that_can_be_made(tmp_path: Path) -> None:
    public = {"public_url": "https://gateway.example.net"}
    (first, text), (second, _) = said({**node_settings(tmp_path), **public})
    assert (first, second) == (Verdict.OK, Verdict.OK)
    assert parties().node_id in text


def test_a_node_needs_a_public_url(tmp_path: Path) -> None:
    _, (verdict, text), _ = said(node_settings(tmp_path))
    assert verdict is Verdict.WARN
    assert "set public_url to the URL that entities use" in text


def test_the_table_is_missing() -> None:
    [(verdict, text)] = said({"discovery_node": True})
    assert verdict is Verdict.FAIL
    assert "[discovery]" in text


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("key", "nothing"), ("key", "another"), ("key", "missing"),
        ("certificate", "expired"), ("certificate", "future"), ("certificate", "nothing"),
        ("node_authorities", "entities"), ("entity_authorities", "nothing"),
    ],
)  # fmt: skip
async def test_one_clear_line(tmp_path: Path, name: str, what: str) -> None:
    settings = node_settings(tmp_path)
    known = parties()
    issue = known.node_authority.issue
    day = timedelta(days=1)
    match what:
        case "nothing":
            pem(settings, name, b"")
        case "missing":
            settings["discovery"][name].unlink()
        case "another":
            key = rsa_key("another").private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
            )
            pem(settings, name, key)
        case "expired":
            old = issue("old", rsa_key("node"), begins=BEGINS, ends=BEGINS + day)
            pem(settings, name, old.public_bytes(Encoding.PEM))
        case "future":
            ends = BEGINS.replace(year=2050)
            new = issue("new", rsa_key("node"), begins=ends - day, ends=ends)
            pem(settings, name, new.public_bytes(Encoding.PEM))
        case "entities":
            pem(settings, name, known.entity_authority.certificate.public_bytes(Encoding.PEM))
    [(verdict, text)] = said(settings)
    assert verdict is Verdict.FAIL
    wrong = "key" if (name, what) == ("certificate", "nothing") else name
    assert wrong in text and "\n" not in text
    with pytest.raises(DiscoveryUnusable, match=rf"discovery\.{wrong}"):
        async with running(tmp_path / "data", **settings):
            pass


def test_nothing_can_be_encrypted_for_an_elliptic_curve(tmp_path: Path) -> None:
    settings = node_settings(tmp_path)
    key = ec_key("node")
    octets = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem(settings, "key", octets)
    certificate = parties().node_authority.issue("node", key)
    pem(settings, "certificate", certificate.public_bytes(Encoding.PEM))
    assert any(
        verdict is Verdict.FAIL and "nothing can be encrypted" in text
        for verdict, text in said(settings)
    )
