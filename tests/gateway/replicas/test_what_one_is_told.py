"""Of several gateways one is told who somebody is, or that a host is forbidden: all go by it."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gateway.identities.file_editing import create_identities
from tests.gateway.replicas.test_replicas import broker, cluster, environment, replicas
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import Speaker, fresh_id
from tests.rigs.identity_provider import identity_provider
from tests.rigs.processes import GatewayProcess
from tests.rigs.waiting import until

__all__ = ["broker", "cluster", "environment"]

SPEAKER = Speaker()
EVENTS = 12
"""As many as come to the partitions of both."""
RULES = """
[[issuers]]
issuer = "{0}"
audience = "dragoman"
keys = "{0}/keys"
roles = "roles"

[[rights]]
who = ["role:ward"]
may = ["subscribe", "publish"]

[[rights]]
who = ["everybody"]
may = ["read"]
"""


async def post(at: GatewayProcess, token: str, body: str, path: str = "/soap") -> int:
    envelope = SPEAKER.envelope(body, message_id=fresh_id())
    headers = {"content_type": SPEAKER.soap.media_type, "authorization": f"Bearer {token}"}
    return (await at.request("POST", path, envelope, **headers)).status


async def decide(at: GatewayProcess, key: str, host: str, what: str) -> None:
    path = f"/api/v1/destinations/{host}/{what}"
    answer = await at.request("POST", path, authorization=f"Bearer {key}")
    assert answer.status == 200, answer.body


@pytest.mark.nightly
async def test_roles_and_decisions(environment: dict[str, str], tmp_path: Path) -> None:
    """Takes 20 s, or 40 where others work: two gateways, PostgreSQL and RabbitMQ."""
    file = tmp_path / "identities.toml"
    key = create_identities(file)
    with identity_provider() as provider:
        file.write_text(file.read_text() + RULES.format(provider.issuer))
        given = {**environment, "DRAGOMAN_IDENTITIES": str(file)}
        mole, other = (provider.token(sub=name, roles=["ward"]) for name in ("mole", "other"))
        async with consumers() as sinks, replicas(tmp_path, given) as (a, b):
            consumer = sinks.add()
            host = urlsplit(consumer.url).hostname
            assert host is not None
            assert await post(a, mole, SPEAKER.wse_subscribe(consumer.url)) == 200

            async def publish(at: GatewayProcess, number: int) -> None:
                body = f"<a><n>{number}</n></a>"
                assert await post(at, other, body, f"/soap/topic/of-{number % EVENTS}") == 202

            async def all_have_come() -> bool:  # The other knows the roles within two seconds.
                missing = [one for one in range(EVENTS) if str(one) not in consumer.numbers]
                for number in missing:
                    await publish(b, number)
                return not missing

            await until(all_have_come)
            await decide(b, key, host, "forbid")

            async def is_known() -> bool:
                said = await a.request("GET", "/api/v1/destinations", authorization=f"Bearer {key}")
                return b'"forbidden"' in said.body

            await until(is_known)
            before = consumer.count
            for number in range(EVENTS, 2 * EVENTS):
                await publish(a, number)

            async def all_wait() -> bool:
                path = "/api/v1/subscriptions"
                said = await a.request("GET", path, authorization=f"Bearer {key}")
                [one] = json.loads(said.body)["subscriptions"]
                return bool(one["counts"]["waiting"] >= EVENTS)

            await until(all_wait)
            assert not {str(one) for one in range(EVENTS, 2 * EVENTS)} & set(consumer.numbers)
            await decide(a, key, host, "reset")
            await consumer.have(before + EVENTS)
