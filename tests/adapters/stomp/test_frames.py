"""Frames of STOMP out of bytes, however they are cut: what we lean on in stomp.py."""

import ast
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import adapters.stomp
from adapters.stomp import frames
from adapters.stomp.frames import Frame, FrameError, FrameTransport, Protocol12

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
]
LINE_ENDS = [b"", b"\n", b"\n\n\n", b"\r\n", b"\r\n\r\n"]


def values(frame: Frame) -> tuple[str, dict[str, str], bytes]:
    return frame.cmd, frame.headers, frame.body


class Reader:
    """What a `FrameTransport` reads."""

    def __init__(self, bound: int = 2**20) -> None:
        self._found: list[Frame] = []
        self.transport = FrameTransport(
            lambda _octets: None, self._found.append, max_head=bound, max_body=bound
        )

    def feed(self, octets: bytes) -> list[tuple[str, dict[str, str], bytes]]:
        """The frames that end in *octets*."""
        if octets and self.transport.feed(octets):
            self.transport.feed()
        found = list(map(values, self._found))
        self._found.clear()
        return found


def sent(send: Callable[[Protocol12], None]) -> bytes:
    """The bytes of what *send* sends."""
    written: list[bytes] = []
    send(Protocol12(FrameTransport(written.append, lambda _frame: None), auto_content_length=False))
    return b"".join(written)


@pytest.mark.parametrize("ends", LINE_ENDS)
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


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(b"MESSAGE\na:" + b"x" * 100, id="headers without end"),
        pytest.param(b"MESSAGE\n\n" + b"x" * 100, id="a body without end"),
        pytest.param(b"MESSAGE\ncontent-length:99\n\n" + b"\0" * 99, id="a length beyond"),
        pytest.param(
            b"MESSAGE\ncontent-length:" + b"9" * 5000 + b"\n\n\0", id="a length that is no number"
        ),
    ],
)
@pytest.mark.parametrize("before", [b"", b"RECEIPT\nreceipt-id:1\n\n\0\n"])
def test_bounds(wire: bytes, before: bytes) -> None:
    with pytest.raises(FrameError):
        Reader(bound=40).feed(before + wire)
    reader = Reader(bound=40)
    with pytest.raises(FrameError):
        for octet in before + wire:
            reader.feed(bytes([octet]))


def test_many_frames_come_within_the_bounds_of_one() -> None:
    reader = Reader(bound=40)
    wire = b"MESSAGE\ncontent-length:30\n\n" + b"\0\n" * 15 + b"\0\n"
    for size in (1, 7, len(wire) // 2, len(wire), 3 * len(wire) + 5):
        whole = wire * 50
        found = [
            one
            for start in range(0, len(whole), size)
            for one in reader.feed(whole[start : start + size])
        ]
        assert len(found) == 50


def test_a_large_frame_is_not_looked_at_with_every_piece() -> None:
    body = b"\0\n" * 2**22
    wire = b"MESSAGE\ncontent-length:%d\n\n" % len(body) + body + b"\0"
    found: list[Frame] = []
    transport = FrameTransport(lambda _octets: None, found.append)
    asked = [transport.feed(wire[at : at + 2**16]) for at in range(0, len(wire), 2**16)]
    assert asked[-1]
    assert asked.count(False) < 40 < asked.count(True)
    assert found == []
    transport.feed()
    assert [frame.body for frame in found] == [body]


def test_an_error_of_who_takes_a_frame_is_not_swallowed() -> None:
    def take(_frame: Frame) -> None:
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
