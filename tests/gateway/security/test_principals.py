"""Who counts as one stranger."""

from pathlib import Path

import pytest

from gateway.security.identify import Identification, TransportFacts, anonymous
from gateway.security.networks import networks
from gateway.security.principals import OF_STRANGERS, OF_TRUSTED, address_of, side_of
from gateway.security.rights import Right
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running

SPEAKER = Speaker()


@pytest.mark.parametrize(
    ("address", "side"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:2", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_side(address: str, side: str) -> None:
    assert side_of(address) == side
    stranger, trusted = (anonymous(address, trusted=one) for one in (False, True))
    assert stranger.owner == f"anonymous:{side}"
    assert stranger.source.endswith(f":{side}")
    assert address_of(stranger.owner) == side
    assert address_of(trusted.owner) == address


def test_identify() -> None:
    identification = Identification(networks(["192.0.2.0/24"]))
    stranger, trusted = (
        identification.of_connection(TransportFacts(address))
        for address in ("2001:db8::1", "192.0.2.1")
    )
    assert (stranger.limits, trusted.limits) == (OF_STRANGERS, OF_TRUSTED)
    assert stranger.rights == trusted.rights == frozenset(Right)
    assert stranger == anonymous("2001:db8::1", trusted=False)
    assert identification.of_connection(TransportFacts("192.0.2.1")) is trusted
    behind_a_proxy = identification.of_connection(TransportFacts("192.0.2.1", proxied=True))
    assert behind_a_proxy == anonymous("192.0.2.1", trusted=False)
    assert not identification.trusts_owner(stranger.owner)
    assert identification.trusts_owner(trusted.owner)


async def test_one_network_of_ipv6_is_one_stranger(tmp_path: Path) -> None:
    """Behind a proxy that says so, each request from another address of one /64."""
    body = SPEAKER.wse_subscribe("http://consumer.example.org/")
    async with running(tmp_path, trusted=(), trusted_proxies=("127.0.0.1",)) as run:

        async def subscribe(address: str) -> int:
            octets = SPEAKER.envelope(body)
            answer = await run.post(octets, type=SPEAKER.type, x_forwarded_for=address)
            return answer.status

        statuses = [await subscribe(f"2001:db8::{number:x}") for number in range(2, 62)]
        assert statuses[:20] == [200] * 20
        assert statuses.count(429) > 30
        assert await subscribe("2001:db8:0:1::2") == 200
        mapped = [await subscribe(address) for address in ("::ffff:192.0.2.7", "192.0.2.7")]
        assert mapped == [200, 200]
        owners = {entry.subscription.owner for entry in run.gateway.subscriptions.entries}
        assert owners == {f"anonymous:{side}" for side in
            ("2001:db8::/64", "2001:db8:0:1::/64", "192.0.2.7")}  # fmt: skip
