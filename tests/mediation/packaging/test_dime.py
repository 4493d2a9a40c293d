"""DIME: the draft's rules, the examples that three independent parsers read, and hostile octets."""

import struct
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediation.model.messages import Attachment
from mediation.model.versions import Soap
from mediation.packaging.dime import (
    Decoder,
    DimeError,
    DimeLimits,
    DimeMessage,
    DimeReason,
    Encoder,
    Phase,
    first_octets,
)
from tests.rigs.cases import for_each
from tests.rigs.plain_dime import DimeDisagreement, check_round

ENVELOPE = (
    b'<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/">'
    b"<s:Body><p>hi</p></s:Body></s:Envelope>"
)
SOAP_1_1 = Soap.V1_1.value.encode()
SOAP_1_2 = Soap.V1_2.value.encode()
MESSAGE = DimeMessage(Soap.V1_1, ENVELOPE)
WITH_ATTACHMENT = replace(
    MESSAGE,
    attachments=(Attachment("cid:a", "application/octet-stream", b"\x01\x02\x03\x04\x05"),),
)

ONE_RECORD = (
    bytes.fromhex("0e20 0000 0000 0029 00000067") + SOAP_1_1 + bytes(3) + ENVELOPE + bytes(1)
)
CLOSED = b"\x0c" + ONE_RECORD[1:] + bytes.fromhex("0a40 0000 0000 0000 00000000")
CHUNKED = (
    bytes.fromhex("0d20 0000 0006 0029 00000032")
    + (b"uuid:1" + bytes(2) + SOAP_1_1 + bytes(3) + ENVELOPE[:50] + bytes(2))
    + bytes.fromhex("0800 0000 0000 0000 00000035")
    + (ENVELOPE[50:] + bytes(3))
    + bytes.fromhex("0a10 0000 0005 0018 00000005")
    + (b"cid:a" + bytes(3) + b"application/octet-stream" + b"\x01\x02\x03\x04\x05" + bytes(3))
)
EXAMPLES = [
    pytest.param(ONE_RECORD, MESSAGE, id="one record"),
    pytest.param(CLOSED, MESSAGE, id="closing empty record"),
    pytest.param(CHUNKED, WITH_ATTACHMENT, id="chunked SOAP and an attachment"),
]


def record(
    octet: int = 0x0E,
    kind: int = 2,
    data: bytes = ENVELOPE,
    *,
    type_: bytes = SOAP_1_1,
    id_: bytes = b"",
    options: bytes = b"",
    padding: bytes = bytes(4),
    format_: int | None = None,
    length: int | None = None,
) -> bytes:
    """A record with any fault that one may want."""

    def padded(octets: bytes) -> bytes:
        return octets + padding[: -len(octets) % 4]

    head = struct.pack(
        ">BBHHHI",
        octet,
        kind << 4 if format_ is None else format_,
        len(options),
        len(id_),
        len(type_),
        len(data) if length is None else length,
    )
    return head + padded(options) + padded(id_) + padded(type_) + padded(data)


FIRST = record(0x0C)
FIRST_CHUNK = record(0x0D, data=b"<a")


def decode(wire: bytes, limits: DimeLimits | None = None, cut: int = 0) -> list[DimeMessage]:
    decoder = Decoder(limits)
    step = cut or len(wire) or 1
    messages = [
        message
        for start in range(0, len(wire), step)
        for message in decoder.feed(wire[start : start + step])
    ]
    decoder.eof()
    return messages


def refused(wire: bytes, limits: DimeLimits | None = None) -> tuple[DimeReason, int]:
    """How *wire* is refused; the same whole and octet by octet."""
    found = []
    for cut in (0, 1):
        with pytest.raises(DimeError) as caught:
            decode(wire, limits, cut)
        found.append((caught.value.reason, caught.value.offset))
    assert found[0] == found[1]
    return found[0]


class TestExamples:
    @pytest.mark.parametrize(("wire", "length"), [(ONE_RECORD, 160), (CLOSED, 172), (CHUNKED, 236)])
    def test_are_the_ones_that_others_read(self, wire: bytes, length: int) -> None:
        assert len(wire) == length

    @pytest.mark.parametrize(("wire", "message"), EXAMPLES)
    def test_decode(self, wire: bytes, message: DimeMessage) -> None:
        assert decode(wire) == [message]

    def test_encode(self) -> None:
        assert Encoder().encode(MESSAGE) == ONE_RECORD
        assert Encoder(closing=True).encode(MESSAGE) == CLOSED
        unnamed = Encoder(chunk=53).encode(WITH_ATTACHMENT)
        assert unnamed[:12] == bytes.fromhex("0d20 0000 0000 0029 00000035")
        assert unnamed[-52:] == CHUNKED[-52:]

    @pytest.mark.parametrize(("wire", "message"), EXAMPLES)
    def test_every_split_in_two(self, wire: bytes, message: DimeMessage) -> None:
        for cut in range(len(wire)):
            decoder = Decoder()
            messages = [*decoder.feed(wire[:cut]), *decoder.feed(wire[cut:])]
            decoder.eof()
            assert messages == [message]

    @pytest.mark.parametrize(("wire", "message"), EXAMPLES)
    def test_octet_by_octet(self, wire: bytes, message: DimeMessage) -> None:
        assert decode(wire, cut=1) == [message]

    @pytest.mark.parametrize(("wire", "message"), EXAMPLES)
    def test_two_and_a_half_in_one_read(self, wire: bytes, message: DimeMessage) -> None:
        decoder = Decoder()
        half = len(wire) // 2
        assert list(decoder.feed(wire + wire + wire[:half])) == [message, message]
        assert list(decoder.feed(wire[half:])) == [message]
        decoder.eof()


class TestOctets:
    def test_every_first_octet(self) -> None:
        wanted = {0x0E: None, 0x0C: DimeReason.TRUNCATED, 0x0D: DimeReason.TRUNCATED}
        for octet in range(256):
            if octet & 0xF8 != 0x08:
                reason: DimeReason | None = DimeReason.VERSION
            elif octet in wanted:
                reason = wanted[octet]
            else:
                reason = DimeReason.CHUNK_AT_END if octet & 4 else DimeReason.BEGIN_MISSING
            if reason is None:
                assert decode(record(octet)) == [MESSAGE]
            else:
                assert refused(record(octet))[0] is reason, hex(octet)

    def test_every_later_octet(self) -> None:
        for octet in range(8, 16):
            wire = FIRST + record(octet, 1, b"x", type_=b"a/b")
            if octet == 0x0A:
                assert len(decode(wire)[0].attachments) == 1
            else:
                reason, offset = refused(wire)
                assert (reason, offset) == {
                    0x08: (DimeReason.TRUNCATED, len(wire)),
                    0x09: (DimeReason.TRUNCATED, len(wire)),
                    0x0B: (DimeReason.CHUNK_AT_END, len(FIRST)),
                }.get(octet, (DimeReason.BEGIN_AGAIN, len(FIRST)))

    def test_every_type_format_of_the_first_record(self) -> None:
        for kind in range(16):
            typed = record(kind=kind)
            bare = record(kind=kind, type_=b"", data=b"" if kind == 4 else ENVELOPE)
            if kind in (0, 3, 4):
                wrong = DimeReason.TYPE_LENGTH if kind else DimeReason.TYPE_FORMAT
                assert refused(typed)[0] is wrong
            else:
                assert decode(typed) == [MESSAGE if kind == 2 else replace(MESSAGE, soap=None)]
            if kind == 0:
                assert refused(bare)[0] is DimeReason.TYPE_FORMAT
            else:
                assert decode(bare)[0].soap is None

    def test_every_reserved_bit(self) -> None:
        for bits in range(1, 16):
            assert refused(record(format_=0x20 | bits)) == (DimeReason.RESERVED, 0)


MANY = 2000
BROKEN = [
    pytest.param(record(0x16), DimeReason.VERSION, 0, id="version 2"),
    pytest.param(FIRST + record(0x12), DimeReason.VERSION, len(FIRST), id="mixed versions"),
    pytest.param(record(format_=0x21), DimeReason.RESERVED, 0, id="reserved bits"),
    pytest.param(record(0x0A), DimeReason.BEGIN_MISSING, 0, id="no begin"),
    pytest.param(FIRST + FIRST, DimeReason.BEGIN_AGAIN, len(FIRST), id="begins within"),
    pytest.param(record(0x0F), DimeReason.CHUNK_AT_END, 0, id="chunk at the end"),
    pytest.param(record(kind=0, type_=b""), DimeReason.TYPE_FORMAT, 0, id="unchanged first"),
    pytest.param(
        FIRST + record(0x0A, 0, type_=b""),
        DimeReason.TYPE_FORMAT,
        len(FIRST),
        id="unchanged, and no chunk before",
    ),
    pytest.param(
        FIRST_CHUNK + record(0x0A), DimeReason.TYPE_FORMAT, len(FIRST_CHUNK), id="another type"
    ),
    pytest.param(
        record(0x0D, 4, b"", type_=b""), DimeReason.TYPE_FORMAT, 0, id="a chunk of nothing"
    ),
    pytest.param(
        FIRST_CHUNK + record(0x0A, 0),
        DimeReason.TYPE_LENGTH,
        len(FIRST_CHUNK),
        id="a later chunk's type",
    ),
    pytest.param(record(kind=3), DimeReason.TYPE_LENGTH, 0, id="type of unknown"),
    pytest.param(record(kind=4, data=b""), DimeReason.TYPE_LENGTH, 0, id="type of none"),
    pytest.param(record(kind=4, type_=b""), DimeReason.DATA_LENGTH, 0, id="data of none"),
    pytest.param(
        FIRST_CHUNK + record(0x0A, 0, type_=b"", id_=b"a:b"),
        DimeReason.ID_OF_CHUNK,
        len(FIRST_CHUNK),
        id="a later chunk's id",
    ),
    pytest.param(
        record(0x0C, id_=b"a:b") + record(0x0A, 1, type_=b"a/b", id_=b"a:b"),
        DimeReason.ID_REPEATED,
        len(record(0x0C, id_=b"a:b")),
        id="an id twice",
    ),
    pytest.param(
        record(options=bytes(4097)), DimeReason.OPTIONS_TOO_LONG, 0, id="options too long"
    ),
    pytest.param(record(id_=b"i" * 4097), DimeReason.ID_TOO_LONG, 0, id="id too long"),
    pytest.param(record(type_=b"t" * 1025), DimeReason.TYPE_TOO_LONG, 0, id="type too long"),
    pytest.param(
        record(data=b"", length=2**32 - 1), DimeReason.MESSAGE_TOO_LONG, 0, id="4 GiB announced"
    ),
    pytest.param(
        FIRST_CHUNK + record(0x09, 0, b"", type_=b"") * MANY,
        DimeReason.TOO_MANY_EMPTY,
        len(FIRST_CHUNK) + 16 * 12,
        id="2,000 empty chunks",
    ),
    pytest.param(
        FIRST_CHUNK + record(0x09, 0, b"x", type_=b"") * MANY,
        DimeReason.TOO_MANY_RECORDS,
        len(FIRST_CHUNK) + 1023 * 16,
        id="a message that never ends",
    ),
    pytest.param(
        FIRST + record(0x08, 1, b"x", type_=b"a/b") * 65,
        DimeReason.TOO_MANY_ATTACHMENTS,
        len(FIRST) + 64 * 20,
        id="65 attachments",
    ),
    pytest.param(ONE_RECORD[1:], DimeReason.VERSION, 0, id="an octet early"),
    pytest.param(ONE_RECORD[:-1] * 2, DimeReason.VERSION, 160, id="padding left out"),
    pytest.param(ONE_RECORD[:158], DimeReason.TRUNCATED, 158, id="ends in the data"),
    pytest.param(CLOSED[:160], DimeReason.TRUNCATED, 160, id="ends between two records"),
    pytest.param(ONE_RECORD[:5], DimeReason.TRUNCATED, 5, id="ends in the header"),
    pytest.param(ONE_RECORD[:54], DimeReason.TRUNCATED, 54, id="ends in the type's padding"),
]


class TestRefused:
    @for_each(("wire", "reason", "offset"), BROKEN)
    def test_with_reason_and_offset(self, wire: bytes, reason: DimeReason, offset: int) -> None:
        assert refused(wire) == (reason, offset)
        assert refused(ONE_RECORD + wire) == (reason, 160 + offset)

    def test_every_reason_is_tried(self) -> None:
        tried = {parameters.values[1] for parameters in BROKEN}
        assert tried | {DimeReason.ENVELOPE_TOO_LONG} == set(DimeReason)

    def test_what_came_before_is_handed_out_first(self) -> None:
        messages = Decoder().feed(ONE_RECORD + b"GET / HTTP/1.1\r\n")
        assert next(messages) == MESSAGE
        with pytest.raises(DimeError):
            next(messages)

    def test_nothing_follows_an_error(self) -> None:
        decoder = Decoder()
        for octets in (record(0x16), ONE_RECORD, b""):
            with pytest.raises(DimeError) as caught:
                list(decoder.feed(octets))
            assert caught.value.offset == 0
        with pytest.raises(DimeError):
            decoder.eof()

    def test_announced_octets_take_no_memory(self) -> None:
        limits = DimeLimits(message=2**32, envelope=2**32)
        tracemalloc.start()
        try:
            decoder = Decoder(limits)
            assert list(decoder.feed(record(data=b"x", length=2**32 - 1))) == []
            with pytest.raises(DimeError):
                list(Decoder().feed(record(data=b"", length=2**32 - 1)))
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()

    def test_small_pieces_take_little_memory(self) -> None:
        wire = Encoder().encode(DimeMessage(Soap.V1_1, b"<" + bytes(100_000)))
        tracemalloc.start()
        try:
            assert len(decode(wire, cut=2)) == 1
            assert tracemalloc.get_traced_memory()[1] < 600_000
        finally:
            tracemalloc.stop()


class TestLimits:
    def test_as_many_as_are_allowed(self) -> None:
        chunks = FIRST_CHUNK + record(0x09, 0, b"x", type_=b"") * 1022
        assert len(decode(chunks + record(0x0A, 0, b"x", type_=b""))[0].envelope) == 1025
        empty = FIRST_CHUNK + record(0x09, 0, b"", type_=b"") * 16
        assert decode(empty + record(0x0A, 0, b"x", type_=b""))[0].envelope == b"<ax"
        parts = FIRST + record(0x08, 1, b"x", type_=b"a/b") * 64
        assert len(decode(parts + record(0x0A, 4, b"", type_=b""))[0].attachments) == 64
        longest = record(options=bytes(4096), id_=b"i" * 4096, type_=b"t" * 1024)
        assert decode(longest) == [replace(MESSAGE, soap=None)]

    def test_chunks_share_the_message(self) -> None:
        limits = DimeLimits(message=10)
        chunk = record(0x0D, data=b"123456")
        assert refused(chunk + record(0x0A, 0, b"12345", type_=b""), limits) == (
            DimeReason.MESSAGE_TOO_LONG,
            len(chunk),
        )
        assert decode(chunk + record(0x0A, 0, b"1234", type_=b""), limits)

    def test_attachments_share_the_message(self) -> None:
        limits = DimeLimits(message=len(ENVELOPE) + 1)
        wire = FIRST + record(0x0A, 1, b"12", type_=b"a/b")
        assert refused(wire, limits)[0] is DimeReason.MESSAGE_TOO_LONG
        assert decode(FIRST + record(0x0A, 1, b"1", type_=b"a/b"), limits)

    @for_each("encoder", [Encoder(), Encoder(chunk=7), Encoder(chunk=90)])
    @for_each(
        ("data", "allowed"),
        [
            (b"<" + b"x" * 99, True),
            (b"<" + b"x" * 100, False),
            (b"\n <" + b"x" * 98, False),
            (b" " * 101, False),
            (b"MIME-Version: 1.0" + b"x" * 100, True),
            (b"\r\n--boundary" + b"x" * 100, True),
        ],
    )
    def test_of_the_envelope_are_not_of_a_package(
        self, encoder: Encoder, data: bytes, allowed: bool
    ) -> None:
        wire = encoder.encode(DimeMessage(Soap.V1_1, data))
        if allowed:
            assert decode(wire, DimeLimits(envelope=100), 1)[0].envelope == data.strip()
        else:
            assert refused(wire, DimeLimits(envelope=100))[0] is DimeReason.ENVELOPE_TOO_LONG

    def test_of_a_message_end_with_it(self) -> None:
        limits = DimeLimits(records=2, empty=1, attachments=1, message=len(ENVELOPE))
        assert decode(CLOSED * 3, limits) == [MESSAGE] * 3


class TestPeculiarities:
    @pytest.mark.parametrize("octets", [b"\xff" * 4, b"\x0e\x20\x0e\x20"])
    def test_padding_is_not_looked_at(self, octets: bytes) -> None:
        for extra in range(4):
            wire = record(data=ENVELOPE + b" " * extra, padding=octets, id_=b"i", options=b"o")
            assert decode(wire * 2) == [MESSAGE] * 2

    def test_padding_is_not_awaited(self) -> None:
        decoder = Decoder()
        assert list(decoder.feed(ONE_RECORD[:159])) == [MESSAGE]
        assert decoder.phase is Phase.QUIET
        assert not decoder.empty
        decoder.eof()
        assert list(decoder.feed(bytes(1))) == []
        assert decoder.empty

    def test_an_id_that_is_no_uri(self) -> None:
        """What Microsoft's interoperability sample writes."""
        wire = record(id_=bytes(4))
        assert wire[:8] == bytes.fromhex("0e20 0000 0004 0029")
        assert decode(wire) == [MESSAGE]

    def test_soap_1_2(self) -> None:
        wire = record(type_=SOAP_1_2)
        message = DimeMessage(Soap.V1_2, ENVELOPE)
        assert decode(wire) == [message]
        assert Encoder().encode(message) == wire

    @pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b"\r\n \t"])
    def test_around_the_envelope(self, before: bytes) -> None:
        (message,) = decode(record(data=before + ENVELOPE + b"\r\n"))
        assert message.envelope == before.strip() + ENVELOPE

    def test_of_utf_16_nothing_is_cut_off(self) -> None:
        text = b"\xfe\xff" + "<a/>\n".encode("utf-16-be")
        assert decode(record(data=text))[0].envelope == text

    def test_a_package_is_told(self) -> None:
        assert decode(record(data=b"MIME-Version: 1.0\r\n"))[0].packaged
        assert decode(record(data=b"\r\n--boundary"))[0].packaged
        assert not MESSAGE.packaged

    def test_attachments_keep_their_names(self) -> None:
        parts = (
            Attachment("cid:\xe9\x00", "text/plain; charset=utf-8", b"1"),
            Attachment("uuid:1", "http://example.org/a/b", b""),
            Attachment("", "", b"333"),
            Attachment("", "urn:x", b"4444"),
        )
        message = DimeMessage(Soap.V1_1, ENVELOPE, parts)
        assert decode(Encoder().encode(message)) == [message]

    def test_a_name_from_elsewhere_goes_out_in_utf_8(self) -> None:
        wire = Encoder().encode(replace(MESSAGE, attachments=(Attachment("cid:\u20ac", "", b""),)))
        assert "cid:\u20ac".encode() in wire

    def test_a_reserved_format_is_unknown(self) -> None:
        (message,) = decode(FIRST + record(0x0A, 9, b"x", type_=b"a/b"))
        assert message.attachments == (Attachment("", "", b"x"),)

    def test_records_of_nothing_are_no_attachments(self) -> None:
        nothing = record(0x08, 4, b"", type_=b"")
        (message,) = decode(FIRST + nothing + record(0x0A, 1, b"x", type_=b"a/b"))
        assert message.attachments == (Attachment("", "a/b", b"x"),)

    def test_a_name_beyond_its_length_field(self) -> None:
        with pytest.raises(ValueError, match="65,535"):
            Encoder().encode(replace(MESSAGE, attachments=(Attachment("i" * 65536, "", b""),)))


class TestPhases:
    def test_of_a_message(self) -> None:
        decoder = Decoder()
        phases = []
        for octet in CHUNKED:
            list(decoder.feed(bytes([octet])))
            phases.append((decoder.phase, decoder.records))
        head, body = Phase.HEAD, Phase.BODY
        assert phases == [
            *[(head, 0)] * 63,
            *[(body, 1)] * 53,  # the data, and its padding
            *[(head, 1)] * 11,
            *[(body, 2)] * 57,
            *[(head, 2)] * 43,
            *[(body, 3)] * 5,
            *[(Phase.QUIET, 0)] * 4,
        ]
        assert decoder.empty


@pytest.mark.parametrize(
    ("octets", "name"),
    [
        (ONE_RECORD, "DIME with SOAP"),
        (b"\x0c\x20", "DIME with SOAP"),
        (b"\x0d\x10", "media type"),
        (b"POST /soap HTTP/1.1", "HTTP"),
        (b"vnd.sun.ws.tcp", "Sun's"),
        (b"vn", "Sun's"),
        (b"\x00\x01\x00\x01", ".NET"),
        (b"\x00\x01", ".NET"),
        (b"\x16\x03\x01", "TLS"),
        (b"\x0e\x40", "unknown"),
        (b"\x0f\x20", "unknown"),
        (b"get", "unknown"),
        (b"", "unknown"),
    ],
)
def test_first_octets(octets: bytes, name: str) -> None:
    assert name in first_octets(octets)


_LATIN = st.characters(max_codepoint=255)
_TYPES = st.one_of(
    st.just(""),
    st.from_regex(r"[a-z]{1,5}/[a-z+.-]{1,9}", fullmatch=True),
    st.from_regex(r"[a-z]{1,5}:[a-z/]{1,9}", fullmatch=True),
)
_PARTS = st.lists(
    st.builds(Attachment, st.text(_LATIN, max_size=9), _TYPES, st.binary(max_size=70)),
    max_size=5,
    unique_by=lambda part: part.content_id or part,
)
_MESSAGES = st.builds(
    DimeMessage,
    st.sampled_from([*Soap, None]),
    st.binary(max_size=200).map(lambda octets: b"<" + octets + b">"),
    _PARTS.map(tuple),
)
_ENCODERS = st.builds(Encoder, chunk=st.none() | st.integers(1, 90), closing=st.booleans())


@given(st.lists(_MESSAGES, max_size=4), _ENCODERS, st.data())
def test_round_trip(messages: list[DimeMessage], encoder: Encoder, data: st.DataObject) -> None:
    wire = b"".join(map(encoder.encode, messages))
    assert len(wire) % 4 == 0
    assert decode(wire) == decode(wire, cut=1) == messages
    cuts = data.draw(st.lists(st.integers(0, len(wire)), max_size=6).map(sorted))
    decoder = Decoder()
    found: list[DimeMessage] = []
    for start, stop in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        found += decoder.feed(wire[start:stop])
    assert found == messages
    assert list(decoder.feed(ONE_RECORD + ONE_RECORD[:20])) == [MESSAGE]
    with pytest.raises(DimeError):
        decoder.eof()


@given(st.lists(_MESSAGES, min_size=1, max_size=2), _ENCODERS, st.data())
def test_any_change_gives_messages_or_an_error(
    messages: list[DimeMessage], encoder: Encoder, data: st.DataObject
) -> None:
    wire = bytearray(b"".join(map(encoder.encode, messages)))
    for _ in range(data.draw(st.integers(1, 3))):
        wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    outcomes = []
    for cut in (len(wire), 1, 5):
        decoder = Decoder()
        found: list[DimeMessage | tuple[DimeReason, int]] = []
        try:
            for start in range(0, len(wire), cut):
                for message in decoder.feed(bytes(wire[start : start + cut])):
                    found.append(message)
            decoder.eof()
        except DimeError as error:
            found.append((error.reason, error.offset))
        outcomes.append(found)
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_a_plain_reading_says_the_same() -> None:
    assert sum(check_round(0, number) for number in range(300)) > 10_000


def test_the_plain_reading_would_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mediation.packaging.dime.decoding._BLANK", b"x")
    with pytest.raises(DimeDisagreement, match="--seed 0 --round"):
        for number in range(300):
            check_round(0, number)
