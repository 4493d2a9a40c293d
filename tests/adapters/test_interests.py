import pytest

from adapters import EVERYTHING_WANTED, Interest
from adapters.interests import Interests
from filters import Expression, FilterError, Step, Topic
from filters.dialects import TOPIC_CONCRETE, TOPIC_FULL

STORM = Topic((Step("urn:w", "storm"),))
SEA = Topic((Step("urn:w", "storm"), Step(None, "sea")))


def interest(text: str, dialect: str = TOPIC_FULL) -> Interest:
    return Interest(Expression(text, dialect, (("w", "urn:w"),)))


def test_interests_are_counted_apart() -> None:
    interests = Interests()
    assert not interests.cover(STORM)
    for text in ("w:storm", "w:storm|w:calm", "w:storm//."):
        interests.add(interest(text))
    interests.add(interest("w:storm"))
    assert interests.cover(STORM)
    interests.discard(interest("w:storm"))
    interests.discard(interest("w:storm"))
    assert interests.cover(STORM)
    assert interests.cover(SEA)
    interests.discard(interest("w:storm//."))
    assert interests.cover(STORM)
    assert not interests.cover(SEA)
    interests.discard(interest("w:storm|w:calm"))
    assert not interests.cover(STORM)


def test_everything_covers_messages_without_a_topic() -> None:
    interests = Interests()
    interests.add(interest("w:storm"))
    assert not interests.cover(None)
    interests.add(EVERYTHING_WANTED)
    assert interests.cover(None)
    interests.discard(EVERYTHING_WANTED)
    assert not interests.cover(None)


def test_a_refused_interest_changes_nothing() -> None:
    interests = Interests()
    interests.add(interest("w:storm"))
    with pytest.raises(FilterError):
        interests.add(interest("w:storm[", TOPIC_CONCRETE))
    with pytest.raises(FilterError):
        interests.replace([EVERYTHING_WANTED, interest("/", TOPIC_CONCRETE)])
    assert interests.cover(STORM)
    assert not interests.cover(SEA)
    interests.replace([interest("w:storm/sea")])
    assert not interests.cover(STORM)
    assert interests.cover(SEA)
