"""The life of sequences at both ends: restarts, room, windows, quiet times, expiry."""

from dataclasses import replace

import pytest

from gateway.reliability.party import Channel, anonymous
from gateway.reliability.records import IncomingSequence, OutgoingSequence, Wire
from gateway.reliability.source import GENERATIONS, Message, SourceFull
from gateway.reliability.storage import StorageUnavailable, Transaction
from gateway.reliability.stores import memory
from gateway.reliability.stores.memory import MemoryOutgoing
from gateway.reliability.values import Delivered, NotHere, NoticeKind, Outgoing
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import (
    Acknowledgement,
    AcknowledgementAlone,
    CreateSequence,
    CreateSequenceResponse,
    FaultName,
    Offer,
    Ranges,
    SequenceHeader,
    acknowledgement_block,
    read_message,
    sequence_block,
    with_blocks,
    write_message,
)
from mediation.reliable_messaging.application import (
    application_fault_action,
    write_application_fault,
    write_application_message,
)
from mediation.reliable_messaging.policy import Policy
from tests.gateway.reliability.test_faults import Peer, fault_in
from tests.rigs.reliable_ends import (
    CLIENT,
    FETCHED,
    SERVICE,
    WIRE_1_0,
    WIRE_1_1,
    Ends,
    content_of,
    losing,
)

VERSIONS = [pytest.param(WIRE_1_0, id="1.0"), pytest.param(WIRE_1_1, id="1.1")]


def outgoing(ends: Ends) -> list[OutgoingSequence]:
    with ends.client.store.look() as look:
        return look.outgoing_page("", 100)


def incoming(ends: Ends) -> list[IncomingSequence]:
    with ends.service.store.look() as look:
        return look.incoming_page("", 100)


@pytest.mark.parametrize("wire", VERSIONS)
def test_after_a_restart_the_rest_goes_in_a_new_sequence(wire: Wire) -> None:
    ends = Ends(wire)
    channel = ends.channel()
    ends.loses = lambda line: line.startswith("client: message")
    ends.send(channel, "order 1")
    ends.send(channel, "order 2")
    ends.settle()
    ends.restart(ends.client)
    first = ends.send(channel, "order 3")
    assert (first.number, len(outgoing(ends))) == (1, 2)
    ends.loses = lambda line: False
    ends.end(channel)
    ends.settle(30)
    assert sorted(ends.service.got) == ["order 1", "order 2", "order 3"]
    ends.settle(3 * 3600)
    assert ends.is_empty()


def test_a_restart_before_there_is_a_sequence() -> None:
    """It goes on: programs that start often would run out of sequences."""
    ends = Ends()
    channel = ends.channel()
    ends.send(channel, "order 1")
    ends.restart(ends.client)
    ends.restart(ends.client)
    ends.send(channel, "order 2")
    assert len(outgoing(ends)) == 1
    ends.end(channel)
    ends.settle(30)
    assert ends.service.got == ["order 1", "order 2"]
    ends.settle(3 * 3600)
    assert ends.is_empty()


def test_a_restart_of_the_service_ends_no_replies() -> None:
    ends = Ends(echoes=True)
    channel = ends.channel(offers=True)
    ends.send(channel, "order 1", wants_reply=True)
    ends.settle(1)
    ends.restart(ends.service)
    ends.send(channel, "order 2", wants_reply=True)
    ends.settle(1)
    assert ends.client.got == ["order 1", "order 2"]


def test_a_message_that_is_rolled_back_leaves_no_gap() -> None:
    ends = Ends()
    channel = ends.channel()
    ends.send(channel, "order 1")
    with pytest.raises(RuntimeError), ends.client.store.transaction() as tx:
        ends.client.endpoint.send(tx, ends.now, "orders", channel, Message("urn:a", b"<a/>"))
        raise RuntimeError("the client thinks again")
    assert ends.send(channel, "order 2").number == 2
    ends.settle(1)
    assert ends.service.got == ["order 1", "order 2"]


def test_sequences_of_one_name_are_bounded() -> None:
    ends = Ends()
    channel = ends.channel()
    ends.loses = lambda line: True
    for _ in range(GENERATIONS):
        ends.send(channel, "order")
        assert ends.end(channel)
    with pytest.raises(SourceFull):
        ends.send(channel, "order")
    assert not ends.end(channel)


def test_messages_of_a_sequence_are_bounded() -> None:
    ends = Ends(client={"policy": Policy(stored=3)})
    channel = ends.channel()
    for number in range(3):
        ends.send(channel, f"order {number}")
    with pytest.raises(SourceFull):
        ends.send(channel, "order 3")
    ends.settle(1)
    ends.send(channel, "order 3")
    ends.settle(1)
    assert len(ends.service.got) == 4


def test_64_messages_are_on_their_way() -> None:
    ends = Ends()
    ends.loses = lambda line: line.startswith("client: message")
    for number in range(100):
        ends.send(ends.channel(), f"order {number}")
    ends.settle()
    assert sum(line.startswith("client: message") for line in ends.log) == 64
    ends.loses = lambda line: False
    ends.settle(10)
    assert ends.service.got == [f"order {number}" for number in range(100)]


def test_a_destination_without_room_is_sent_one_message() -> None:
    ends = Ends(service={"tells_room": True, "policy": Policy(stored=1), "applications": {}})
    channel = ends.channel()
    ends.send(channel, "order 1")
    ends.settle(1)
    assert outgoing(ends)[0].window == 0
    del ends.log[:]
    for number in range(2, 10):
        ends.send(channel, f"order {number}")
    ends.settle()
    assert ends.log == ["client: message 2"]


def test_what_a_full_destination_drops_comes_again() -> None:
    ends = Ends(service={"policy": Policy(stored=2)})
    ends.loses = losing("client: message 1")
    for number in range(1, 6):
        ends.send(ends.channel(), f"order {number}")
    ends.settle()
    assert str(incoming(ends)[0].received) == "2-3"
    ends.settle(30)
    assert ends.service.got == [f"order {number}" for number in range(1, 6)]


def test_a_gap_that_is_too_large() -> None:
    peer = Peer(Ends(service={"policy": Policy(gap=10)}))
    made = peer.create()
    assert peer.message(made, 11).answer is None
    assert peer.message(made, 10).answer is not None


def test_a_quiet_sequence_is_kept_alive() -> None:
    ends = Ends()
    channel = ends.channel()
    ends.send(channel, "order 1")
    ends.settle(8 * 3600)
    assert "client: AckRequestedAlone" in ends.log
    ends.send(channel, "order 2")
    ends.settle(1)
    assert ends.service.got == ["order 1", "order 2"]
    assert ends.log.count("client: CreateSequence") == 1


def test_before_it_expires_a_sequence_is_replaced() -> None:
    ends = Ends()
    channel = ends.channel()
    ends.send(channel, "order 1")
    ends.settle(13 * 3600)
    ends.send(channel, "order 2")
    ends.settle(1)
    assert ends.service.got == ["order 1", "order 2"]
    assert ends.log.count("client: CreateSequence") == 2
    ends.settle(30 * 3600)
    assert ends.is_empty()
    assert ends.client.given_up == []


def test_nobody_lives_longer_than_a_day() -> None:
    ends = Ends()
    ends.send(ends.channel(), "order 1")
    ends.settle(1)
    [sequence] = incoming(ends)
    assert sequence.expires_at == 1_000_000.0 + 24 * 3600
    [kept] = outgoing(ends)
    assert kept.expires_at is not None and kept.expires_at <= sequence.expires_at + 1


def test_an_acknowledgement_travels_only_to_the_same_place() -> None:
    """Also the reference parameters of AcksTo are the place."""
    ends = Ends(echoes=True)
    wsa = ends.wire.wsa
    here = EndpointReference(CLIENT, wsa, parameters=(b'<k xmlns="urn:example">7</k>',))
    channel = Channel(EndpointReference(SERVICE, wsa), ends.wire, here, offers=True)
    ends.send(channel, "order 1", wants_reply=True)
    ends.settle(1)
    [reply] = [
        (message, envelope)
        for message, envelope in zip(ends.sent, ends.envelopes, strict=True)
        if message.headers.action == "urn:example:Reply"
    ]
    assert reply[0].acknowledgements
    assert b'xmlns="urn:example">7</k></s:Header>' in reply[1]


def test_an_acknowledgement_that_goes_elsewhere_goes_alone() -> None:
    ends = Ends(echoes=True)
    peer = Peer(ends)
    wsa = ends.wire.wsa
    here = EndpointReference(CLIENT, wsa)
    there = replace(here, parameters=(b'<k xmlns="urn:example">7</k>',))
    answer = peer.say(CreateSequence(there, offer=Offer("urn:peer:offered", here))).answer
    assert answer is not None
    made = read_message(answer.envelope).body
    assert isinstance(made, CreateSequenceResponse)
    peer.message(made.identifier, 1)
    reply, alone = ends.service.endpoint.due(ends.now + 1)
    assert (reply.to, alone.to) == (here, there)
    assert not read_message(reply.envelope).acknowledgements
    assert read_message(alone.envelope).acknowledgements


def test_a_message_is_the_same_each_time_it_is_sent() -> None:
    ends = Ends()
    ends.loses = losing("client: message 1", "client: message 1 again")
    sent = ends.send(ends.channel(), "order 1")
    ends.settle(30)
    envelopes = [each for each in ends.envelopes if b"urn:example:Order" in each]
    assert len(envelopes) == 3
    assert all(sent.message_id.encode() in each for each in envelopes)
    # Only the request for an acknowledgement is new.
    first, second, third = envelopes
    assert second == third
    start, _, rest = second.partition(b"<wsrm:AckRequested")
    assert start + rest.partition(b"</wsrm:AckRequested>")[2] == first


def test_unknown_sequences_are_told_of_once_a_second() -> None:
    ends = Ends()
    wire = ends.wire
    envelope = write_application_message(
        wire.soap,
        wire.wsa,
        action="urn:example:Order",
        body=b'<o xmlns="urn:example"/>',
        to=EndpointReference(SERVICE, wire.wsa),
        message_id="urn:peer:1",
    )
    block = sequence_block(wire.rm, wire.soap, SequenceHeader("urn:nobody", 1))
    octets = with_blocks(envelope, [block])
    received = ends.service.endpoint.received
    replies = [received(octets, ends.now, peer="192.0.2.1") for _ in range(3)]
    assert [reply.fault for reply in replies] == [True, False, False]
    assert received(octets, ends.now, peer="192.0.2.2").fault
    assert received(octets, ends.now + 1, peer="192.0.2.1").fault


def test_sequences_are_made_at_a_bounded_rate() -> None:
    ends = Ends()
    peer = Peer(ends)
    peer.take = lambda envelope: ends.service.endpoint.received(  # type: ignore[method-assign]
        envelope, ends.now, peer="192.0.2.1"
    )
    for _ in range(10):
        peer.create()
    with pytest.raises(AssertionError):
        peer.create()
    ends.now += 1
    peer.create()


def test_an_identifier_that_is_in_use_cannot_be_offered_again() -> None:
    peer = Peer(Ends())
    nobody = EndpointReference(peer.wire.wsa.anonymous, peer.wire.wsa)
    peer.create(offer=Offer("urn:peer:offered", nobody))
    again = peer.say(CreateSequence(nobody, offer=Offer("urn:peer:offered", nobody)))
    assert fault_in(again).name is FaultName.CREATE_SEQUENCE_REFUSED


def test_clients_are_told_that_all_arrived() -> None:
    completed: list[int] = []
    told = {"": lambda tx, sequence: completed.append(sequence.next_number - 1)}
    ends = Ends(client={"completed": told})
    channel = ends.channel()
    ends.send(channel, "order 1")
    ends.send(channel, "order 2")
    ends.settle(10)
    assert completed == []
    ends.end(channel)
    ends.settle(10)
    assert completed == [2]


@pytest.mark.parametrize("wants_reply", [False, True])
@pytest.mark.parametrize("offers", [False, True])
def test_a_fault_of_somebody_in_between_is_no_reply(wants_reply: bool, offers: bool) -> None:
    """Only where no sequence was offered for replies may one come without."""
    ends = Ends()
    wire = ends.wire
    channel = ends.channel("anonymous", offers=offers)
    ends.loses = lambda line: line.startswith("client: message")
    sent = ends.send(channel, "order 1", wants_reply=wants_reply)
    ends.settle()
    [sequence] = outgoing(ends)
    [before] = [message for message in ends.sent if message.sequence]
    fault = write_application_message(
        wire.soap,
        wire.wsa,
        action=application_fault_action(wire.wsa),
        body=write_application_fault(wire.soap, "busy", receiver=True),
        to=anonymous(wire.wsa),
        message_id="urn:proxy:1",
        relates_to=sent.message_id,
    )
    assert before.headers.message_id == sent.message_id
    posted = Outgoing(channel.target, b"", "", wire, "message 1", sequence.key)
    ends.client.endpoint.sent(posted, ends.now, delivered=True, answer=fault)
    [after] = outgoing(ends)
    assert after.count == (0 if wants_reply and not offers else 1)


def test_a_peer_that_says_final_again_is_not_asked_at_once() -> None:
    ends = Ends()
    channel = ends.channel()
    ends.send(channel, "order 1")
    ends.end(channel)
    ends.loses = lambda line: line == "service: TerminateSequenceResponse"
    ends.settle(0.5)
    asked = ends.log.count("client: TerminateSequence")
    [sequence] = outgoing(ends)
    assert sequence.identifier is not None
    said = Acknowledgement(sequence.identifier, Ranges.of([(1, 1)]), final=True)
    _, envelope = write_message(
        ends.wire,
        AcknowledgementAlone(),
        to=EndpointReference(CLIENT, ends.wire.wsa),
        blocks=[acknowledgement_block(ends.wire.rm, said)],
    )
    for _ in range(3):
        ends.take(ends.client, envelope)
        ends.settle()
    assert ends.log.count("client: TerminateSequence") == asked == 1


def test_a_store_that_is_away_promises_nothing() -> None:
    ends = Ends()
    peer = Peer(ends)
    made = peer.create()

    class Away:
        def __getattr__(self, name: str) -> object:
            raise StorageUnavailable("away")

    party = ends.service.endpoint.party
    ends.service.endpoint.party = replace(party, storage=Away())  # type: ignore[arg-type]
    with pytest.raises(StorageUnavailable):
        peer.message(made, 1)
    ends.service.endpoint.party = party
    assert incoming(ends)[0].received == Ranges()


def test_replies_are_fetched_though_the_next_sequence_has_begun() -> None:
    """The sequence of the request has ended, and its name is used again, before its reply came."""
    ends = Ends(echoes=True)
    channel = ends.channel(FETCHED, offers=True)
    ends.loses = losing("service: message 1", *["service: message 1 again"] * 3)
    ends.send(channel, "order 1", wants_reply=True, last=True)
    ends.settle(20)
    ends.send(channel, "order 2", wants_reply=True, last=True)
    ends.settle(60)
    assert sorted(ends.client.got) == ["order 1", "order 2"]
    assert ends.service.given_up == []
    ends.settle(3 * 3600)
    assert ends.is_empty()


@pytest.mark.parametrize("acks_to", [CLIENT, "anonymous"])
def test_many_short_sequences_of_one_name(acks_to: str) -> None:
    ends = Ends(echoes=True)
    channel = ends.channel(acks_to, offers=True)
    for number in range(2 * GENERATIONS):
        ends.send(channel, f"order {number}", wants_reply=True, last=True)
        ends.settle(5)
    assert len(ends.client.got) == 2 * GENERATIONS
    assert len(outgoing(ends)) < GENERATIONS


def ends_that_fail_at_bad(error: Exception, *names: str) -> tuple[Ends, list[str]]:
    """A service that has the first message of each of *names*, and fails at "bad"."""
    took: list[str] = []

    def take(tx: Transaction, delivered: Delivered) -> None:
        took.append(content_of(delivered.envelope))
        if took[-1] == "bad":
            raise error

    ends = Ends(service={"applications": {"": take}})
    for name in names:
        message = Message("urn:example:Order", f'<o xmlns="urn:example">{name}</o>'.encode())
        with ends.client.store.transaction() as tx:
            ends.client.endpoint.send(tx, ends.now, name, ends.channel(), message)
    for _ in range(2):
        for outgoing in ends.client.endpoint.due(ends.now):
            ends.post(ends.client, outgoing)
    return ends, took


def test_one_that_fails_does_not_stop_the_others() -> None:
    ends, took = ends_that_fail_at_bad(StorageUnavailable("mine is away"), "bad", "good")
    ends.service.endpoint.due(ends.now)
    assert sorted(took) == ["bad", "good"]
    ends.service.endpoint.due(ends.now + 1)
    assert sorted(took) == ["bad", "good"]
    with pytest.raises(StorageUnavailable, match="mine is away"):
        ends.service.endpoint.due(ends.now + 2)
    assert sorted(took) == ["bad", "bad", "good"]


def test_what_another_process_may_take_stays_due() -> None:
    ends, took = ends_that_fail_at_bad(NotHere("of another process"), "bad")
    with pytest.raises(NotHere):
        ends.service.endpoint.due(ends.now)
    with ends.service.store.look() as look:
        assert look.invoker_due(ends.now, 10)
    assert took == ["bad"]


def test_a_program_that_cannot_be_told_is_told_later() -> None:
    times: list[float] = []

    def told(tx: Transaction, sequence: OutgoingSequence) -> None:
        times.append(ends.now)
        if len(times) < 3:
            raise RuntimeError("not now")

    ends = Ends(client={"given_up": {"": told}, "policy": Policy(tries=1, jitter=0.0)})
    ends.loses = lambda line: True
    ends.send(ends.channel(), "order 1")
    ends.settle(60)
    began = 1_000_000.0
    assert times == [began + 2, began + 4, began + 6]
    said = [notice.text for notice in ends.client.notices if notice.kind is NoticeKind.FAILED]
    assert said == ["RuntimeError: not now"] * 2
    assert [sequence.failure for sequence in outgoing(ends)] == ["the destination does not answer"]


@pytest.mark.parametrize("acks_to", [CLIENT, "anonymous"])
def test_a_program_that_cannot_be_told_of_what_an_answer_says_is_told_later(acks_to: str) -> None:
    """The answer to TerminateSequence counts as lost, so it is asked for again; what came with it
    is not taken again, and who sent it hears of no failure."""
    times: list[float] = []

    def told(tx: Transaction, sequence: OutgoingSequence) -> None:
        times.append(ends.now)
        if len(times) < 3:
            raise RuntimeError("not now")

    ends = Ends(client={"completed": {"": told}, "policy": Policy(jitter=0.0)})
    ends.send(ends.channel(acks_to), "order 1", last=True)
    ends.settle(60)
    assert len(times) == 3 and times[0] < times[1] < times[2]
    said = [notice.text for notice in ends.client.notices if notice.kind is NoticeKind.FAILED]
    assert said == ["RuntimeError: not now"] * 2
    assert ends.service.got == ["order 1"]
    [sequence] = outgoing(ends)
    assert sequence.ended_at == times[2]


def test_a_program_that_cannot_be_told_of_a_refusal_is_told_later() -> None:
    reasons: list[str | None] = []

    def told(tx: Transaction, sequence: OutgoingSequence) -> None:
        reasons.append(sequence.failure)
        if len(reasons) < 3:
            raise RuntimeError("not now")

    ends = Ends(client={"given_up": {"": told}})
    ends.send(ends.channel(), "order 1")
    ends.settle()
    ends.forget(ends.service)
    ends.send(ends.channel(), "order 2")
    ends.settle(60)
    assert len(reasons) == 3 and all("UnknownSequence" in (said or "") for said in reasons)
    said = [notice.text for notice in ends.client.notices if notice.kind is NoticeKind.FAILED]
    assert said == ["RuntimeError: not now"] * 2


def test_a_reply_in_no_sequence_that_a_program_cannot_take() -> None:
    """The request is sent again, and the reply that comes then is another chance."""
    tries: list[str] = []

    def take(tx: Transaction, delivered: Delivered) -> None:
        tries.append(content_of(delivered.envelope))
        if len(tries) < 3:
            raise RuntimeError("not now")

    policy = Policy(jitter=0.0)
    ends = Ends(client={"applications": {"": take}, "policy": policy}, echoes=True)
    ends.send(ends.channel("anonymous"), "order 1", wants_reply=True)
    sent, now = ends.client.endpoint, ends.now
    [create] = sent.due(now)
    made = ends.service.endpoint.received(create.envelope, now)
    assert made.answer is not None
    sent.sent(create, now, delivered=True, answer=made.answer.envelope)
    for turn in range(3):
        now += 600
        [request] = sent.due(now)
        message_id = read_message(request.envelope).headers.message_id
        reply = write_application_message(
            Soap.V1_2,
            Wsa.V2005_08,
            action="urn:example:Reply",
            body=b'<r xmlns="urn:example">reply</r>',
            to=anonymous(Wsa.V2005_08),
            message_id=f"urn:reply:{turn}",
            relates_to=message_id,
        )
        sent.sent(request, now, delivered=True, answer=reply)
    assert len(tries) == 3
    said = [notice.text for notice in ends.client.notices if notice.kind is NoticeKind.FAILED]
    assert said == ["RuntimeError: not now"] * 2
    assert outgoing(ends)[0].count == 0


def test_a_request_that_is_acknowledged_and_never_answered() -> None:
    """It ends in time, and its program is told."""
    ends = Ends(client={"policy": Policy(reply_tries=3, interval=1.0, factor=1.0, jitter=0.0)})
    ends.send(ends.channel("anonymous"), "order 1", wants_reply=True)
    ends.settle(30)
    assert ends.service.got == ["order 1"]
    assert ends.client.given_up == ["message 1 was not answered"]


class PlainOutgoing(MemoryOutgoing):
    """Without what a store need not have."""

    next_due = None  # type: ignore[assignment]


@pytest.mark.parametrize("plain", [False, True], ids=["memory", "a store that only has to"])
def test_requests_that_get_no_replies_do_not_block_those_behind_them(
    plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are acknowledged, and kept: more of them than there are on their way."""
    if plain:
        monkeypatch.setattr(memory, "MemoryOutgoing", PlainOutgoing)
    ends = Ends(client={"policy": Policy(window=4, jitter=0.0)})
    channel = ends.channel("anonymous")
    for number in range(12):
        ends.send(channel, f"order {number}", wants_reply=True)
    ends.settle(1)
    assert ends.service.got == [f"order {number}" for number in range(12)]
    # One that is lost comes again when it is its own time, which is before that of the others.
    ends.settle(600)
    ends.loses = losing("client: message 13")
    ends.send(channel, "order 12", wants_reply=True)
    ends.settle(3)
    assert ends.service.got[12:] == ["order 12"]
