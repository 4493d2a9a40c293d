"""The bodies of protocol messages: what is refused, and what a version leaves out."""

from datetime import timedelta

import pytest

from filters import Reason
from mediation.model.messages import EndpointReference
from mediation.reliable_messaging import (
    LONGEST_EXPIRY,
    AcknowledgementAlone,
    CreateSequence,
    LastMessage,
    Offer,
    Rm,
    RmSpec,
    SequenceHeader,
    read_message,
    write_message,
)
from tests.rigs.reliable_envelopes import (
    EPR,
    NAMED,
    S12,
    V1_0,
    V1_1,
    W5,
    envelope,
    read,
    refused,
    sequence,
)


def create(inner: str, rm: Rm = V1_1) -> CreateSequence:
    body = read("", f"<r:CreateSequence>{inner}</r:CreateSequence>", rm=rm).body
    assert isinstance(body, CreateSequence)
    return body


ACKS_TO = f"<r:AcksTo>{EPR}</r:AcksTo>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT0S", None), ("-PT0S", None), (" PT1H ", timedelta(hours=1)),
        ("P1M", timedelta(days=30)), ("P999999999Y", LONGEST_EXPIRY),
        ("PT99999999999999999999S", LONGEST_EXPIRY), ("PT0.5S", timedelta(seconds=0.5)),
    ],
)  # fmt: skip
def test_expirations(text: str, expected: timedelta | None) -> None:
    assert create(f"{ACKS_TO}<r:Expires>{text}</r:Expires>").expires == expected


@pytest.mark.parametrize("text", ["", "PT", "-PT1S", "2026-01-01T00:00:00Z", "1"])
def test_no_expirations(text: str) -> None:
    error = refused(
        "",
        f"<r:CreateSequence>{ACKS_TO}<r:Expires>{text}</r:Expires></r:CreateSequence>",
    )
    assert error.reason is Reason.EXPIRY_INVALID


BODIES = [
    pytest.param("<r:CreateSequence/>", Reason.MESSAGE_INVALID, id="no AcksTo"),
    pytest.param(
        "<r:CreateSequence><r:AcksTo/></r:CreateSequence>", Reason.EPR_INVALID, id="no address"
    ),
    pytest.param(
        f"<r:CreateSequence>{ACKS_TO}{ACKS_TO}</r:CreateSequence>",
        Reason.MESSAGE_INVALID,
        id="two AcksTo",
    ),
    pytest.param(
        f"<r:CreateSequence>{ACKS_TO}<r:Offer/></r:CreateSequence>",
        Reason.MESSAGE_INVALID,
        id="an offer without an identifier",
    ),
    pytest.param(
        f"<r:CreateSequence>{ACKS_TO}<r:Offer>{NAMED}<r:IncompleteSequenceBehavior>Keep"
        "</r:IncompleteSequenceBehavior></r:Offer></r:CreateSequence>",
        Reason.MESSAGE_INVALID,
        id="another behaviour",
    ),
    pytest.param(
        f"<r:CreateSequenceResponse>{NAMED}<r:Accept/></r:CreateSequenceResponse>",
        Reason.MESSAGE_INVALID,
        id="an acceptance without AcksTo",
    ),
    pytest.param(
        f"<r:CloseSequence>{NAMED}<r:LastMsgNumber>0</r:LastMsgNumber></r:CloseSequence>",
        Reason.MESSAGE_INVALID,
        id="no message number",
    ),
    pytest.param("<r:Something/>", Reason.ACTION_UNSUPPORTED, id="another element"),
    pytest.param("<r:SequenceAcknowledgement/>", Reason.ACTION_UNSUPPORTED, id="a header block"),
]


@pytest.mark.parametrize(("body", "reason"), BODIES)
def test_bodies_that_are_none(body: str, reason: Reason) -> None:
    assert refused("", body).reason is reason


@pytest.mark.parametrize("name", ["CloseSequence", "TerminateSequenceResponse"])
def test_messages_that_1_0_does_not_have(name: str) -> None:
    body = f"<r:{name}>{NAMED}</r:{name}>"
    assert refused("", body, rm=V1_0).reason is Reason.ACTION_UNSUPPORTED


def test_acks_to_cannot_forge_header_blocks() -> None:
    """Its reference parameters become header blocks of our messages."""
    forged = sequence("1").replace("<r:Sequence>", f'<r:Sequence xmlns:r="{V1_1.namespace}">')
    parameters = f"<wsa:ReferenceParameters>{forged}</wsa:ReferenceParameters>"
    body = f"<r:CreateSequence><r:AcksTo>{EPR}{parameters}</r:AcksTo></r:CreateSequence>"
    assert refused("", body).reason is Reason.EPR_INVALID


def test_an_offer_without_an_endpoint_can_be_declined() -> None:
    assert create(f"{ACKS_TO}<r:Offer>{NAMED}</r:Offer>").offer == Offer("urn:s")
    to = EndpointReference("http://a/", W5)
    body = CreateSequence(to, offer=Offer("urn:s"))
    with pytest.raises(ValueError, match="endpoint"):
        write_message(RmSpec(V1_1, S12, W5), body, to=to)


@pytest.mark.parametrize(
    ("rm", "word", "expected"),
    [
        (V1_0, "LastMessage", LastMessage()),
        (V1_1, "LastMessage", None),
        (V1_1, "SequenceAcknowledgement", AcknowledgementAlone()),
        (V1_0, "CreateSequence", None),
    ],
)
def test_an_empty_body_means_what_the_action_says(rm: Rm, word: str, expected: object) -> None:
    action = f"{rm.namespace}/{word}"
    assert read(f"<wsa:Action>{action}</wsa:Action>", "", rm=rm).body == expected
    assert read_message(envelope("", "", rm=rm), http_action=action).body == expected


def test_a_body_tells_more_than_the_action() -> None:
    """LastMessage on a message of the application is delivered with it."""
    action = f"<wsa:Action>{V1_0.namespace}/LastMessage</wsa:Action>"
    message = read(action + sequence("3"), "<a/>", rm=V1_0)
    assert message.body is None
    assert message.sequence == SequenceHeader("urn:s", 3)
