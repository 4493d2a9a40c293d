"""A transport that raises, hangs or answers nonsense hurts nobody else."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.egress import (
    AddressRefused,
    Answer,
    FailureKind,
    Request,
    SendFailed,
    Target,
)
from gateway.egress.plugins import GuardedTransport, transport_samples
from mediation.model.messages import Attachment
from tests.rigs.cases import for_each

TARGET = Target("post", "roof", 1, "/", "post:roof")
REQUEST = Request(TARGET, b"<x/>", (), attachments=(Attachment("cid:a", "text/plain", b""),))
Sending = Callable[[Request], Awaitable[Any]]


class Dove:
    """A transport whose every answer a test writes."""

    def __init__(self, sending: Sending) -> None:
        self.send: Any = sending
        self.closing: Any = None
        self.reading: Any = lambda _: TARGET

    def target(self, address: str) -> Target:
        return self.reading(address)  # type: ignore[no-any-return]

    async def close(self) -> None:
        if self.closing is not None:
            await self.closing()


def guarded(dove: Dove, *, timeout: float = 5.0, at_a_time: int = 2) -> GuardedTransport:
    return GuardedTransport(dove, "post", timeout=timeout, at_a_time=at_a_time)


def in_turn(*answers: Any) -> Callable[[Request], Any]:
    """A plain function, which answers or raises at once."""
    left = list(answers)

    def send(_: Request) -> Any:
        answer = left.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return send


def failed_with(**attributes: Any) -> SendFailed:
    error = SendFailed(FailureKind.ANSWER)
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


class Endless(dict[str, str]):
    def __iter__(self) -> Any:
        raise RuntimeError("no end")

    keys = __iter__

    def __bool__(self) -> bool:
        return True


def answering(answer: Any) -> Sending:
    async def send(_: Request) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return send


async def failure(transport: GuardedTransport) -> FailureKind:
    with pytest.raises(SendFailed) as caught:
        await transport.send(REQUEST)
    return caught.value.kind


async def test_its_answer_is_that() -> None:
    answer = Answer(202)
    assert await guarded(Dove(answering(answer))).send(REQUEST) is answer


@for_each(
    ("answer", "kind"),
    [
        (SendFailed(FailureKind.CONNECT, connecting=True), FailureKind.CONNECT),
        (ValueError("x"), FailureKind.TRANSPORT),
        (asyncio.CancelledError(), FailureKind.RESET),
        (TimeoutError(), FailureKind.TRANSPORT),
        (None, FailureKind.TRANSPORT),
        ("200", FailureKind.TRANSPORT),
        (Answer(0), FailureKind.TRANSPORT),
        (Answer("200"), FailureKind.TRANSPORT),  # type: ignore[arg-type]
        (Answer(200, "text"), FailureKind.TRANSPORT),  # type: ignore[arg-type]
        (Answer(600), FailureKind.TRANSPORT),
        (Answer(200, b"x" * 65537), FailureKind.ANSWER),
        (Answer(200, dropped="3"), FailureKind.TRANSPORT),  # type: ignore[arg-type]
        (Answer(200, dropped=None), FailureKind.TRANSPORT),  # type: ignore[arg-type]
        (Answer(200, dropped=-1), FailureKind.TRANSPORT),
        (Answer(200, dropped=2), FailureKind.TRANSPORT),  # Of one attachment.
        (Answer(200, headers=None), FailureKind.TRANSPORT),  # type: ignore[arg-type]
        (Answer(200, headers={"retry-after": 5}), FailureKind.TRANSPORT),  # type: ignore[dict-item]
        (Answer(200, headers={b"a": "b"}), FailureKind.TRANSPORT),  # type: ignore[dict-item]
        (Answer(200, headers=Endless()), FailureKind.TRANSPORT),
        (Answer(200, headers={"a": "x" * 8192}), FailureKind.ANSWER),
        (failed_with(status="200"), FailureKind.TRANSPORT),
        (failed_with(kind="answer"), FailureKind.TRANSPORT),
    ],
)
async def test_what_it_raises_or_answers_wrong(answer: Any, kind: FailureKind) -> None:
    dove = Dove(answering(answer))
    transport = guarded(dove)
    with capture_logs() as logs:
        assert await failure(transport) is kind
    told = kind is FailureKind.TRANSPORT
    assert [log["event"] for log in logs] == ["transport.error"] * told
    [sample] = transport_samples([transport])
    assert transport.errors == told and sample is not None
    dove.send = answering(Answer(200))
    assert (await transport.send(REQUEST)).status == 200


async def test_answers_of_its_own() -> None:
    transport = guarded(Dove(answering(Answer(503, dropped=1, headers={"Retry-After": "5"}))))
    answer = await transport.send(REQUEST)
    assert (answer.dropped, answer.headers, answer.retry_after(0)) == (1, {"retry-after": "5"}, 5)
    assert transport.errors == 0


async def test_one_that_is_no_coroutine_keeps_no_place() -> None:
    dove = Dove(answering(None))
    dove.send = in_turn(ValueError("at once"), Answer(200), None, TimeoutError())
    transport = guarded(dove, at_a_time=1)
    for number in range(1, 5):
        assert await failure(transport) is FailureKind.TRANSPORT
        assert transport.errors == number
    dove.send = answering(Answer(200))
    assert (await transport.send(REQUEST)).status == 200


async def test_what_hangs_is_given_up_and_leaves_its_place() -> None:
    async def hang(_: Request) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    transport = guarded(Dove(hang), timeout=0.05, at_a_time=1)
    for _ in range(3):
        assert await failure(transport) is FailureKind.TIMEOUT


async def test_what_cannot_be_cancelled_keeps_its_place() -> None:
    calls, free = 0, asyncio.Event()

    async def stubborn(_: Request) -> Answer:
        nonlocal calls
        calls += 1
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return Answer(200)

    transport = guarded(Dove(stubborn), timeout=0.05, at_a_time=2)
    for _ in range(4):
        assert await failure(transport) is FailureKind.TIMEOUT
    assert calls == 2
    free.set()
    assert (await transport.send(REQUEST)).status == 200


async def test_a_sender_that_is_cancelled_cancels_it() -> None:
    cancelled, begun = asyncio.Event(), asyncio.Event()

    async def hang(_: Request) -> Answer:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError

    sending = asyncio.create_task(guarded(Dove(hang)).send(REQUEST))
    await begun.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await asyncio.wait_for(cancelled.wait(), 60)


@pytest.mark.parametrize(
    "found",
    [
        ValueError("x"),
        None,
        "post:roof",
        Target("http", "roof", 1, "/", "http://roof:1/"),
        Target("post", "", 1, "/", "post:"),
        Target("post", ["roof"], 1, "/", "post:roof"),  # type: ignore[arg-type]
        Target("post", "roof", "1", "/", "post:roof"),  # type: ignore[arg-type]
        Target("post", "roof", 1, "/", b"post:roof"),  # type: ignore[arg-type]
    ],
)
def test_addresses_that_it_reads_wrong_are_refused(found: Any) -> None:
    def read(_: str) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    dove = Dove(answering(None))
    dove.reading = read
    with pytest.raises(AddressRefused):
        guarded(dove).read("post:roof")


def test_addresses_are_read_by_it() -> None:
    transport = guarded(Dove(answering(None)))
    assert transport.read("post:roof") == TARGET
    with pytest.raises(AddressRefused):
        transport.read("post:" + "x" * 5000)


async def test_a_close_that_is_no_coroutine() -> None:
    for close in (in_turn(None), in_turn(ValueError("at once"))):
        dove = Dove(answering(None))
        dove.closing = lambda close=close: close(REQUEST)
        dove.close = dove.closing  # type: ignore[method-assign]
        transport = guarded(dove)
        await transport.close()
        assert transport.errors == 1


@pytest.mark.parametrize("what", ["raises", "closes"])
async def test_it_is_closed_whatever_it_does(what: str) -> None:
    dove = Dove(answering(None))
    closed = asyncio.Event()

    async def close() -> None:
        closed.set()
        if what == "raises":
            raise ValueError("x")

    dove.closing = close
    transport = guarded(dove)
    await transport.close()
    assert closed.is_set() and transport.errors == (what == "raises")
