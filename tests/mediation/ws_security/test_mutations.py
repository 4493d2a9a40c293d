"""Good messages with changes that nobody thought of: none is accepted whose signed parts mean
something else."""

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lxml import etree

from filters import Refused
from mediation import names
from mediation.soap.envelopes import read_envelope
from mediation.ws_security import verify_message
from tests.rigs.envelopes import canonical
from tests.rigs.signers import Signers, envelope

SEED = 31
CONTENT = (
    f'<n:Notify xmlns:n="{names.WSN_1_3}" xmlns:w="urn:w"><n:NotificationMessage><n:Topic>w:tide'
    '</n:Topic><n:Message><e xmlns="urn:e" a="1">high<!--c--></e></n:Message>'
    "</n:NotificationMessage></n:Notify>"
)


def changed(octets: bytes, chance: random.Random) -> bytes:
    """*octets* with an octet, a part or an element that is another, missing, twice or elsewhere."""
    at, to = sorted(chance.sample(range(len(octets)), 2))
    starts = [place for place in range(len(octets)) if octets[place : place + 1] == b"<"]
    begin, end = sorted(chance.sample(starts, 2))
    match chance.randrange(6):
        case 0:
            return octets[:at] + bytes([chance.randrange(32, 127)]) + octets[at + 1 :]
        case 1:
            return octets[:at] + octets[min(to, at + 40) :]
        case 2:
            return octets[:end] + octets[begin:end] + octets[end:]
        case 3:
            return octets[:begin] + octets[end:]
        case 4:
            place = chance.choice(starts)
            return octets[:place] + octets[begin:end] + octets[place:]
        case _:
            return octets[:at] + b' Id="u-0"' + octets[at:]


def meaning(octets: bytes) -> list[bytes]:
    """What is acted upon: the header blocks, but Security, and the Body, without comments."""
    root = etree.fromstring(octets)
    blocks = [one for one in read_envelope(root).headers if "Security" not in str(one.tag)]
    found = []
    for one in (*blocks, root[-1]):
        etree.strip_tags(one, etree.Comment)
        found.append(canonical(one))
    return found


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(20_000, marks=pytest.mark.nightly, id="6 s"),
        pytest.param(100_000, marks=pytest.mark.release, id="30 s"),
    ],
)
def test_no_change_of_what_is_signed_is_accepted(tmp_path: Path, rounds: int) -> None:
    signers, chance = Signers.make(tmp_path, "mole"), random.Random(SEED)
    octets = signers.signed("mole", envelope(CONTENT))
    good, accepted = meaning(octets), 0
    for number in range(rounds):
        if number % 5000 == 0:  # Before it is too old.
            octets = signers.signed("mole", envelope(CONTENT, headers=HEADERS))
            good = meaning(octets)
        mutated = changed(octets, chance)
        if mutated == octets:
            continue
        try:
            if verify_message(mutated, signers.trust, now=datetime.now(UTC)) is None:
                continue  # It has no Security header any more, and is nobody's.
        except Refused:
            continue
        accepted += 1
        assert meaning(mutated) == good, (SEED, number, mutated)
    assert accepted < rounds / 20


HEADERS = "<wsa:MessageID>urn:uuid:1</wsa:MessageID><wsa:Action>urn:e</wsa:Action>"
