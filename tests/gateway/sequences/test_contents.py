"""What the buffer of a sequence keeps of events."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from filters import parse_clark
from gateway.sequences.contents import named, read_content, write_content
from mediation.model.messages import Attachment, EndpointReference, Notification
from mediation.model.versions import Wsa

TIME = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=20)


def event(text: str = "1", **more: object) -> Notification:
    return Notification("urn:id", "urn:p", f"<a>{text}</a>".encode(), TIME, **more)  # type: ignore[arg-type]


@given(st.lists(st.text("abcäöü\n&;", max_size=50), min_size=1, max_size=5))
def test_what_is_written_is_read_again(texts: list[str]) -> None:
    events = tuple(event(text.replace("&", "&amp;")) for text in texts)
    assert read_content(write_content(events)) == events


def test_everything_of_an_event_is_kept() -> None:
    whole = event(
        topic=parse_clark("{urn:x}a/b"),
        action="urn:action",
        producer=EndpointReference("http://p.example.com/", Wsa.V2005_08),
        properties={"own": "1"},
        headers=(b'<h:one xmlns:h="urn:h"/>',),
        attachments=(Attachment("cid:1", "image/png", b"\x00\x01\n"),),
    )
    assert read_content(write_content([whole, event()])) == (whole, event())


def test_nothing_is_no_event() -> None:
    assert read_content(b"") == ()


@given(TEXTS, st.integers(1, 2**63 - 1))
def test_ids_are_of_the_sequence_and_the_number(identifier: str, number: int) -> None:
    one, *_ = named([event()], identifier, number)
    [again] = named([event("2")], identifier, number)
    assert one.id == again.id != named([event()], identifier, number + 1)[0].id
    assert one.id != named([event()], f"{identifier}x", number)[0].id
    assert one.id.startswith("urn:uuid:")
    assert not identifier or identifier not in one.id or len(identifier) < 4
    both = named([event(), event("2")], identifier, number)
    assert [each.id for each in both] == [f"{one.id}#1", f"{one.id}#2"]
