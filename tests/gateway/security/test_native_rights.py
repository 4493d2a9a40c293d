"""Rights of a broker's users: what is theirs, and who gets it."""

from datetime import UTC, datetime
from pathlib import Path

import pika
import pytest
from stomp.utils import Frame

from adapters.rabbitmq import messages as amqp
from adapters.stomp import messages as stomp
from filters import Step, Topic
from gateway.security.audit import AuditLog
from gateway.security.audit_chain import read_records
from gateway.security.authentication import Authentication
from gateway.security.identify import Identification
from gateway.security.identities import parse_identities
from gateway.security.native_rights import NativeRights
from mediation.model.messages import Notification
from mediation.names import BROKER_USER
from tests.rigs.identity_provider import DOCUMENTS

STORMS, TIDES = (Topic((Step(None, one),)) for one in ("storms", "tides"))
RULES = b"""
[[tenants]]
name = "acme"

[[rights]]
who = ["broker:north"]
may = ["publish"]
topics = ["tides"]
tenant = "acme"

[[rights]]
who = ["broker:north"]
may = ["publish"]
topics = ["storms"]
"""
OURS = "amqp://broker"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def amqp_source(user: str | None, **headers: str) -> str:
    properties = pika.BasicProperties(user_id=user, headers=headers)
    found, _ = amqp.read(b"<a/>", properties, source=OURS, topic=STORMS, own_user="dragoman")
    return found.source


def stomp_source(own: str | None, **headers: str) -> str:
    frame = Frame("MESSAGE", headers, b"<a/>")
    found, _ = stomp.read(
        frame, id_header="message-id", java=False, source=OURS, topic=STORMS, own_user=own
    )
    return found.source


IN_ACME = f"urn:dragoman:publisher:tenant:acme:native#{BROKER_USER}"
CLAIM = {"cloudEvents_source": "urn:dragoman:publisher:user:administrator"}


@pytest.mark.parametrize(
    ("user", "headers", "source"),
    [
        (None, {}, OURS),
        ("north", {}, f"{BROKER_USER}north"),
        ("north", CLAIM, f"{BROKER_USER}north"),
        ("dragoman", CLAIM, CLAIM["cloudEvents_source"]),
        (None, CLAIM, CLAIM["cloudEvents_source"]),
    ],
)
def test_whose_a_message_of_rabbitmq_is(
    user: str | None, headers: dict[str, str], source: str
) -> None:
    assert amqp_source(user, **headers) == source


@pytest.mark.parametrize(
    ("own", "headers", "source"),
    [
        (None, {"JMSXUserID": "north"}, OURS),  # Anybody may have written it.
        ("dragoman", {"JMSXUserID": "north"}, f"{BROKER_USER}north"),
        ("dragoman", {"JMSXUserID": "north", **CLAIM}, f"{BROKER_USER}north"),
        ("dragoman", {"JMSXUserID": "dragoman", **CLAIM}, CLAIM["cloudEvents_source"]),
        ("dragoman", {}, OURS),
    ],
)
def test_whose_a_message_of_activemq_is(
    own: str | None, headers: dict[str, str], source: str
) -> None:
    assert stomp_source(own, **headers) == source


@pytest.mark.parametrize(
    ("source", "topic", "allowed"),
    [
        (f"{BROKER_USER}north", STORMS, True),
        (f"{BROKER_USER}north", TIDES, False),
        (f"{BROKER_USER}north", None, False),
        (f"{BROKER_USER}south", STORMS, False),
        (OURS, TIDES, True),
        (f"{IN_ACME}north", TIDES, True),
        (f"{IN_ACME}south", TIDES, False),
        ("urn:dragoman:publisher:user:north", TIDES, True),  # It was asked at the gateway.
    ],
)
def test_what_a_user_of_the_broker_may_publish(
    tmp_path: Path, source: str, topic: Topic | None, allowed: bool
) -> None:
    file = tmp_path / "identities.toml"
    authentication = Authentication(parse_identities(RULES, file), file, DOCUMENTS)
    log = AuditLog(tmp_path / "audit.jsonl")
    log.open()
    rights = NativeRights(Identification(authentication=authentication), log)
    message = Notification(id="1", source=source, payload=b"<a/>", time=NOW, topic=topic)
    assert rights.allows(message) is allowed
    log.write()
    refused = [(one["who"], one["did"]) for one in read_records(log.path)]
    assert bool(refused) is not allowed
    if refused:
        owner = source.replace("native#urn:dragoman:publisher:", "")
        owner = owner.removeprefix("urn:dragoman:publisher:")
        assert refused == [(owner, "published at the broker")]
