"""Which topics an advertisement protects, whether its synopsis can be read or not."""

from uuid import UUID

import pytest

from filters.topics import parse_clark
from gateway.discovery.protected import ProtectedTopics

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
