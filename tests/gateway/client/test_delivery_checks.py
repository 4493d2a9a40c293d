"""The four checks of a subscriber, by what happened."""

from collections.abc import Callable, Sequence

import pytest

from gateway.client import GatewayError
from gateway.client.delivery_checks import CheckState, DeliveryChecks

BROKER, ADDRESS = "http://broker.example", "http://desk.example:4561"
UNREACHED = GatewayError(f"cannot reach {BROKER}: connection refused")
REFUSED = GatewayError(f"{BROKER} refused: no such topic", status=500, code="TopicNotSupported")
_STATES = {".": CheckState.OPEN, "+": CheckState.PASSED, "-": CheckState.FAILED}


def accepted(checks: DeliveryChecks) -> None:
    checks.accepted()


def received(checks: DeliveryChecks) -> None:
    checks.received()


def fetched(checks: DeliveryChecks) -> None:
    checks.fetched(100.0)


def unreached(checks: DeliveryChecks) -> None:
    checks.failed(UNREACHED)


def refused(checks: DeliveryChecks) -> None:
    checks.failed(REFUSED)


@pytest.mark.parametrize(
    ("events", "now", "states"),
    [
        ([], 100.0, "...."),
        ([unreached], 100.0, "-..."),
        ([refused], 100.0, "+-.."),
        ([unreached, accepted], 100.0, "++.."),
        ([accepted], 100.0, "++.."),
        ([accepted, received], 100.0, "++++"),
        ([accepted, fetched], 104.9, "+++."),
        ([accepted, fetched], 105.0, "+++-"),
        ([accepted, fetched, received], 105.0, "++++"),
        ([accepted, received, fetched], 999.0, "++++"),
        ([accepted, received, refused], 100.0, "+-++"),
        ([accepted, received, unreached], 100.0, "-.++"),
    ],
)
def test_states(
    events: Sequence[Callable[[DeliveryChecks], None]], now: float, states: str
) -> None:
    checks = DeliveryChecks(BROKER, ADDRESS, grace=5.0)
    for event in events:
        event(checks)
    assert [row.state for row in checks.rows(now)] == [_STATES[one] for one in states]


def test_what_is_in_the_way_is_named() -> None:
    checks = DeliveryChecks(BROKER, ADDRESS)
    accepted(checks)
    checks.fetched(7.0)
    checks.fetched(9.0)  # The first counts.
    assert checks.due == 12.0
    way = checks.rows(12.0)[3]
    assert way.text.startswith(
        f"something is in the way: {BROKER} has messages, but does not reach {ADDRESS};"
    )
    received(checks)
    assert checks.due is None


def test_why_there_is_no_subscription() -> None:
    checks = DeliveryChecks(BROKER, ADDRESS)
    checks.failed(UNREACHED)
    assert str(checks.rows(0)[0]) == f"broker: {UNREACHED}"
    checks.failed(REFUSED)
    assert [row.text for row in checks.rows(0)[:2]] == [f"{BROKER} answers", str(REFUSED)]


def test_fetching_alone() -> None:
    checks = DeliveryChecks(BROKER)
    accepted(checks)
    assert [row.state for row in checks.rows(0)] == [_STATES[one] for one in "++.+"]


def test_no_comparison() -> None:
    checks = DeliveryChecks(BROKER, ADDRESS)
    checks.comparing()
    assert checks.rows(0)[3].text == "nothing is sent; looking whether something can be fetched"
    checks.not_compared("no mailboxes")
    assert checks.rows(0)[3].text == "nothing can be fetched to compare: no mailboxes"
    assert checks.rows(0)[3].state is CheckState.OPEN
