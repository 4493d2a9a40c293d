"""Who may answer CreateSequence, and with what."""

from dataclasses import replace

import pytest

from gateway.reliability.records import OutgoingSequence
from gateway.reliability.values import NoticeKind
from mediation.model.messages import EndpointReference
from mediation.reliable_messaging import (
    CreateSequenceResponse,
    FaultName,
    RmFault,
    write_message,
    write_rm_fault,
)
from tests.rigs.reliable_ends import CLIENT, SERVICE, Ends

ELSEWHERE = "http://elsewhere.example/rm"


def asked(**client: object) -> Ends:
    """A client whose CreateSequence, with an offer, is on its way to alice."""
    ends = Ends(client=dict(client))
    ends.loses = lambda line: True
    ends.send(replace(ends.channel(offers=True), owner="alice"), "order 1", wants_reply=True)
    ends.settle()
    return ends


def outgoing(ends: Ends) -> OutgoingSequence:
    with ends.client.store.look() as look:
        [sequence] = look.outgoing_page("", 10)
    return sequence


def replies(ends: Ends) -> list[str]:
    """Where the client acknowledges replies to."""
    with ends.client.store.look() as look:
        return [sequence.acks_to.address for sequence in look.incoming_page("", 10)]


def answer(ends: Ends, owner: str | None, accept: str = SERVICE) -> None:
    wsa = ends.wire.wsa
    body = CreateSequenceResponse("urn:made", accept_acks_to=EndpointReference(accept, wsa))
    _, envelope = write_message(
        ends.wire,
        body,
        to=EndpointReference(CLIENT, wsa),
        relates_to=outgoing(ends).create_id,
    )
    ends.take(ends.client, envelope, owner)


@pytest.mark.parametrize("owner", [None, "mallory"])
def test_a_stranger_makes_nothing(owner: str | None) -> None:
    ends = asked()
    before = outgoing(ends)
    answer(ends, owner, ELSEWHERE)
    assert replies(ends) == []
    assert outgoing(ends) == before
    answer(ends, "alice")
    assert replies(ends) == [SERVICE]
    assert outgoing(ends).identifier == "urn:made"


def refuse(ends: Ends, owner: str | None) -> None:
    _, envelope = write_rm_fault(
        ends.wire,
        RmFault(FaultName.CREATE_SEQUENCE_REFUSED),
        about_header=False,
        to=EndpointReference(CLIENT, ends.wire.wsa),
        relates_to=outgoing(ends).create_id,
    )
    ends.take(ends.client, envelope, owner)


@pytest.mark.parametrize("owner", [None, "mallory"])
def test_a_stranger_refuses_nothing(owner: str | None) -> None:
    ends = asked()
    refuse(ends, owner)
    assert ends.client.given_up == []
    refuse(ends, "alice")
    assert len(ends.client.given_up) == 1


def test_an_answer_after_the_end_makes_nothing() -> None:
    ends = asked()
    refuse(ends, "alice")
    assert outgoing(ends).ended_at is not None
    answer(ends, "alice")
    assert replies(ends) == []


def test_an_address_that_is_not_allowed_declines_the_offer() -> None:
    ends = asked(allows=lambda address: address != ELSEWHERE)
    answer(ends, "alice", ELSEWHERE)
    assert replies(ends) == []
    assert (outgoing(ends).identifier, outgoing(ends).offered) == ("urn:made", None)
    assert [notice.kind for notice in ends.client.notices] == [NoticeKind.DECLINED]


def test_the_server_of_the_destination_needs_no_leave() -> None:
    """A program without a server of its own sends nowhere else."""
    ends = asked(allows=lambda address: False)
    answer(ends, "alice", SERVICE + "/acknowledgements")
    assert replies(ends) == [SERVICE + "/acknowledgements"]
