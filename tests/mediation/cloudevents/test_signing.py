"""Signatures of Standard Webhooks."""

import pytest

from filters import Refused
from mediation.cloudevents import Secret, read_secret, signature

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_the_example_that_standard_webhooks_publishes() -> None:
    headers = signature(
        Secret(SECRET), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert headers == (
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    )


def test_a_secret() -> None:
    assert read_secret(SECRET) == SECRET


@pytest.mark.parametrize(
    "text",
    ["", "whsec_", SECRET.removeprefix("whsec_"), "whsec_AAAA", "whsec_" + "A" * 88, SECRET + "!"],
)
def test_no_secret(text: str) -> None:
    with pytest.raises(Refused) as refused:
        read_secret(text)
    assert len(text) < 10 or text not in str(refused.value)
