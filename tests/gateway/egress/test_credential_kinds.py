"""Rows with credentials: what is refused, and that no text repeats a secret."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.egress import Consumer, ConsumerOptions
from gateway.egress.credential_kinds import MOST, SecretPlace, SecretUnusable

PLACE = {"secret_file": "/run/secret"}
TOKENS = {"kind": "client-credentials", "client_id": "us", **PLACE}


@pytest.mark.parametrize(
    ("address", "credential", "said"),
    [
        ("*", {"kind": "bearer", **PLACE}, "one host"),
        ("https://*.example.org", {"kind": "bearer", **PLACE}, "one host"),
        ("http://a.example.org", {"kind": "bearer", **PLACE}, "allow_http"),
        ("soap.tcp://a.example", {"kind": "username-token", "user": "u", "password": "text", **PLACE}, "allow_http"),
        ("a.example", {"kind": "bearer"}, "name one of"),
        ("a.example", {"kind": "bearer", "secret_variable": "X", **PLACE}, "name one of"),
        ("a.example", {"kind": "basic", **PLACE}, "user"),
        ("a.example", {"kind": "basic", "user": "a:b", **PLACE}, "colon"),
        ("a.example", {"kind": "basic", "user": "a\r\nX: y", **PLACE}, "user"),
        ("a.example", {"kind": "bearer", "token": "in the settings"}, "token"),
        ("a.example", {"kind": "magic", **PLACE}, "kind"),
        ("a.example", {"kind": "api-key", "header": "Content-Length", **PLACE}, "meaning of its own"),
        ("a.example", {"kind": "api-key", "header": "Dragoman-Via", **PLACE}, "meaning of its own"),
        ("a.example", {"kind": "api-key", "header": "X: y", **PLACE}, "header"),
        ("http://a.example", {"kind": "api-key", **PLACE}, "allow_http"),
        ("a.example", {"token_url": "http://id.example/token", **TOKENS}, "allow_http"),
        ("a.example", {"token_url": "soap.tcp://id.example/token", **TOKENS}, "https"),
        ("a.example", {"token_url": "https://u:p@id.example/token", **TOKENS}, "password"),
    ],
)  # fmt: skip
def test_rows_that_are_refused(address: str, credential: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Consumer(address=address, credential=credential)  # of a file


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9/x", "http://[::1]", "http://localhost", "https://a.example"]
)
def test_where_nobody_is_in_between_a_secret_may_be_shown(address: str) -> None:
    row = Consumer(address=address, credential={"kind": "bearer", **PLACE})
    assert row.credential is not None and row.credential.shown == "bearer"


@pytest.mark.parametrize(
    ("octets", "said"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"hush-1\nhush-2\n", "more than one line"),
        (b"hush\x00", "control character"),
        (b"hush\xff", "not text in UTF-8"),
        (b"hush" * MOST, "more than 64 KiB"),
    ],
)
def test_secrets_that_are_unusable(tmp_path: Path, octets: bytes | None, said: str) -> None:
    file = tmp_path / "secret"
    if octets is not None:
        file.write_bytes(octets)
    row = Consumer(address="a.example", credential={"kind": "bearer", "secret_file": file})
    with pytest.raises(SecretUnusable) as unusable:
        ConsumerOptions([row])
    text = unusable.value.text
    assert said in text and f"consumers: a.example: credential: secret_file: {file}" in text
    assert "hush" not in text


@pytest.mark.parametrize("text", ["", "hush", "whsec_x", "whsec_" + "A" * 32 + " x", "whsec_" + "A" * 32 + " whsec_" + "A" * 32 + " whsec_" + "A" * 32])  # fmt: skip
def test_keys_that_are_unusable(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys").write_text(text)
    with pytest.raises(SecretUnusable) as unusable:
        SecretPlace(secret_file=tmp_path / "keys").read_keys("row")
    assert "hush" not in unusable.value.text and "AAAA" not in unusable.value.text


def test_a_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANK_TOKEN", "hush")
    secret = SecretPlace(secret_variable="BANK_TOKEN").read("row")
    assert secret.get_secret_value() == "hush" and "hush" not in repr(secret)
    with pytest.raises(SecretUnusable, match="NO_TOKEN is not set"):
        SecretPlace(secret_variable="NO_TOKEN").read("row")


@pytest.mark.parametrize("kind", ["bearer", "api-key"])
def test_a_secret_that_no_header_may_have(tmp_path: Path, kind: str) -> None:
    (tmp_path / "secret").write_text("h\u00fcsh")
    row = Consumer(
        address="a.example", credential={"kind": kind, "secret_file": tmp_path / "secret"}
    )
    with pytest.raises(SecretUnusable, match="no header may have") as caught:
        ConsumerOptions([row])
    assert "h\u00fcsh" not in caught.value.text
