"""For which addresses messages may be signed."""

import pytest

from gateway.soap.own_addresses import OwnAddresses

OWN = OwnAddresses(
    ["https://gateway.example", "http://10.0.0.7:8080", "https://proxy.example/a", "urn:gateway"],
    ["other.example"],
)


@pytest.mark.parametrize(
    ("to", "meant"),
    [
        (None, True),
        ("https://gateway.example/soap", True),
        ("https://GATEWAY.example.:443/soap", True),
        ("https://gateway.example:8443/soap", False),
        ("http://gateway.example/soap", False),
        ("https://gateway.example/subscriptions/x", False),
        ("http://10.0.0.7:8080/soap", True),
        ("https://proxy.example/a/soap", True),
        ("https://proxy.example/b/soap", False),
        ("https://other.example/soap", True),
        ("http://other.example:8080/soap", True),
        ("https://other.example:8080/soap", False),
        ("https://other.example.evil/soap", False),
        ("https://gateway.example@evil.example/soap", False),
        ("urn:gateway", True),
        ("urn:another", False),
    ],
)
def test_whether_a_message_is_meant(to: str | None, meant: bool) -> None:
    assert OWN.are_meant(to, "/soap") is meant
