"""The steps of a message, each by itself."""

from dataclasses import replace

import pytest

from filters import Reason, Refused
from gateway.exchange import ACCEPTED, Inbound, Reply
from gateway.security.identify import anonymous
from gateway.security.resource_addresses import ResourceAddress, ResourceKind
from gateway.soap.deposit import deposited, is_deposit, keeps_unread
from gateway.soap.endpoint_rules import rules_at, with_sequences
from gateway.soap.reliable import PassOn
from gateway.soap.topic_paths import topic_of_path
from mediation.model.requests import Context, GetStatus, Incoming, Operation, Rejected, Sequences
from mediation.model.versions import Soap

KEY = "0f0e0d0c-0b0a-4908-8706-050403020100"
INBOUND = Inbound(octets=b"", principal=anonymous("192.0.2.1", trusted=False), base="http://g")


@pytest.mark.parametrize(
    ("kind", "operation", "kept"),
    [
        (ResourceKind.SUBSCRIPTION, Operation.PUBLISH, False),
        (ResourceKind.PULL_POINT, Operation.PUBLISH, True),
        (ResourceKind.PULL_POINT, None, True),
        (ResourceKind.PULL_POINT, Operation.GET_MESSAGES, False),
        (ResourceKind.PULL_POINT, Operation.SUBSCRIBE, False),
        (ResourceKind.MAILBOX, Operation.PUBLISH, True),
        (ResourceKind.MESSAGE_BOX_2011, Operation.SUBSCRIBE, True),
        (ResourceKind.MESSAGE_BOX_2011, Operation.TAKE_MESSAGES, False),
        (ResourceKind.MESSAGE_BOX_2004, Operation.DESTROY_MESSAGE_BOX, False),
    ],
)
def test_deposit(kind: ResourceKind, operation: Operation | None, kept: bool) -> None:
    assert is_deposit(ResourceAddress(kind, KEY), operation) is kept


@pytest.mark.parametrize(
    ("resource", "reason", "kept"),
    [
        (ResourceAddress(ResourceKind.MAILBOX, KEY), Reason.ACTION_UNSUPPORTED, True),
        (ResourceAddress(ResourceKind.MAILBOX, KEY), Reason.NOT_XML, False),
        (ResourceAddress(ResourceKind.MESSAGE_BOX_2011), Reason.MESSAGE_INVALID, False),
        (None, Reason.MESSAGE_INVALID, False),
    ],
)
def test_deposit_unread(resource: ResourceAddress | None, reason: Reason, kept: bool) -> None:
    rejected = Rejected(Context(Soap.V1_1), Refused(reason, "It cannot be read."))
    assert keeps_unread(resource, rejected) is kept


def test_only_a_message_box_of_2011_answers_a_deposit() -> None:
    context = Context(Soap.V1_2)
    kinds = [kind for kind in ResourceKind if deposited(ResourceAddress(kind, KEY), context).body]
    assert kinds == [ResourceKind.MESSAGE_BOX_2011]


async def test_every_message_goes_on() -> None:
    incoming = Incoming(Context(Soap.V1_1), GetStatus())

    async def proceed(inbound: Inbound, read: Incoming) -> Reply:
        assert (inbound, read) == (INBOUND, incoming)
        return ACCEPTED[Soap.V1_1]

    assert await PassOn()(INBOUND, incoming, proceed) is ACCEPTED[Soap.V1_1]


@pytest.mark.parametrize(
    ("path", "topic"),
    [
        ("/soap", None),
        ("/soap/topic/", None),
        ("/soap/topic/a/b", "a/b"),
        ("/soap/topic/{urn:x}a", "{urn:x}a"),
        ("/axis2/services/EventingService/topic/a", "a"),
    ],
)
def test_topic_of_a_path(path: str, topic: str | None) -> None:
    found = topic_of_path(path)
    assert (None if found is None else str(found)) == topic


@pytest.mark.parametrize("name", ["a//b", "unknown:a", "a\ufffdb", "a" * 4097, "{urn:x"])
def test_a_path_that_names_no_topic(name: str) -> None:
    with pytest.raises(Refused) as refused:
        topic_of_path(f"/soap/topic/{name}")
    assert refused.value.reason is Reason.TOPIC_INVALID


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        ("/soap", Sequences.OFFERED),
        ("/soap/", Sequences.OFFERED),
        ("", Sequences.OFFERED),
        ("/soap/topic/orders", Sequences.REQUIRED),
        ("/soap/topic/orders/new", Sequences.REQUIRED),
        ("/soap/topic/orders/old", Sequences.OFF),
        ("/soap/topic/ordersX", Sequences.OFFERED),
        ("/axis2/services/EventingService", Sequences.OFFERED),
        (f"/pullpoints/{KEY}", Sequences.OFF),
        (f"/sources/{KEY}", Sequences.OFF),
        ("/msgbox", Sequences.OFF),
    ],
)
def test_what_endpoints_do_with_sequences(path: str, mode: Sequences) -> None:
    at = {"/soap/topic/orders": Sequences.REQUIRED, "/soap/topic/orders/old": Sequences.OFF}
    rules = with_sequences(rules_at, Sequences.OFFERED, at)
    assert rules(path).sequences is mode
    assert replace(rules(path), sequences=Sequences.OFF) == rules_at(path)
    assert rules(path) is rules(path)
