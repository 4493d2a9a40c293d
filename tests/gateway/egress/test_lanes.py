"""Messages that are posted over an idle connection: the same as those that are sent, without a
task."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gateway.egress import (
    AddressPolicy,
    Answer,
    ClientLimits,
    Consumer,
    ConsumerOptions,
    Dialer,
    FailureKind,
    HttpTransport,
    Posted,
    Proxy,
    Request,
    SendFailed,
    TransportByScheme,
    parse_target,
    with_hops,
)
from mediation.model.messages import Attachment, Packaging
from tests.gateway.egress.test_egress import ANSWERS, DRIPS, FLOODS
from tests.rigs.cases import for_each
from tests.rigs.scripted_peers import (
    ACCEPTED,
    QUICK,
    Handler,
    consuming,
    keeping,
    message,
    read_request,
    saying,
    sending,
    silent,
)
from tests.rigs.waiting import DEADLINE, until

Outcome = Answer | SendFailed
FOUND = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nRetry-After: 7\r\n\r\n<a/>"
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"


def then(handler: Handler) -> Handler:
    """Accepts the first message of the first connection; what comes after it is for *handler*."""
    primed = False

    async def first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal primed
        if not primed:
            primed = True
            await read_request(reader)
            writer.write(ACCEPTED)
        await handler(reader, writer)

    return first


class Mailman:
    """Posts, and hears how it ended."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport
        self.told: list[Outcome] = []

    def post(self, request: Request) -> Posted | None:
        lane = self._transport.lane(request.target)
        return lane.post(request, self.told.append) if lane is not None else None

    async def outcome(self, request: Request) -> Outcome:
        """Post *request*, for which there is an idle connection."""
        self.told.clear()
        tasks = asyncio.all_tasks()
        assert self.post(request) is not None
        assert not self.told, "it was told at once"
        assert asyncio.all_tasks() == tasks
        await until(lambda: bool(self.told))
        (outcome,) = self.told
        return outcome


async def sent(transport: HttpTransport, request: Request) -> Outcome:
    try:
        return await transport.send(request)
    except SendFailed as failure:
        return failure


def told(outcome: Outcome) -> object:
    """What of *outcome* is seen by who decides what becomes of the message."""
    if isinstance(outcome, Answer):
        return outcome
    return outcome.kind, outcome.connecting, outcome.status


async def both_ways(handler: Handler, limits: ClientLimits | None = None) -> tuple[object, object]:
    """The outcome of a second message to *handler*, sent and posted."""
    outcomes = []
    for posted in (False, True):
        async with consuming(then(handler)) as consumer, sending(limits=limits) as transport:
            request = message(consumer.url())
            assert await transport.send(request) == Answer(202)
            if posted:
                outcomes.append(told(await Mailman(transport).outcome(request)))
            else:
                outcomes.append(told(await sent(transport, request)))
    return outcomes[0], outcomes[1]


class TestTheSameBothWays:
    @pytest.mark.parametrize(("wire", "answer"), ANSWERS)
    async def test_answers(self, wire: bytes, answer: Answer) -> None:
        assert await both_ways(saying(wire)) == (answer, answer)

    @for_each("name", FLOODS)
    async def test_floods(self, name: str) -> None:
        sent_, posted = await both_ways(FLOODS[name])
        assert sent_ == posted
        assert isinstance(posted, tuple) and posted[:2] == (FailureKind.ANSWER, False)

    @pytest.mark.parametrize("name", DRIPS)
    async def test_drips(self, name: str) -> None:
        async with asyncio.timeout(DEADLINE):  # By itself a drip would take an hour.
            for outcome in await both_ways(DRIPS[name], QUICK):
                assert isinstance(outcome, tuple) and outcome[:2] == (FailureKind.TIMEOUT, False)

    async def test_an_answer_begun(self) -> None:
        sent_, posted = await both_ways(saying(b"HTTP/1.1 200 O"))
        assert sent_ == posted == (FailureKind.RESET, False, None)

    async def test_on_the_wire(self) -> None:
        seen: list[bytes] = []

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                seen.append(await read_request(reader))
                writer.write(ACCEPTED)

        async with consuming(handler) as consumer, sending() as transport:
            mailman = Mailman(transport)
            for body in (b"<a/>", b"<a>" + b"x" * 200_000 + b"</a>", b""):
                request = message(consumer.url("/a?b"), body)
                await transport.send(request)
                assert await mailman.outcome(request) == Answer(202)
            assert consumer.connections == 1
        assert seen[0::2] == seen[1::2]
        assert [head.count(b"Content-Length: ") for head in seen] == [1] * 6

    async def test_heads_are_told_apart(self) -> None:
        """They are remembered; each message has that of its own address and headers."""
        seen: list[tuple[bytes, bytes]] = []

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                head, _, body = (await read_request(reader)).partition(b"\r\n\r\n")
                seen.append((head, body))
                writer.write(ACCEPTED)

        async with consuming(handler) as consumer, sending() as transport:
            cases = [
                Request(parse_target(consumer.url(f"/{path}")), body, (("X", value),), method)
                for path in ("a", "b")
                for value in ("1", "2")
                for method in ("POST", "PUT")
                for body in (b"one", b"three")
            ] * 2
            for request in cases:
                await transport.send(request)
        for request, (head, body) in zip(cases, seen, strict=True):
            first, *lines = head.decode().split("\r\n")
            assert first == f"{request.method} {request.target.path} HTTP/1.1"
            assert dict(line.split(": ") for line in lines) == {
                "Host": request.target.authority,
                "User-Agent": "Dragoman",
                "Accept-Encoding": "identity",
                "Content-Length": str(len(request.body)),
                "X": request.headers[0][1],
            }
            assert body == request.body

    async def test_few_heads_are_remembered(self) -> None:
        async with consuming(keeping) as consumer, sending() as transport:
            for number in range(1100):
                await transport.send(message(consumer.url(f"/{number}")))
            assert len(transport._heads) <= 1024


class TestConnections:
    async def test_there_is_a_lane_while_a_connection_is_idle(self) -> None:
        async with consuming(then(silent)) as consumer, sending() as transport:
            request = message(consumer.url())
            assert transport.lane(request.target) is None
            await transport.send(request)
            lane = transport.lane(request.target)
            assert lane is not None and not lane.in_order
            posted = lane.post(request, lambda _: None)
            assert posted is not None
            assert transport.lane(request.target) is None
            assert lane.post(request, lambda _: None) is None
            assert transport.lane(message("http://127.0.0.1:1024/").target) is None
            posted.cancel()

    async def test_one_after_another_share_a_connection(self) -> None:
        async with consuming(keeping) as consumer, sending() as transport:
            await transport.send(message(consumer.url()))
            mailman = Mailman(transport)
            for _ in range(20):
                assert await mailman.outcome(message(consumer.url())) == Answer(202)
            assert await transport.send(message(consumer.url())) == Answer(202)
            assert consumer.connections == 1

    async def test_who_is_told_may_post_at_once(self) -> None:
        async with consuming(keeping) as consumer, sending() as transport:
            request, outcomes = message(consumer.url()), list[Outcome]()
            await transport.send(request)

            def post(outcome: Outcome) -> None:
                outcomes.append(outcome)
                if len(outcomes) < 50:
                    lane = transport.lane(request.target)
                    assert lane is not None and lane.post(request, post) is not None

            post(Answer(202))
            await until(lambda: len(outcomes) == 50)
            assert outcomes == [Answer(202)] * 50
            assert consumer.connections == 1

    async def test_a_destination_has_at_most_eight(self) -> None:
        async with consuming(keeping) as consumer, sending() as transport:
            requests = [message(consumer.url(f"/{n}")) for n in range(100)]
            await asyncio.gather(*map(transport.send, requests[:8]))
            mailman = Mailman(transport)
            posted = [mailman.post(request) for request in requests]
            assert [one is not None for one in posted] == [True] * 8 + [False] * 92
            answers = await asyncio.gather(*map(transport.send, requests))
            await until(lambda: len(mailman.told) == 8)
            assert {one.status for one in answers} == {202}
            assert mailman.told == [Answer(202)] * 8
            assert consumer.connections == 8

    async def test_a_stale_connection_is_replaced_once(self) -> None:
        """The consumer takes the second message of a connection and closes without a word."""

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            writer.write(ACCEPTED)
            await read_request(reader)

        async with consuming(handler) as consumer, sending() as transport:
            await transport.send(message(consumer.url()))
            mailman = Mailman(transport)
            for _ in range(4):
                assert await mailman.outcome(message(consumer.url())) == Answer(202)
            assert consumer.connections == 5
            (destination,) = transport._destinations.values()
            assert destination.connections == len(destination.idle) == 1
            assert not transport._busy

    async def test_a_new_connection_that_is_cut_is_a_failure(self) -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)

        async with consuming(then(handler)) as consumer, sending() as transport:
            await transport.send(message(consumer.url()))
            outcome = await Mailman(transport).outcome(message(consumer.url()))
            assert told(outcome) == (FailureKind.RESET, False, None)
            assert consumer.connections == 2
            assert not (transport._destinations or transport._busy or transport._idle)

    async def test_giving_up_ends_the_exchange(self) -> None:
        gone = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            gone.set()

        async with consuming(then(handler)) as consumer, sending() as transport:
            await transport.send(message(consumer.url()))
            mailman = Mailman(transport)
            posted = mailman.post(message(consumer.url()))
            assert posted is not None
            posted.cancel()
            posted.cancel()
            assert not mailman.told, "it was told at once"
            await asyncio.wait_for(gone.wait(), 60)
            await until(lambda: bool(mailman.told))
            assert list(map(told, mailman.told)) == [(FailureKind.TIMEOUT, False, None)]
            assert not (transport._destinations or transport._busy or transport._idle)

    async def test_giving_up_what_was_answered_changes_nothing(self) -> None:
        async with consuming(keeping) as consumer, sending() as transport:
            request = message(consumer.url())
            await transport.send(request)
            mailman = Mailman(transport)
            posted = mailman.post(request)
            assert posted is not None
            await until(lambda: bool(mailman.told))
            again = mailman.post(request)
            assert again is not None
            posted.cancel()
            await until(lambda: len(mailman.told) == 2)
            again.cancel()
            assert mailman.told == [Answer(202)] * 2
            assert consumer.connections == 1

    async def test_giving_up_while_another_connection_is_made(self) -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if consumer.connections == 1:
                await read_request(reader)
                writer.write(ACCEPTED)
            await read_request(reader)
            if consumer.connections > 1:
                await reader.read()

        async with consuming(handler) as consumer, sending() as transport:
            await transport.send(message(consumer.url()))
            mailman = Mailman(transport)
            posted = mailman.post(message(consumer.url()))
            assert posted is not None
            await until(lambda: consumer.connections == 2)
            posted.cancel()
            await until(lambda: bool(mailman.told) and not transport._busy)
            assert list(map(told, mailman.told)) == [(FailureKind.TIMEOUT, False, None)]
            assert not transport._destinations

    async def test_closing_tells_those_who_wait(self) -> None:
        async with consuming(then(silent)) as consumer, sending() as transport:
            request = message(consumer.url())
            await transport.send(request)
            lane, mailman = transport.lane(request.target), Mailman(transport)
            assert lane is not None and mailman.post(request) is not None
            await transport.close()
            await until(lambda: bool(mailman.told))
            assert list(map(told, mailman.told)) == [(FailureKind.RESET, False, None)]
            assert lane.post(request, mailman.told.append) is None
            assert consumer.connections == 1


class TestDeadlines:
    async def test_each_message_has_its_own(self) -> None:
        """A clock that was set for one rings while the next is under way."""
        delays = iter((0.0, 1.4, 1.4, 0.0))

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await read_request(reader)
                await asyncio.sleep(next(delays))
                writer.write(ACCEPTED)

        limits = replace(QUICK, exchange=2.0)
        async with consuming(handler) as consumer, sending(limits=limits) as transport:
            mailman = Mailman(transport)
            await transport.send(message(consumer.url()))
            for _ in range(3):
                assert await mailman.outcome(message(consumer.url())) == Answer(202)
            assert consumer.connections == 1

    async def test_a_late_answer_is_cut_when_its_time_is_over(self) -> None:
        answered = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(2):
                await read_request(reader)
                await asyncio.sleep(1.1)  # More than half of what an exchange may take.
                writer.write(ACCEPTED)
            answered.set()
            await reader.read()

        limits = replace(QUICK, exchange=2.0)
        async with consuming(handler) as consumer, sending(limits=limits) as transport:
            mailman = Mailman(transport)
            await transport.send(message(consumer.url()))
            assert await mailman.outcome(message(consumer.url())) == Answer(202)
            outcome = await mailman.outcome(message(consumer.url()))
            assert told(outcome) == (FailureKind.TIMEOUT, False, None)


class TestAnswersThatComeAgain:
    """They are recognised, and not read again."""

    @pytest.mark.parametrize("step", [1 << 20, 7], ids=["whole", "by seven octets"])
    async def test_each_is_what_it_was(self, step: int) -> None:
        wires = [ACCEPTED, ACCEPTED, BUSY, BUSY, ACCEPTED, FOUND, FOUND, ACCEPTED, BUSY, FOUND]
        meant = {
            ACCEPTED: Answer(202),
            BUSY: Answer(503),
            FOUND: Answer(200, b"<a/>", {"retry-after": "7"}),
        }

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for wire in wires:
                await read_request(reader)
                for start in range(0, len(wire), step):
                    writer.write(wire[start : start + step])
                    await asyncio.sleep(0.002)  # So that the pieces come alone.
            await reader.read()

        async with consuming(handler) as consumer, sending() as transport:
            outcomes = [await sent(transport, message(consumer.url())) for _ in wires]
            assert outcomes == [meant[wire] for wire in wires]
            assert consumer.connections == 1

    async def test_then_others(self) -> None:
        """A recognised one leaves nothing behind: neither its status nor that it was whole."""
        again = [ACCEPTED] * 3

        async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await saying(*again)(reader, writer)
            await read_request(reader)
            writer.write(b"HTTP/1.1 5")

        async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await saying(*again)(reader, writer)
            await read_request(reader)

        for handler, connections in ((half, 1), (cut, 2)):
            async with consuming(handler) as consumer, sending() as transport:
                for _ in again:
                    assert await sent(transport, message(consumer.url())) == Answer(202)
                outcome = await sent(transport, message(consumer.url()))
                if connections == 1:
                    assert told(outcome) == (FailureKind.RESET, False, None)
                else:
                    assert outcome == Answer(202)
                assert consumer.connections == connections

    async def test_a_body_that_looks_like_one(self) -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await saying(ACCEPTED, ACCEPTED)(reader, writer)
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(ACCEPTED))
            await asyncio.sleep(0.05)  # So that the body comes alone.
            writer.write(ACCEPTED)
            await reader.read()

        async with consuming(handler) as consumer, sending() as transport:
            for expected in (Answer(202), Answer(202), Answer(200, ACCEPTED)):
                assert await sent(transport, message(consumer.url())) == expected

    async def test_octets_behind_one_are_out_of_turn(self) -> None:
        handler = saying(ACCEPTED, ACCEPTED, ACCEPTED + BUSY)
        async with consuming(handler) as consumer, sending() as transport:
            for _ in range(4):
                assert await sent(transport, message(consumer.url())) == Answer(202)
            assert consumer.connections == 2


@asynccontextmanager
async def all_transports(
    options: ConsumerOptions | None = None, proxy: Proxy | None = None
) -> AsyncIterator[TransportByScheme]:
    dialer = Dialer(AddressPolicy(allow=["127.0.0.0/8"]), options=options, proxy=proxy)
    transport = TransportByScheme({"http": HttpTransport(dialer)}, dialer)
    try:
        yield transport
    finally:
        await transport.close()


class TestWhoHasNoLane:
    async def test_consumers_of_whom_the_operator_said_something(self) -> None:
        async with consuming(keeping) as consumer:
            address = f"127.0.0.1:{consumer.port}"
            for row, posts in ((f"{address}/one", False), (f"{address}/other", True)):
                options = ConsumerOptions([Consumer(address=row, max_message=100)])
                async with all_transports(options) as transport:
                    request = message(consumer.url("/one"))
                    await transport.send(request)
                    assert (transport.lane(request.target) is not None) is posts

    async def test_what_goes_by_a_proxy(self) -> None:
        async with consuming(keeping) as proxy:
            way = Proxy("127.0.0.1", proxy.port)
            async with all_transports(proxy=way) as transport:
                request = message("http://192.0.2.1/")
                with pytest.raises(SendFailed):
                    await transport.send(request)  # The policy forbids it.
                request = message("http://127.0.0.1:1024/")
                assert await transport.send(request) == Answer(202)
                assert transport.lane(request.target) is None

    async def test_a_header_with_a_control(self) -> None:
        async with consuming(keeping) as consumer, sending() as transport:
            plain = message(consumer.url())
            await transport.send(plain)
            with pytest.raises(ValueError, match="control"):
                Mailman(transport).post(Request(plain.target, b"", (("X", "a\nb"),)))
            assert await Mailman(transport).outcome(plain) == Answer(202)
            assert consumer.connections == 1

    async def test_attachments(self) -> None:
        async with consuming(keeping) as consumer, sending() as transport:
            plain = message(consumer.url())
            await transport.send(plain)
            target, body, headers = plain.target, plain.body, plain.headers
            part = Attachment("cid:1", "text/plain", b"x")
            for request in (
                Request(target, body, headers, attachments=(part,)),
                Request(target, body, headers, packaging=Packaging.DIME),
            ):
                assert Mailman(transport).post(request) is None
                assert (await transport.send(request)).status == 202
            assert Mailman(transport).post(plain) is not None


def test_hops_are_added_once_for_all() -> None:
    headers = (("Content-Type", "text/xml"),)
    assert with_hops(headers, 2) == (*headers, ("Dragoman-Hops", "3"))
    assert with_hops(headers, 2) is with_hops((*headers,), 2)
    assert with_hops(headers, 3) != with_hops(headers, 2)
