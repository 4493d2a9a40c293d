"""What applications get, and what becomes of what they answer, refuse and fail at."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from gateway.reliability.destination import Destination
from gateway.reliability.invoker import Invoker
from gateway.reliability.party import Channel
from gateway.reliability.source import Message
from gateway.reliability.steps import begin
from gateway.reliability.storage import Transaction
from gateway.reliability.values import Answer, ApplicationFault, Delivered, NoticeKind
from mediation.model.messages import EndpointReference
from mediation.reliable_messaging.policy import Policy
from mediation.soap.answers import PeerFault
from tests.rigs.reliable_ends import CLIENT, FETCHED, WIRE_1_0, WIRE_1_1, Ends, content_of

BACK = [CLIENT, "anonymous", FETCHED]


def ends_with(take: Callable[[Transaction, Delivered], Answer | None], **service: Any) -> Ends:
    return Ends(WIRE_1_1, service={"applications": {"": take}, **service})


def ask(ends: Ends, acks_to: str, *contents: str) -> None:
    channel = ends.channel(acks_to, offers=True)
    for content in contents:
        ends.send(channel, content, wants_reply=True)
    ends.end(channel)


@pytest.mark.parametrize("acks_to", BACK)
def test_a_fault_is_the_reply_and_the_next_message_follows(acks_to: str) -> None:
    took: list[str] = []
    faults: list[str] = []

    def take(tx: Transaction, delivered: Delivered) -> Answer | None:
        took.append(content_of(delivered.envelope))
        if delivered.number == 2:
            raise ApplicationFault("no such article", detail=b'<d xmlns="urn:example"/>')
        return Answer("urn:example:Reply", b'<r xmlns="urn:example">done</r>')

    def take_reply(tx: Transaction, delivered: Delivered) -> None:
        fault = delivered.message.fault
        faults.append(fault.reason if isinstance(fault, PeerFault) else "")

    ends = Ends(
        WIRE_1_1,
        service={"applications": {"": take}},
        client={"applications": {"": take_reply}},
    )
    ask(ends, acks_to, "one", "two", "three")
    ends.settle(30)
    assert took == ["one", "two", "three"]
    assert faults == ["", "no such article", ""]
    ends.settle(3 * 3600)
    assert ends.is_empty()


def test_what_a_fault_follows_is_rolled_back() -> None:
    """What the application sends on in its transaction is gone with it."""
    ends = Ends(WIRE_1_1)

    def take(tx: Transaction, delivered: Delivered) -> None:
        message = Message("urn:example:Order", b'<o xmlns="urn:example">on</o>')
        ends.service.endpoint.send(tx, delivered.now, "onward", ends.channel(), message)
        raise ApplicationFault("no")

    ends.service.endpoint.party.applications[""] = take  # type: ignore[index]
    ends.send(ends.channel(), "one")
    ends.settle()
    with ends.service.store.look() as look:
        assert look.outgoing_page("", 10) == []
    # Nobody waits for a reply: people are told.
    assert [notice.kind for notice in ends.service.notices] == [NoticeKind.UNANSWERED]


def test_what_an_application_sends_on_is_sent_once() -> None:
    failures = [RuntimeError("not now"), RuntimeError("not now")]
    ends = Ends(WIRE_1_1)
    onward = Channel(EndpointReference(CLIENT, WIRE_1_1.wsa), WIRE_1_1, ends.channel().target)

    def take(tx: Transaction, delivered: Delivered) -> None:
        message = Message("urn:example:Order", b'<o xmlns="urn:example">on</o>')
        ends.service.endpoint.send(tx, delivered.now, "onward", onward, message)
        if failures:
            raise failures.pop()

    ends.service.endpoint.party.applications[""] = take  # type: ignore[index]
    ends.send(ends.channel(), "one")
    ends.settle(30)
    assert ends.client.got == ["on"]


def test_a_failure_leads_to_another_delivery_later() -> None:
    times: list[float] = []

    def take(tx: Transaction, delivered: Delivered) -> None:
        times.append(delivered.now)
        if len(times) < 4:
            raise RuntimeError("not now")

    ends = ends_with(take)
    ends.send(ends.channel(), "one")
    ends.settle(60)
    waits = [after - before for before, after in pairwise(times)]
    assert waits == [2.0, 4.0, 8.0]
    assert [(each.kind, each.text) for each in ends.service.notices] == [
        (NoticeKind.DELIVERY_FAILED, "RuntimeError: not now")
    ] * 3


@pytest.mark.parametrize("acks_to", BACK)
def test_a_message_that_always_fails_is_dead_and_said_aloud(acks_to: str) -> None:
    took: list[str] = []
    dead: list[str] = []

    def take(tx: Transaction, delivered: Delivered) -> None:
        content = content_of(delivered.envelope)
        took.append(content)
        if content == "bad":
            raise ValueError("cannot be read")

    def bury(tx: Transaction, delivered: Delivered, error: Exception) -> None:
        dead.append(f"{content_of(delivered.envelope)}: {error}")

    ends = ends_with(take, policy=Policy(attempts=3), dead={"": bury})
    ask(ends, acks_to, "bad", "good")
    ends.settle(120)
    assert took == ["bad", "bad", "bad", "good"]
    assert dead == ["bad: cannot be read"]
    [notice] = [each for each in ends.service.notices if each.kind is NoticeKind.DEAD_MESSAGE]
    assert (notice.number, notice.text) == (1, "ValueError: cannot be read")


def test_what_gets_dead_messages_may_fail_too() -> None:
    times: list[float] = []

    def take(tx: Transaction, delivered: Delivered) -> None:
        if content_of(delivered.envelope) == "bad":
            raise ValueError("cannot be read")

    def bury(tx: Transaction, delivered: Delivered, error: Exception) -> None:
        times.append(delivered.now)
        if len(times) < 4:
            raise RuntimeError("the disk is full")

    ends = ends_with(take, policy=Policy(attempts=1), dead={"": bury})
    ends.send(ends.channel(), "bad")
    ends.settle(60)
    assert [after - before for before, after in pairwise(times)] == [2.0, 4.0, 8.0]
    kinds = [notice.kind for notice in ends.service.notices]
    assert kinds == [NoticeKind.FAILED] * 3 + [NoticeKind.DEAD_MESSAGE, NoticeKind.UNANSWERED]


def test_a_fault_that_cannot_be_written_is_a_failure() -> None:
    took: list[str] = []

    def take(tx: Transaction, delivered: Delivered) -> None:
        took.append(content_of(delivered.envelope))
        if took[-1] == "bad":
            fault = ApplicationFault("no")
            fault.detail = b"\xff"
            raise fault

    ends = ends_with(take, policy=Policy(attempts=3))
    ask(ends, CLIENT, "bad", "good")
    ends.settle(60)
    assert took == ["bad", "bad", "bad", "good"]
    failed = [NoticeKind.DELIVERY_FAILED] * 2
    assert [each.kind for each in ends.service.notices] == [*failed, NoticeKind.DEAD_MESSAGE]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda: Answer("urn:r", b"<not wellformed"), id="not well-formed"),
        pytest.param(lambda: Answer("urn:r", "</s:Body>"), id="ends the body"),
        pytest.param(lambda: Answer("urn:r", b"<p:r/>"), id="undeclared prefix"),
        pytest.param(lambda: Answer("", b"<r/>"), id="no action"),
        pytest.param(lambda: Answer("urn:r\r\nX: y", b"<r/>"), id="no action but a header"),
        pytest.param(lambda: ApplicationFault("no", detail=b"<d>"), id="detail of a fault"),
    ],
)
def test_a_reply_that_cannot_be_sent_is_a_failure_of_the_application(
    answer: Callable[[], Answer],
) -> None:
    """What the application changed is rolled back, people are told, and the sender gets a fault."""
    faults: list[str] = []
    onward = Channel(
        EndpointReference("http://on.example/", WIRE_1_1.wsa),
        WIRE_1_1,
        EndpointReference(CLIENT, WIRE_1_1.wsa),
    )

    def take(tx: Transaction, delivered: Delivered) -> Answer:
        message = Message("urn:example:Order", b'<o xmlns="urn:example">on</o>')
        ends.service.endpoint.send(tx, delivered.now, "onward", onward, message)
        return answer()

    def take_reply(tx: Transaction, delivered: Delivered) -> None:
        assert isinstance(delivered.message.fault, PeerFault)
        faults.append(delivered.message.fault.reason)

    ends = Ends(
        WIRE_1_1,
        service={"applications": {"": take}, "policy": Policy(attempts=2)},
        client={"applications": {"": take_reply}},
    )
    ask(ends, CLIENT, "one")
    ends.settle(60)
    kinds = [notice.kind for notice in ends.service.notices]
    assert kinds == [NoticeKind.DELIVERY_FAILED, NoticeKind.DEAD_MESSAGE]
    assert faults == ["The message failed."]
    with ends.service.store.look() as look:
        assert all("on.example" not in each.target.address for each in look.outgoing_page("", 10))


def test_nothing_is_looked_at_where_nothing_is_left() -> None:
    ends = ends_with(lambda tx, delivered: None)
    ends.send(ends.channel(), "one")
    for _ in range(2):
        for outgoing in ends.client.endpoint.due(ends.now):
            ends.post(ends.client, outgoing)
    with ends.service.store.look() as look:
        [identifier] = look.invoker_due(ends.now, 10)
    before = ends.service.store.commits
    assert Invoker(ends.service.endpoint.party, identifier, ends.now).deliver() == 1
    assert ends.service.store.commits == before + 1


def test_an_empty_last_message_is_not_delivered() -> None:
    ends = Ends(WIRE_1_0)
    channel = ends.channel()
    ends.send(channel, "one")
    ends.end(channel)
    ends.settle(10)
    assert "client: message 2" in ends.log
    assert ends.service.got == ["one"]


def test_a_last_message_of_an_application_is_delivered() -> None:
    ends = Ends(WIRE_1_0)
    ends.send(ends.channel(), "one", last=True)
    ends.settle(10)
    assert ends.service.got == ["one"]
    assert "client: TerminateSequence" in ends.log


def test_no_application_is_a_failure_that_can_be_mended() -> None:
    ends = Ends(WIRE_1_1, service={"applications": {}})
    ends.send(ends.channel(), "one")
    ends.settle(1)
    got: list[str] = []

    def take(tx: Transaction, delivered: Delivered) -> None:
        got.append(content_of(delivered.envelope))

    ends.service.endpoint.party.applications[""] = take  # type: ignore[index]
    ends.settle(10)
    assert got == ["one"]


@pytest.mark.parametrize("faults", [False, True])
def test_where_there_is_no_room_for_the_reply_the_message_waits(faults: bool) -> None:
    def take(tx: Transaction, delivered: Delivered) -> Answer | None:
        if faults:
            raise ApplicationFault("no")
        return Answer("urn:example:Reply", b'<r xmlns="urn:example">yes</r>')

    got: list[int] = []
    ends = Ends(
        WIRE_1_1,
        service={"applications": {"": take}, "policy": Policy(stored=1, tries=100)},
        client={"applications": {"": lambda tx, delivered: got.append(delivered.number)}},
    )
    ends.loses = lambda line: line.startswith("service: message")
    ask(ends, CLIENT, "one", "two", "three")
    ends.settle(60)
    assert got == []
    ends.loses = lambda line: False
    ends.settle(300)
    assert got == [1, 2, 3]
    assert ends.service.notices == []


def test_what_is_answered_after_the_end_is_forgotten_with_the_sequence() -> None:
    away = [RuntimeError("not now")] * 3

    def take(tx: Transaction, delivered: Delivered) -> Answer:
        if away:
            raise away.pop()
        return Answer("urn:example:Reply", b'<r xmlns="urn:example">yes</r>')

    ends = ends_with(take)
    channel = ends.channel("anonymous")
    ends.send(channel, "one", wants_reply=True)
    ends.loses = lambda line: line == "client: message 1 again"
    ends.settle()
    with ends.client.store.look() as look:
        [sequence] = look.outgoing_page("", 10)
    assert sequence.identifier is not None
    party = ends.service.endpoint.party
    with begin(party, ends.now) as step:
        Destination(step, None).terminate(sequence.identifier, 1)
    ends.settle(60)
    assert not away
    ends.forget(ends.client)
    ends.settle(3 * 3600)
    assert ends.is_empty()


def test_replies_that_nobody_acknowledges_make_room_for_others() -> None:
    """Those that go back on connections, in no sequence, are kept for requests that come again."""
    took: list[str] = []

    def take(tx: Transaction, delivered: Delivered) -> Answer:
        took.append(content_of(delivered.envelope))
        return Answer("urn:example:Reply", f'<r xmlns="urn:example">{took[-1]}</r>'.encode())

    ends = ends_with(take, policy=Policy(stored=2))
    for number in range(5):
        ends.send(ends.channel("anonymous"), f"order {number}", wants_reply=True)
        ends.settle(5)
    assert took == ends.client.got == [f"order {number}" for number in range(5)]
    with ends.service.store.look() as look:
        [replies] = look.outgoing_page("", 10)
    assert (replies.count, replies.next_number) == (2, 6)
    ends.forget(ends.client)
    ends.settle(3 * 3600)
    assert ends.is_empty()
