"""What commands of topic discovery say when they cannot do their work: one line each."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.cli import main
from mediation.discovery import SignedTopicAdvertisement, read_as
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_topics import made_topic

NOBODY = "http://127.0.0.1:1"
"""Nobody listens on port 1."""
Say = Callable[..., tuple[int, str]]


@pytest.fixture
def say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Say]:
    """Run ``dragoman`` in a folder with the keys of an entity; the exit code, and the error."""
    own = parties().producer
    key = own.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "entity.key").write_bytes(key)
    (tmp_path / "entity.pem").write_bytes(own.certificate.public_bytes(Encoding.PEM))
    node = parties().node_authority.certificate
    (tmp_path / "nodes.pem").write_bytes(node.public_bytes(Encoding.PEM))
    (tmp_path / "event.xml").write_text("<a/>")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["dragoman", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().err

    yield run


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        ("discover keywords=wind", 2, "does not begin a query"),
        ("discover id=7", 2, "'7' is not the id of a topic, a UUID"),
        (
            "discover wind --valid-at-least soon",
            2,
            "'soon' is not a time, as 40s, 90m, 12h and 30d are",
        ),
        ("discover wind --save event.xml", 2, "event.xml is no folder"),
        ("discover wind --save event.xml/below", 2, "event.xml/below is no folder"),
        ("discover wind --creator me", 2, "'me' is not the id of an entity"),
        ("discover text~(", 2, "missing )"),
        ("discover sql:station>", 2, "QUERY"),
        ("discover xpath:///[", 2, "QUERY"),
        ("discover xquery:1+", 2, "QUERY"),
        ("discover wind --topic-key other.xml", 1, "other.xml: No such file or directory"),
        ("hand-on event.xml entity.pem --file nodes.pem", 1, "nodes.pem: exists; name another"),
        ("hand-on event.xml entity.pem", 1, "event.xml: "),
        ("discover wind --key other.key", 1, "other.key: there is no such file; `dragoman topics"),
        ("discover wind --nodes other.pem", 1, "other.pem: there is no such file; name the cert"),
        ("discover wind --nodes entity.key", 1, "entity.key: no certificates in PEM"),
        ("discover wind --entities nodes.pem", 1, "an authority for nodes is one for entities"),
        ("discover wind --certificate nodes.pem", 1, "the key is not that of the certificate"),
        ("discover wind --spec grid-events", 1, "Grid SOAP Events cannot carry topic discovery"),
        ("discover wind --spec cloudevents --pull", 2, "--pull fetches SOAP"),
        ("discover wind --pull --gateway soap.tcp://127.0.0.1:1", 2, "over HTTP alone"),
        ("create wind.xml", 2, "say what the topic is about"),
        ("create event.xml --text Wind", 1, "event.xml: exists; name another file."),
        ("create wind.xml --text Wind --synopsis road:a", 2, "'road' is no type of synopsis"),
        ("create wind.xml --text Wind --synopsis path:a//b", 2, "is not an NCName"),
        ("create wind.xml --text Wind --synopsis tags:uuid=1", 2, "'uuid' is the node's to give"),
        ("create wind.xml --text W --lifetime 40x", 2, "'40x' is not a time, as 40s, 90m, 12h"),
        ("create wind.xml --property a:long=b", 2, "'a:long=b' is no property"),
        ("create wind.xml --document entity.key", 1, "entity.key: "),
        ("create wind.xml --text Wind --gateway NOBODY", 1, "is the gateway running there?"),
        ("advertise nowhere.xml", 1, "nowhere.xml: No such file or directory"),
        ("delegate event.xml museum", 2, "'museum' is not the id of an entity"),
        ("delegate event.xml MUSEUM --right sing", 2, "'sing' is no right"),
        ("delegate event.xml MUSEUM --file nodes.pem", 1, "nodes.pem: exists; name another file"),
        ("delegate event.xml MUSEUM", 1, "event.xml: "),
        ("publish event.xml event.xml", 1, "event.xml: "),
        ("withdraw nowhere.xml", 1, "nowhere.xml: No such file or directory"),
    ],
)
def test_one_line_says_why(say: Say, arguments: str, code: int, why: str) -> None:
    known = {"MUSEUM": parties().consumer_id, "NOBODY": NOBODY}
    words = [known.get(word, word) for word in arguments.split()]
    ended, error = say("topics", *words)
    assert (ended, error.count("\n")) == (code, 1), error
    assert why in error
    assert not Path("wind.xml").exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("--discover wind --topic a", "does not go with --discover"),
        ("--discover keywords=wind", "does not begin a query"),
        ("--discover wind --delegation event.xml", "event.xml: no delegation: "),
        ("--discover wind --gateway NOBODY", "is the gateway running there?"),
    ],
)
def test_listening_says_why(say: Say, arguments: str, why: str) -> None:
    ended, error = say(
        "listen", *[NOBODY if word == "NOBODY" else word for word in arguments.split()]
    )
    assert ended in (1, 2)
    assert error.count("\n") == 1
    assert why in error


def test_a_topic_of_another_is_not_taken_for_ours(say: Say) -> None:
    other = read_as(SignedTopicAdvertisement, made_topic(Speaker(parties().consumer)))
    Path("wind.xml").write_bytes(other.value.advertisement)
    ended, error = say("topics", "delegate", "wind.xml", parties().consumer_id)
    assert ended == 1
    assert f"wind.xml: The topic is of {parties().consumer_id}, and not of " in error
    assert not Path("delegation.xml").exists()
