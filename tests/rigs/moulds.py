"""What tests of moulds share: both ways to read a message, held against each other."""

from collections.abc import Callable

from mediation.detect import _is_plain_event, _read_whole
from mediation.grid_events.recurring import CallMoulds
from mediation.model.requests import Arrival, Incoming, Rejected
from mediation.soap.recurring import EventMoulds, Moulds
from tests.rigs.mediation import ARRIVAL


def untaught() -> Moulds:
    return Moulds(EventMoulds(_read_whole, _is_plain_event).make, CallMoulds(_read_whole).make)


def taught(octets: bytes, arrival: Arrival = ARRIVAL) -> Moulds:
    """What knows the envelope of a message, if it can be known."""
    moulds = untaught()
    for _ in range(4):
        teach(moulds, octets, arrival)
    return moulds


def teach(moulds: Moulds, octets: bytes, arrival: Arrival = ARRIVAL) -> None:
    moulds.learn(octets, arrival, _read_whole(octets, arrival))


def outcome(work: Callable[[], Incoming]) -> object:
    try:
        return work()
    except Rejected as rejected:
        refused = rejected.refused
        return rejected.context, refused.reason, refused.text


def whole(octets: bytes, arrival: Arrival = ARRIVAL) -> object:
    """What comes of reading a message as a whole."""
    return outcome(lambda: _read_whole(octets, arrival))


def same(moulds: Moulds, octets: bytes, arrival: Arrival = ARRIVAL) -> bool:
    """Whether *octets* were read by a mould; then it was to the same as without."""
    found = moulds.read(octets, arrival, None)
    if found is None:
        return False
    assert found == whole(octets, arrival)
    return True
