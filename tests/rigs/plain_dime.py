"""A plain reading of DIME, slow and whole, to hold the decoder to; and streams to do it with."""

import random
from dataclasses import dataclass

from mediation.model.messages import Attachment
from mediation.model.versions import Soap
from mediation.packaging.dime import (
    Decoder,
    DimeError,
    DimeLimits,
    DimeMessage,
    DimeReason,
    Encoder,
)

LIMITS = DimeLimits(
    message=400, envelope=250, records=12, empty=3, id=20, type=60, options=20, attachments=4
)
"""Small, so that random streams meet each of them."""


class DimeDisagreement(Exception):
    """The two do not say the same."""


@dataclass(frozen=True)
class Read:
    """What a stream says: its messages, and how it ends."""

    messages: tuple[DimeMessage, ...]
    error: tuple[DimeReason, int] | None


def read_plainly(stream: bytes, limits: DimeLimits) -> Read:
    """What *stream* says, record by record, with nothing remembered but the records."""
    messages: list[DimeMessage] = []
    at = 0
    while at < len(stream):
        try:
            message, at = _message(stream, at, limits)
        except DimeError as error:
            return Read(tuple(messages), (error.reason, error.offset))
        messages.append(message)
    return Read(tuple(messages), None)


def _message(stream: bytes, at: int, limits: DimeLimits) -> tuple[DimeMessage, int]:
    payloads: list[tuple[int, bytes, bytes, bytes]] = []
    records, data_left, empty, more = 0, limits.message, 0, False
    while True:
        if len(stream) - at < 12:
            raise DimeError(DimeReason.TRUNCATED, len(stream))
        head = stream[at : at + 12]
        flags, kind = head[0] & 7, head[1] >> 4
        options, id_, type_, data = (
            int.from_bytes(head[first:last], "big")
            for first, last in ((2, 4), (4, 6), (6, 8), (8, 12))
        )
        ends, chunk = bool(flags & 2), bool(flags & 1)
        wrong = [
            (head[0] >> 3 != 1, DimeReason.VERSION),
            (head[1] & 15 != 0, DimeReason.RESERVED),
            (records == 0 and not flags & 4, DimeReason.BEGIN_MISSING),
            (records > 0 and bool(flags & 4), DimeReason.BEGIN_AGAIN),
            (ends and chunk, DimeReason.CHUNK_AT_END),
            (more != (kind == 0) or (kind == 4 and chunk), DimeReason.TYPE_FORMAT),
            (type_ > 0 and kind in (0, 3, 4), DimeReason.TYPE_LENGTH),
            (data > 0 and kind == 4, DimeReason.DATA_LENGTH),
            (id_ > 0 and more, DimeReason.ID_OF_CHUNK),
            (options > limits.options, DimeReason.OPTIONS_TOO_LONG),
            (id_ > limits.id, DimeReason.ID_TOO_LONG),
            (type_ > limits.type, DimeReason.TYPE_TOO_LONG),
            (data > data_left, DimeReason.MESSAGE_TOO_LONG),
            (records >= limits.records, DimeReason.TOO_MANY_RECORDS),
            (data == 0 and empty >= limits.empty, DimeReason.TOO_MANY_EMPTY),
        ]
        for is_wrong, reason in wrong:
            if is_wrong:
                raise DimeError(reason, at)
        fields = []
        end = at + 12
        for length in (options, id_, type_):
            fields.append(stream[end : end + length])
            end += (length + 3) // 4 * 4
        if end > len(stream):
            raise DimeError(DimeReason.TRUNCATED, len(stream))
        if id_ and any(fields[1] == payload[1] for payload in payloads):
            raise DimeError(DimeReason.ID_REPEATED, at)
        attachments = sum(payload[0] != 4 for payload in payloads[1:])
        if payloads and not more and kind != 4 and attachments >= limits.attachments:
            raise DimeError(DimeReason.TOO_MANY_ATTACHMENTS, at)
        piece = stream[end : end + data]
        if more:
            first = payloads[-1]
            payloads[-1] = (*first[:3], first[3] + piece)
        else:
            payloads.append((kind, fields[1], fields[2], piece))
        announced = len(payloads[0][3]) - len(piece) + data
        if len(payloads) == 1 and announced > limits.envelope:
            seen = payloads[0][3][:64]
            begins = seen.lstrip(b" \t\r\n")
            if begins[:1] not in (b"M", b"-") and (begins or len(seen) == 64):
                raise DimeError(DimeReason.ENVELOPE_TOO_LONG, at)
        if end + data > len(stream):
            raise DimeError(DimeReason.TRUNCATED, len(stream))
        records, data_left, more = records + 1, data_left - data, chunk
        empty = 0 if data else empty + 1
        at = end + (data + 3) // 4 * 4
        if ends:
            return _put_together(payloads), at


def _put_together(payloads: list[tuple[int, bytes, bytes, bytes]]) -> DimeMessage:
    kind, _, type_, envelope = payloads[0]
    soaps = [soap for soap in Soap if kind == 2 and type_ == soap.value.encode()]
    stripped = envelope.strip(b" \t\r\n")
    if stripped[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        envelope = stripped
    attachments = tuple(
        Attachment(id_.decode("latin-1"), type_.decode("latin-1") if kind in (1, 2) else "", data)
        for kind, id_, type_, data in payloads[1:]
        if kind != 4
    )
    return DimeMessage(soaps[0] if soaps else None, envelope, attachments)


def random_stream(chance: random.Random) -> bytes:
    """Messages, most of them well-formed, some of them changed a little."""
    wire = bytearray()
    for _ in range(chance.randrange(1, 4)):
        parts = tuple(
            Attachment(
                chance.choice(["", f"cid:{chance.randrange(5)}", "\0\0\0\0"]),
                chance.choice(["", "text/plain", "urn:x", "a" * chance.randrange(1, 70)]),
                bytes(chance.choices(b"<M- \0", k=chance.choice([0, 0, 3, 90]))),
            )
            for _ in range(chance.choice([0, 0, 1, 2, 6]))
        )
        envelope = chance.choice([b"<a>", b"", b" \r\n<", b"\xfe\xff\0<", b"MIME", b"\n--"])
        envelope += b" x"[chance.randrange(2) :][:1] * chance.choice([0, 1, 30, 240, 300])
        chunk = chance.choice([None, None, 1, 7, 100])
        encoder = Encoder(chunk=chunk, closing=chance.random() < 0.3)
        wire += encoder.encode(DimeMessage(chance.choice([*Soap, None]), envelope, parts))
    for _ in range(chance.choice([0, 0, 1, 1, 3])):
        at = chance.randrange(len(wire))
        match chance.randrange(4):
            case 0:
                wire[at] = chance.randrange(256)
            case 1:
                wire[at] ^= 1 << chance.randrange(8)
            case 2:
                del wire[at : at + chance.choice([1, 4, 12])]
            case _:
                wire[at:at] = bytes(chance.choices([0, 8, 9, 0x20], k=chance.choice([1, 4, 12])))
        if not wire:
            break
    return bytes(wire)


def check_round(seed: int, number: int) -> int:
    """Compare the two on one stream, cut in several ways; the octets compared.

    Raises:
        DimeDisagreement: With what to repeat it.
    """
    chance = random.Random(f"{seed} {number}")
    stream = random_stream(chance)
    wanted = read_plainly(stream, LIMITS)
    for most in (len(stream) or 1, 1, chance.randrange(2, 40)):
        found = _decoded(stream, most, chance)
        if found != wanted:
            raise DimeDisagreement(
                f"--target dime --seed {seed} --round {number}: {stream.hex()} in pieces of at"
                f" most {most}: {found} instead of {wanted}"
            )
    return len(stream)


def _decoded(stream: bytes, most: int, chance: random.Random) -> Read:
    decoder = Decoder(LIMITS)
    messages: list[DimeMessage] = []
    at = 0
    try:
        while at < len(stream):
            step = most if most in (1, len(stream)) else chance.randrange(most + 1)
            messages.extend(decoder.feed(stream[at : at + step]))
            at += step
        decoder.eof()
    except DimeError as error:
        return Read(tuple(messages), (error.reason, error.offset))
    return Read(tuple(messages), None)
