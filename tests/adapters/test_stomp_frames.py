"""Frames of STOMP out of octets, however they are cut."""

import pytest
import stomp.utils
from hypothesis import example, given
from hypothesis import strategies as st

from adapters.stomp.frames import Frame, FrameError, FrameReader, escape, read_frame, write_frame

CASES = [
    pytest.param(
        b"RECEIPT\nreceipt-id:r1\n\n\0", ("RECEIPT", {"receipt-id": "r1"}, b""), id="no body"
    ),
    pytest.param(
        b"MESSAGE\r\na:1\r\n\r\nbody\0", ("MESSAGE", {"a": "1"}, b"body"), id="carriage returns"
    ),
    pytest.param(
        b"MESSAGE\ncontent-length:3\n\na\0b\0",
        ("MESSAGE", {"content-length": "3"}, b"a\0b"),
        id="a NUL in the body",
    ),
    pytest.param(
        b"MESSAGE\na:1\na:2\n\n\n\nb\0",
        ("MESSAGE", {"a": "1"}, b"\n\nb"),
        id="a header that repeats",
    ),
    pytest.param(
        b"MESSAGE\na:x\\cy\\nz\\\\n\\r\n\n\0", ("MESSAGE", {"a": "x:y\nz\\n\r"}, b""), id="escapes"
    ),
    pytest.param(b"MESSAGE\na:\n\n\0", ("MESSAGE", {"a": ""}, b""), id="an empty header"),
]


def values(frame: Frame) -> tuple[str, dict[str, str], bytes]:
    return frame.cmd, frame.headers, frame.body


@pytest.mark.parametrize(("wire", "frame"), CASES)
def test_wire(wire: bytes, frame: tuple[str, dict[str, str], bytes]) -> None:
    assert [values(one) for one in FrameReader().feed(b"\n\n" + wire + b"\n" + wire)] == [frame] * 2
    for cut in range(len(wire)):
        reader = FrameReader()
        assert reader.feed(wire[:cut]) == []
        assert [values(one) for one in reader.feed(wire[cut:])] == [frame]
    reader = FrameReader()
    found = [one for octet in wire * 2 for one in reader.feed(bytes([octet]))]
    assert [values(one) for one in found] == [frame] * 2


NAMES = st.from_regex(r"[A-Za-z_]{1,8}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@given(st.dictionaries(NAMES, TEXTS, max_size=4), st.binary(max_size=50), st.integers(1, 9))
def test_what_is_written_is_read(headers: dict[str, str], body: bytes, size: int) -> None:
    headers["content-length"] = str(len(body))
    wire = write_frame("MESSAGE", headers, body)
    reader = FrameReader()
    found = [
        frame
        for start in range(0, len(wire), size)
        for frame in reader.feed(wire[start : start + size])
    ]
    assert [values(frame) for frame in found] == [("MESSAGE", headers, body)]


@given(st.dictionaries(NAMES, TEXTS, max_size=6), st.binary(max_size=50))
def test_frames_are_written_as_stomp_py_writes_them(headers: dict[str, str], body: bytes) -> None:
    headers["content-length"] = str(len(body))
    escaped = {name: escape(value) for name, value in headers.items()}
    theirs = stomp.utils.convert_frame(stomp.utils.Frame("SEND", escaped, body))
    assert write_frame("SEND", headers, body) == b"".join(theirs)


LINES = st.text(st.sampled_from("ab:\\nrcx\r\t\ud800é\x85"), max_size=12)


@given(st.lists(LINES, max_size=6), st.binary(max_size=8), st.booleans())
@example(["a:1", "a:2", ":3", "b", "c:", "d:4:5"], b"\xff", True)
@example(["a:\\\\c\\c\\x\\", "\\c:\\n"], b"", True)
def test_frames_are_read_as_stomp_py_reads_them(
    lines: list[str], body: bytes, has_body: bool
) -> None:
    head = "\n".join(["MESSAGE", *(line for line in lines if line)]).encode(errors="surrogatepass")
    octets = head + b"\n\n" + (body if has_body else b"")
    frame = stomp.utils.parse_frame(octets)
    ended = len(octets) - len(frame.body)
    assert read_frame(octets, ended) == (frame.cmd, frame.headers, frame.body)


def test_a_password_is_not_escaped() -> None:
    assert b"passcode:a:b\\\n" in write_frame("CONNECT", {"passcode": "a:b\\"})


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(b"MESSAGE\na:" + b"x" * 50, id="headers without end"),
        pytest.param(b"MESSAGE\n\n" + b"x" * 50, id="a body without end"),
        pytest.param(b"MESSAGE\ncontent-length:50\n\n", id="a length beyond"),
        pytest.param(b"MESSAGE\ncontent-length:2\n\nabc\0", id="a length that is wrong"),
    ],
)
def test_bounds(wire: bytes) -> None:
    with pytest.raises(FrameError):
        FrameReader(max_head=40, max_body=40).feed(wire)
    reader = FrameReader(max_head=40, max_body=40)
    with pytest.raises(FrameError):
        for octet in wire:
            reader.feed(bytes([octet]))
