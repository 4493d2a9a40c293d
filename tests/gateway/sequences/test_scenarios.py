"""The OASIS WS-RX scenarios 1.1 to 1.3 with the gateway as the source, which sends to a subscriber:
what goes over the wire, in its order. `tests.gateway.reliability.test_scenarios` has the others."""

from pathlib import Path

import pytest

from mediation.reliable_messaging import CloseSequence, Rm, TerminateSequence
from tests.gateway.delivery.test_sequence_attempt import rig
from tests.rigs.consumers import Connection, Receipt
from tests.rigs.envelopes import S11, S12, WSE, Speaker
from tests.rigs.reliable_consumers import ReliableConsumer
from tests.rigs.waiting import until

UNSUBSCRIBE = f'<e:Unsubscribe xmlns:e="{WSE}"/>'


def told(consumer: ReliableConsumer) -> list[str]:
    """What came: the numbers of messages, the names of protocol messages."""
    return [
        str(said.sequence.number) if said.sequence is not None else type(said.body).__name__
        for said in consumer.sent
        if said.sequence is not None or said.body is not None
    ]


def end(rm: Rm, last: int) -> list[str]:
    """The end of a sequence whose last message of an application is *last*: 1.0 sends an empty
    one, unless there was none at all."""
    if rm.rules.closes:
        return ["CloseSequence", "TerminateSequence"]
    return [str(last + 1), "TerminateSequence"] if last else ["TerminateSequence"]


@pytest.mark.parametrize("rm", list(Rm))
@pytest.mark.parametrize("soap", [S11, S12])
async def test_1_1_one_way_anonymous(tmp_path: Path, rm: Rm, soap: object) -> None:
    speaker = Speaker(S11 if soap is S11 else S12)
    async with rig(tmp_path) as r:
        manager = await r.subscribe(speaker, rm)
        await r.publish(1, 2, 3)
        await r.got(1, 2, 3)
        await r.run.quiet()
        await r.run.ask(speaker, UNSUBSCRIBE, manager)
        wanted = ["CreateSequence", "1", "2", "3", *end(rm, 3)]
        await until(lambda: told(r.reliable) == wanted)


@pytest.mark.parametrize("rm", list(Rm))
async def test_1_2_no_messages(tmp_path: Path, rm: Rm) -> None:
    speaker = Speaker()
    async with rig(tmp_path) as r:
        manager = await r.subscribe(speaker, rm)
        await r.run.ask(speaker, UNSUBSCRIBE, manager)
        await until(lambda: told(r.reliable) == ["CreateSequence", *end(rm, 0)])
        last = r.reliable.sent[-1].body
        assert isinstance(last, TerminateSequence) and last.last_number is None
        assert r.reliable.got == []
        with r.reliable.endpoint.party.storage.look() as look:
            [sequence] = look.incoming_page("", 10)
        assert sequence.ended_at is not None and sequence.complete


class Dropping(ReliableConsumer):
    """Drops message 2 of its first sequence without a word, however often it comes."""

    def __call__(self, connection: Connection, receipt: Receipt) -> None:
        if len(self.numbers) < 2 and b"MessageNumber>2<" in receipt.body:
            connection.answer(202)
        else:
            super().__call__(connection, receipt)


async def test_1_3_close_of_an_incomplete_sequence(tmp_path: Path) -> None:
    """What the consumer's last word does not have goes in another sequence."""
    consumer = Dropping()
    async with rig(tmp_path, consumer) as r:
        await r.subscribe()
        await r.publish(1)
        await r.got(1)
        await r.run.quiet()
        await r.publish(2, 3)
        await r.got(1, 2, 3)
        assert told(consumer)[:4] == ["CreateSequence", "1", "CloseSequence", "CreateSequence"]
        [closed] = [each.body for each in consumer.sent if isinstance(each.body, CloseSequence)]
        assert closed.last_number == 2
        assert consumer.sequences == [[1], [1, 2]]
        await r.conserved(matched=3, delivered=3)
