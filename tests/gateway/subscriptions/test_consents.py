"""Consents by callback: whose they are, how long they last, how many are remembered."""

from gateway.subscriptions.consents import KEPT, MOST, PATH, Consents

SINK = "http://consumer.example.org/"


def key_of(callback: str) -> str:
    before, _, key = callback.rpartition("/")
    assert before == f"https://gateway.example.org{PATH}"
    return key


def test_a_consent_is_for_one_subscriber_and_one_consumer() -> None:
    consents = Consents("https://gateway.example.org")
    key = key_of(consents.callback("a", SINK, 0.0))
    assert consents.given("a", SINK, 1.0) is None
    assert consents.agree(key, 60, 1.0)
    assert consents.given("a", SINK, 2.0) == 60
    assert consents.given("b", SINK, 2.0) is None
    assert consents.given("a", f"{SINK}other", 2.0) is None
    assert not consents.agree("other", 60, 2.0)


def test_a_callback_is_over_after_a_day() -> None:
    consents = Consents("https://gateway.example.org")
    key = key_of(consents.callback("a", SINK, 0.0))
    assert not consents.agree(key, 0, KEPT)
    new = key_of(consents.callback("a", SINK, KEPT))
    assert not consents.agree(key, 0, KEPT + 1)
    assert consents.agree(new, 0, KEPT + 1)


def test_a_consent_is_over_after_a_day() -> None:
    consents = Consents("https://gateway.example.org")
    assert consents.agree(key_of(consents.callback("a", SINK, 0.0)), 0, 5.0)
    assert consents.given("a", SINK, KEPT + 4.0) == 0
    assert consents.given("a", SINK, KEPT + 5.0) is None
    # It is asked again, and says nothing.
    key = key_of(consents.callback("a", SINK, KEPT + 6.0))
    assert consents.given("a", SINK, KEPT + 7.0) is None
    assert key_of(consents.callback("a", SINK, KEPT + 8.0)) == key


def test_few_are_remembered() -> None:
    consents = Consents("https://gateway.example.org")
    keys = [key_of(consents.callback("a", f"{SINK}{n}", 0.0)) for n in range(MOST)]
    assert key_of(consents.callback("a", f"{SINK}0", 0.0)) == keys[0]
    consents.callback("b", SINK, 0.0)
    assert [consents.agree(key, 0, 1.0) for key in keys[:3]] == [True, False, True]
