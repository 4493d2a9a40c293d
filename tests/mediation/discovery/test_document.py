"""What docs/discovery-messages.md shows: its messages can be read, its program runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from mediation.discovery import (
    Delegation,
    DelegationRevocation,
    Possession,
    SignedTopicAdvertisement,
    TopicWithdrawal,
    check_finished,
    encrypt,
    read,
    read_advertisement,
)
from tests.conftest import ROOT
from tests.rigs.discovery_keys import parties

PAGE = (ROOT / "docs" / "discovery-messages.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_its_messages_can_be_read() -> None:
    messages = [read(block.strip().encode()) for block in blocks("xml") if "<tdn:" in block]
    kinds = {type(message.value) for message in messages}
    assert kinds == {
        TopicWithdrawal,
        SignedTopicAdvertisement,
        Delegation,
        DelegationRevocation,
        Possession,
    }
    for message in messages:
        if isinstance(message.value, SignedTopicAdvertisement):
            inside = read_advertisement(message.value.advertisement).value
            assert inside.topic_id == message.value.topic_id
            check_finished(inside.synopsis, inside.topic_id)  # type: ignore[union-attr]


def test_its_encryption_is_ours() -> None:
    """Every algorithm that the page shows, and no other, is in what we write."""
    people = parties()
    ours = encrypt(b"<a/>", people.consumer_id, people.consumer.certificate).decode()
    [shown] = [block for block in blocks("xml") if "<xenc:EncryptedData" in block]
    pattern = r'<(\S+) (?:xmlns\S* )*?Algorithm="([^"]*)"'
    assert re.findall(pattern, shown) == re.findall(pattern, ours)


@pytest.mark.slow
def test_its_program_runs(tmp_path: Path) -> None:
    people = parties()
    key = people.producer.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "entity.key").write_bytes(key)
    (tmp_path / "entity.pem").write_bytes(people.producer.certificate.public_bytes(Encoding.PEM))
    authority = people.entity_authority.certificate.public_bytes(Encoding.PEM)
    (tmp_path / "authority.pem").write_bytes(authority)
    [program] = blocks("python")
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{program}"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(people.producer_id)
