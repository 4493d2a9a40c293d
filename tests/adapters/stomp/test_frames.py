"""Frames of STOMP out of bytes, however they are cut: what we lean on in stomp.py."""

import ast
import threading
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import adapters.stomp
from adapters.stomp import frames
from adapters.stomp.frames import Frame, FrameError, FrameTransport, Protocol12
from tests.rigs.cases import for_each

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
        b"MESSAGE\ncontent-length:6\n\n\n\0\n\n\0\n\0",
        ("MESSAGE", {"content-length": "6"}, b"\n\0\n\n\0\n"),
        id="NULs and line ends in the body",
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
    pytest.param(
        b"MESSAGE\na:x\0y\n\nb\0", ("MESSAGE", {"a": "x\0y"}, b"b"), id="a NUL in a header"
    ),
    pytest.param(
        b"MESSAGE\na\0b:x\ncontent-length:1\n\n\0\0",
        ("MESSAGE", {"a\0b": "x", "content-length": "1"}, b"\0"),
        id="a NUL in a header's name",
    ),
    pytest.param(b"MESSAGE\na:\\t\n\nb\0", ("MESSAGE", {"a": "\\t"}, b"b"), id="no escape"),
    pytest.param(
        b"MESSAGE\na:\xff\n\n\xff\0", ("MESSAGE", {"a": "\ufffd"}, b"\xff"), id="no UTF-8"
    ),
    pytest.param(
        b"MESSAGE\ncontent-length:1x\n\nb\0",
        ("MESSAGE", {"content-length": "1x"}, b"b"),
        id="a length that is no number",
    ),
]
LINE_ENDS = [b"", b"\n", b"\n\n\n", b"\r\n", b"\r\n\r\n"]


def values(frame: Frame) -> tuple[str, dict[str, str], bytes]:
    return frame.cmd, frame.headers, frame.body


class Reader:
    """What a `FrameTransport` reads: frames that are whole, and faults of the others."""

    def __init__(self, bound: int = 2**20) -> None:
        self.faults: list[str] = []
        self._found: list[Frame] = []
        self.transport = FrameTransport(
            lambda _octets: None, self._take, max_head=bound, max_body=bound
        )

    def _take(self, frame: Frame, fault: str) -> None:
        self._found.append(frame)
        self.faults += [fault] if fault else []

    def feed(self, octets: bytes) -> list[tuple[str, dict[str, str], bytes]]:
        """The frames that end in *octets*."""
        self.transport.feed(octets)
        found = list(map(values, self._found))
        self._found.clear()
        return found

    def feed_in_pieces(self, octets: bytes, size: int) -> list[tuple[str, dict[str, str], bytes]]:
        return [
            frame
            for start in range(0, len(octets), size)
            for frame in self.feed(octets[start : start + size])
        ]


def sent(send: Callable[[Protocol12], None]) -> bytes:
    """The bytes of what *send* sends."""
    written: list[bytes] = []
    send(
        Protocol12(
            FrameTransport(written.append, lambda _frame, _fault: None), auto_content_length=False
        )
    )
    return b"".join(written)


@for_each("ends", LINE_ENDS)
@pytest.mark.parametrize(("wire", "frame"), CASES)
def test_wire(wire: bytes, frame: tuple[str, dict[str, str], bytes], ends: bytes) -> None:
    assert Reader().feed(ends + wire + ends + wire + ends) == [frame] * 2
    for cut in range(len(ends + wire)):
        reader = Reader()
        assert reader.feed((ends + wire)[:cut]) == []
        assert reader.feed((ends + wire)[cut:] + ends) == [frame]
        assert reader.feed(ends + wire) == [frame]
    reader = Reader()
    found = [one for octet in (ends + wire) * 2 for one in reader.feed(bytes([octet]))]
    assert found == [frame] * 2


NAMES = st.from_regex(r"[A-Za-z_]{1,8}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@given(st.dictionaries(NAMES, TEXTS, max_size=4), st.binary(max_size=50), st.integers(1, 9))
def test_what_is_written_is_read(headers: dict[str, str], body: bytes, size: int) -> None:
    headers["content-length"] = str(len(body))
    wire = sent(lambda stomp: stomp.send_frame("MESSAGE", dict(headers), body))
    reader = Reader()
    found = [
        frame
        for start in range(0, len(wire), size)
        for frame in reader.feed(wire[start : start + size])
    ]
    assert found == [("MESSAGE", headers, body)]


def test_a_password_is_not_escaped() -> None:
    wire = sent(lambda stomp: stomp.connect("u", "a:b\\", with_connect_command=True))
    assert wire.startswith(b"CONNECT\n")
    assert b"passcode:a:b\\\n" in wire


GOOD = b"MESSAGE\nack:2\n\n<a/>\0\n"
LONG = b"x" * 100
SKIPPED = [
    pytest.param(b"MESSAGE\na:" + LONG + b"\nack:1\n\n<a/>\0", b"<a/>", "headers", id="a header"),
    pytest.param(
        b"MESSAGE\n" + b"".join(b"h%d:x\n" % n for n in range(20)) + b"ack:1\n\n\0",
        b"",
        "headers",
        id="many headers",
    ),
    pytest.param(
        b"MESSAGE\r\nack:1\r\na:" + LONG + b"\r\ncontent-length:3\r\n\r\na\0b\0",
        b"a\0b",
        "headers",
        id="headers, and a body of a length",
    ),
    pytest.param(b"MESSAGE\nack:1\n\n" + LONG + b"\0", b"", "body", id="a body without length"),
    pytest.param(
        b"MESSAGE\nack:1\ncontent-length:100\n\n" + b"\0" * 100 + b"\0",
        b"",
        "body",
        id="a body of a length",
    ),
    pytest.param(
        b"MESSAGE\nack:1\na:" + LONG + b"\n\n" + LONG + b"\0", b"", "body", id="all of it"
    ),
    pytest.param(
        b"MESSAGE\nack:1\ncontent-length:6\n\n<a/>\0", b"<a/>", "content-length", id="a length"
    ),
]


@for_each("size", [1, 7, 1000])
@for_each(("wire", "body", "fault"), SKIPPED)
def test_what_is_beyond_the_bounds_is_skipped(
    wire: bytes, body: bytes, fault: str, size: int
) -> None:
    """Of it is kept by what it is acknowledged, and what comes behind it is read."""
    reader = Reader(bound=40)
    found = reader.feed_in_pieces(GOOD + wire + GOOD + wire + GOOD, size)
    assert [headers["ack"] for _, headers, _ in found] == ["2", "1", "2", "1", "2"]
    assert [read for _, _, read in found] == [b"<a/>", body, b"<a/>", body, b"<a/>"]
    assert len(reader.faults) == 2 and all(fault in one for one in reader.faults)


@pytest.mark.parametrize("head", [True, False])
def test_what_is_skipped_is_not_kept(head: bool) -> None:
    """However long it is, and whether it has lines or not."""
    reader = Reader(bound=2**16)
    reader.feed(b"MESSAGE\nack:1\na:b" + (b"" if head else b"\n\n"))
    most = 0
    for number in range(200):
        reader.feed(b"y" * 2**14 + (b"\nz%d:" % number if number % 3 == 0 and head else b""))
        most = max(most, reader.transport.held)
    assert most <= 2**17
    ((_, headers, body),) = reader.feed((b"\n\n" if head else b"") + b"\0")
    assert headers["ack"] == "1" and body == b""
    assert sum(map(len, headers.values())) < 2**16


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(b"ERROR\na:" + LONG, id="headers"),
        pytest.param(b"ERROR\n\n" + LONG, id="a body"),
        pytest.param(b"ERROR\ncontent-length:2\n\nabc\0", id="a length"),
        pytest.param(b"MESSAGE\ncontent-length:50\n\n" + b"y" * 60, id="a long body's length"),
    ],
)
@pytest.mark.parametrize("before", [b"", b"RECEIPT\nreceipt-id:1\n\n\0\n"])
def test_what_ends_the_reading(wire: bytes, before: bytes) -> None:
    """Nobody acknowledges what is no MESSAGE."""
    with pytest.raises(FrameError):
        Reader(bound=40).feed(before + wire)
    with pytest.raises(FrameError):
        Reader(bound=40).feed_in_pieces(before + wire, 1)


def test_many_frames_come_within_the_bounds_of_one() -> None:
    wire = b"MESSAGE\ncontent-length:30\n\n" + b"\0\n" * 15 + b"\0\n"
    for size in (1, 7, len(wire) // 2, len(wire), 3 * len(wire) + 5):
        assert len(Reader(bound=40).feed_in_pieces(wire * 50, size)) == 50


@pytest.mark.parametrize("length", [True, False])
def test_a_large_frame_is_read_in_time_that_grows_as_it_does(length: bool) -> None:
    """Not all of it is looked at with each piece that comes."""

    def seconds(size: int) -> float:
        said = b"content-length:%d\n" % size if length else b""
        reader = Reader(bound=size)
        before = process_time()
        assert len(reader.feed_in_pieces(b"MESSAGE\n" + said + b"\n" + b"y" * size + b"\0", 2**12))
        return process_time() - before

    small = min(seconds(2**22) for _ in range(3))
    assert seconds(2**25) < 8 * 4 * small + 0.5


def test_an_error_of_who_takes_a_frame_is_not_swallowed() -> None:
    def take(_frame: Frame, _fault: str) -> None:
        raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        FrameTransport(lambda _octets: None, take).feed(b"RECEIPT\n\n\0")


def test_nothing_runs_in_a_thread() -> None:
    before = threading.active_count()
    reader = Reader()
    assert len(reader.feed(b"CONNECTED\nheart-beat:1,1\n\n\0" * 3)) == 3
    assert threading.active_count() == before


def test_no_private_name_of_stomp_py_is_used() -> None:
    """A name with an underscore in front is one of ours: a class of ours defines it."""
    folder = Path(str(adapters.stomp.__file__)).parent
    for path in folder.glob("*.py"):
        tree = ast.parse(path.read_text())
        if path.name != Path(str(frames.__file__)).name:
            named = {
                module.split(".")[0]
                for node in ast.walk(tree)
                for module in (
                    [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else [node.module or ""]
                    if isinstance(node, ast.ImportFrom)
                    else []
                )
            }
            assert "stomp" not in named, f"{path.name}: stomp.py has one door, frames.py"
            continue
        ours = {
            each.attr
            for each in ast.walk(tree)
            if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
        } | {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}
        used = {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        private = {name for name in used | imported if name.startswith("_")}
        assert private <= ours | {"__init__"}, private - ours
        theirs = {name for each in FrameTransport.__mro__[1:] for name in vars(each)}
        assert not {name for name in ours if name.startswith("_")} & (theirs - vars(object).keys())
