"""Which topics an advertisement protects, whether its synopsis can be read or not."""

from uuid import UUID

import pytest

from filters.topics import parse_clark
from gateway.discovery.protected_topics import Closed, ProtectedTopics
from mediation.discovery import Denial

OWN, OTHER = (UUID(int=number << 96 | 7, version=4) for number in (1, 2))
PLAIN = f"{{urn:tide}}Tide/u-{OWN}"


@pytest.mark.parametrize(
    ("topic", "of_plain", "of_encrypted"),
    [
        pytest.param(PLAIN, True, True, id="the topic that is named"),
        pytest.param(f"A/B/u-{OWN}", False, True, id="another with the UUID"),
        pytest.param(f"u-{OWN}", False, True, id="the UUID alone"),
        pytest.param(f"A/u-{OWN}/B", False, True, id="the UUID in between"),
        pytest.param(f"{{urn:dragoman:tdn:1}}Integer/i-{OWN.int}", False, True, id="the number"),
        pytest.param(f"{{urn:elsewhere}}Integer/i-{OWN.int}", False, False, id="elsewhere"),
        pytest.param(f"A/u-{OTHER}", False, False, id="another UUID"),
        pytest.param("A/B", False, False, id="none"),
    ],
)
def test_what_is_protected(topic: str, of_plain: bool, of_encrypted: bool) -> None:
    for place, protects in ((PLAIN, of_plain), (None, of_encrypted)):
        known = ProtectedTopics()
        known.add(str(OWN), place)
        assert (parse_clark(topic) in known) is protects
        assert known.hides(parse_clark(topic)) is (protects and "/u-" in f"/{topic}" and not place)
        assert known.id_of(parse_clark(topic)) == (str(OWN) if protects else None)
        known.remove(str(OWN))
        assert known == ProtectedTopics()


def test_of_two_the_last_counts() -> None:
    known = ProtectedTopics()
    for each in (OWN, OTHER):
        known.add(str(each), None)
    assert known.id_of(parse_clark(f"u-{OTHER}/u-{OWN}")) == str(OWN)
    assert known.id_of(parse_clark(f"u-{OWN}/u-{OTHER}")) == str(OTHER)


@pytest.mark.parametrize("place", [PLAIN, None])
def test_what_is_closed_stays_protected_until_it_is_removed(place: str | None) -> None:
    known, topic = ProtectedTopics(), parse_clark(PLAIN)
    known.add(str(OWN), place)
    assert known.why_closed(topic) is None
    known.close(str(OWN), None, Denial.WITHDRAWN, 7.0)
    assert known.why_closed(topic) is Denial.WITHDRAWN
    assert topic in known
    assert list(known.closed()) == [(str(OWN), Closed(Denial.WITHDRAWN, 7.0))]
    known.remove(str(OWN))
    assert known == ProtectedTopics()
    known.close(str(OWN), place, Denial.EXPIRED, 7.0)  # As it is learnt after a restart.
    assert known.why_closed(topic) is Denial.EXPIRED


def test_what_is_not_known_is_closed_where_it_is_to_be() -> None:
    open_, closing = ProtectedTopics(), ProtectedTopics(closes_unknown=True)
    for text in (PLAIN, f"A/u-{OTHER}/B", f"{{urn:dragoman:tdn:1}}Integer/i-{OWN.int}"):
        topic = parse_clark(text)
        assert topic not in open_
        assert topic in closing
        assert closing.why_closed(topic) is Denial.UNKNOWN
    for text in ("A/B", "u-1234", f"A/e-{OWN.hex}", f"{{urn:dragoman:tdn:1}}Entity/e-{OWN.hex}"):
        assert parse_clark(text) not in closing
