"""Server-Sent Events, as a reader gets them."""

from starlette.types import Message

from gateway.web.server_sent_events import EventWriter, write_event


def test_an_event() -> None:
    assert write_event("{}", event="message", id=7) == b"id: 7\nevent: message\ndata: {}\n\n"
    assert write_event("gone", event="replaced") == b"event: replaced\ndata: gone\n\n"


async def test_a_response() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    writer = EventWriter(send)
    await writer.start()
    await writer.beat()
    await writer.end()
    start, *bodies = sent
    assert (b"content-type", b"text/event-stream; charset=utf-8") in start["headers"]
    assert [body["body"] for body in bodies] == [b"retry: 2000\n\n", b":\n\n", b""]
    assert [body.get("more_body", False) for body in bodies] == [True, True, False]
