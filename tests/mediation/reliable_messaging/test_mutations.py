"""Whatever becomes of an envelope on its way: it is read, or refused. What was read can be written."""

from hypothesis import given
from hypothesis import strategies as st

from filters import Refused
from mediation.reliable_messaging import (
    acknowledgement_block,
    read_message,
    sequence_block,
    with_blocks,
)
from tests.rigs.mediation import ENVELOPES

SEEDS = [path.read_bytes() for path in sorted((ENVELOPES / "reliable_messaging").glob("*.xml"))]
PIECES = [
    b"wsrm:Identifier", b"wsrm:Sequence", b"wsrm:Nack", b"wsrm:None", b"wsrm:Offer", b"1", b"0",
    b"-1", b"18446744073709551616", b"Upper", b"Lower", b"<!---->", b" ", b"", b"PT1H", b"s:Fault",
    b"wsrm:TerminateSequence", b"wsrm:AcksTo", b"wsa:Address", b"wsrm:FaultCode", b'"', b"<", b">",
]  # fmt: skip


@given(st.data())
def test_a_message_is_read_or_refused(data: st.DataObject) -> None:
    octets = data.draw(st.sampled_from(SEEDS))
    for _ in range(data.draw(st.integers(1, 4))):
        old, new = data.draw(st.sampled_from(PIECES)), data.draw(st.sampled_from(PIECES))
        place = octets.find(old, data.draw(st.integers(0, len(octets))))
        if place >= 0:
            octets = octets[:place] + new + octets[place + len(old) :]
    try:
        message = read_message(octets)
    except Refused:
        return
    if message.rm is None:
        return
    blocks = [
        acknowledgement_block(message.rm, one)
        for one in message.acknowledgements
        if not one.nacks  # With ranges, or as final, they are not written.
    ]
    if message.sequence is not None:
        blocks.append(sequence_block(message.rm, message.soap, message.sequence))
    empty = f'<s:Envelope xmlns:s="{message.soap.value}"><s:Body/></s:Envelope>'.encode()
    again = read_message(with_blocks(empty, blocks))
    assert again.sequence == message.sequence
    assert again.acknowledgements == tuple(one for one in message.acknowledgements if not one.nacks)
