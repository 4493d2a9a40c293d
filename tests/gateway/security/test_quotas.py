"""How much a stranger may ask for, and what may be chosen by whom."""

import pytest

from filters import Reason
from gateway.security.authorise import may_choose_reply_address
from gateway.security.identify import anonymous
from gateway.security.intake import Intake
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate, QuotaExceeded

STRANGER = anonymous("192.0.2.1", trusted=False)
TRUSTED = anonymous("192.0.2.1", trusted=True)


def test_a_rate_binds_each_stranger_by_itself() -> None:
    rate = PrincipalRate(1e-6, 2.0, "Too many.")
    rate.take(STRANGER)
    rate.take(STRANGER)
    with pytest.raises(QuotaExceeded, match=r"Too many\.") as exceeded:
        rate.take(STRANGER)
    assert exceeded.value.reason is Reason.RATE
    assert exceeded.value.retry_after is not None and exceeded.value.retry_after > 0
    rate.take(anonymous("192.0.2.2", trusted=False))


def test_a_rate_binds_no_trusted_principal() -> None:
    rate = PrincipalRate(1e-6, 2.0, "Too many.")
    for _ in range(10):
        rate.take(TRUSTED, 1000)


def test_what_is_too_much_at_once_is_not_counted() -> None:
    rate = PrincipalRate(1e-6, 2.0, "Too many.")
    with pytest.raises(QuotaExceeded):
        rate.take(STRANGER, 3)
    rate.take(STRANGER, 2)


def test_intake_counts_the_bytes_of_everybody_against_the_disk() -> None:
    reserved: list[int] = []
    intake = Intake(reserved.append)
    intake.admit_bytes(STRANGER, 10)
    intake.admit_bytes(TRUSTED, 20)
    assert reserved == [10, 20]


@pytest.mark.parametrize(
    ("principal", "agreed", "may"),
    [
        pytest.param(TRUSTED, False, True, id="trusted"),
        pytest.param(STRANGER, True, True, id="a host that has agreed"),
        pytest.param(STRANGER, False, False, id="a host that never agreed"),
    ],
)
def test_who_chooses_a_reply_address(principal: Principal, agreed: bool, may: bool) -> None:
    assert may_choose_reply_address(principal, host_agreed=agreed) is may
