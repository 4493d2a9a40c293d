"""What a tenant's own operators see of it: an overview, metrics, destinations. Each is asked for by
who is of the tenant, of another, of the default one, by nobody, and with what has expired."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from gateway.identities.file_editing import add_key
from tests.gateway.security.test_tenants import Tenants, make_file
from tests.rigs.consumers import Consumers, status
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running

SPEAKER = Speaker()
at_the_gateway = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenants(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenants]:
    """Of acme: a subscription whose consumer takes what comes, and one whose consumer refuses it;
    of umbrella one at the same host that refuses, too; of the default tenant another."""
    folder = tmp_path_factory.mktemp("gateway")
    file, keys = make_file(folder)
    keys["expired"] = add_key(file, "ada", (), datetime.now(UTC) - timedelta(days=1))
    keys["wrong"] = "drg_nobody"
    async with Consumers() as sinks, running(folder / "data", identities=file) as run:
        found = Tenants(run, keys)
        urls = {"takes": sinks.url("takes"), "refuses": sinks.url("refuses")}
        sinks.at("/refuses").behaviour = status(400)
        for who, kinds in (
            ("ada", ("takes", "refuses")), ("eve", ("refuses",)), ("administrator", ("refuses",)),
        ):  # fmt: skip
            for kind in kinds:
                body = SPEAKER.wse_subscribe(urls[kind])
                assert (await found.post(who, body))[0] == 200
        for who, number in (("ada", 1), ("eve", 2), ("administrator", 1)):
            for _ in range(number):
                assert (await found.post(who, "<storm/>", "/soap/topic/storms"))[0] == 202
        await run.quiet()
        yield found


ROUTES = {
    "overview": "/api/v1/tenants/acme/overview",
    "quotas": "/api/v1/tenants/acme",
    "metrics": "/metrics?tenant=acme",
}
"""What is acme's, and its own operators' and those of the default tenant."""
ASKED: dict[str, int] = {
    "ada": 200, "bob": 200, "administrator": 200, "eve": 404, "sam": 404, "dora": 403,
    "expired": 401, "wrong": 401, "": 401,
}  # fmt: skip


@at_the_gateway
@pytest.mark.parametrize("path", ROUTES.values(), ids=ROUTES)
async def test_whose_it_is(tenants: Tenants, path: str) -> None:
    tenants.keys[""] = ""
    found = {who: (await tenants.ask(who, "GET", path))[0] for who in ASKED}
    assert found == ASKED


@at_the_gateway
async def test_who_asks_without_a_name_has_its_own(tenants: Tenants) -> None:
    for path in ("/metrics", "/api/v1/destinations", "/console", "/console/destinations"):
        for who, answered in (("ada", 200), ("eve", 200), ("expired", 401), ("wrong", 401)):
            found, said = await tenants.ask(who, "GET", path)
            if answered == 401 and path.startswith("/console"):
                answered = 303  # To the page to log in at.
            assert found == answered, (path, who)
            for other in {"acme", "umbrella"} - {"ada": {"acme"}, "eve": {"umbrella"}}.get(
                who, set()
            ):
                assert other.encode() not in said, (path, who)


async def overview(tenants: Tenants, who: str, name: str) -> Any:
    return json.loads((await tenants.ask(who, "GET", f"/api/v1/tenants/{name}/overview"))[1])


@at_the_gateway
async def test_the_overview_counts_its_own(tenants: Tenants) -> None:
    acme = await overview(tenants, "ada", "acme")
    assert acme["subscriptions"] == 2
    assert acme["deliveries"] | {"oldest": None} == {
        "matched": 2, "delivered": 1, "waiting": 0, "oldest": None,
        "attempts": {"delivered": 1, "rejected": 1},
    }  # fmt: skip
    assert acme["published"]["messages"] == 1
    assert acme["dead_letters"]["kept"] == 1
    assert acme["dead_letters"]["by_reason"] == [{"reason": "rejected", "kept": 1, "last_hour": 1}]
    umbrella = await overview(tenants, "eve", "umbrella")
    assert umbrella["dead_letters"]["kept"] == 2 and umbrella["published"]["messages"] == 2
    assert umbrella == await overview(tenants, "administrator", "umbrella")
    assert acme["failing"]["subscriptions"] == umbrella["failing"]["subscriptions"] == 1


@at_the_gateway
async def test_the_metrics_are_its_own(tenants: Tenants) -> None:
    said = (await tenants.ask("ada", "GET", "/metrics"))[1].decode()
    told = [line for line in said.splitlines() if not line.startswith("#")]
    assert all(line.startswith("dragoman_tenant_") for line in told)
    assert all('tenant="acme"' in line for line in told if "_created" not in line)
    assert 'dragoman_tenant_attempts_total{tenant="acme"} 2.0' in told
    assert 'dragoman_tenant_delivered_total{tenant="acme"} 1.0' in told
    assert 'dragoman_tenant_subscriptions{tenant="acme"} 2.0' in told
    assert 'dragoman_tenant_published_messages_total{tenant="acme"} 1.0' in told
    everything = (await tenants.ask("administrator", "GET", "/metrics"))[1].decode()
    # Values change meanwhile.
    names = {line.rpartition(" ")[0] for line in everything.splitlines()}
    assert {line.rpartition(" ")[0] for line in told} <= names and "process_" in everything


@at_the_gateway
async def test_destinations_have_failures_of_its_own(tenants: Tenants) -> None:
    """Though two tenants and the default one send to the same host, which refuses."""

    async def listed(who: str) -> Any:
        said = await tenants.ask(who, "GET", "/api/v1/destinations")
        return json.loads(said[1])["destinations"]

    [acme] = await listed("ada")
    [umbrella] = await listed("eve")
    [everybody] = await listed("administrator")
    assert (acme["failures"], umbrella["failures"], everybody["failures"]) == (1, 2, 4)
    assert acme["destination"] == umbrella["destination"] == everybody["destination"]
    assert not acme["decides"] and everybody["decides"]
    assert (await listed("sam")) == []
    host = acme["host"]
    path = f"/api/v1/destinations/{host}/approve"
    assert (await tenants.ask("administrator", "POST", path))[0] == 200
    [acme] = await listed("ada")
    [everybody] = await listed("administrator")
    assert "user:administrator" in everybody["why"] and "administrator" not in acme["why"]
    assert (await tenants.ask("ada", "POST", path))[0] == 404


@at_the_gateway
async def test_the_page_of_a_tenant(tenants: Tenants) -> None:
    said = (await tenants.ask("ada", "GET", "/console"))[1].decode()
    assert "<h1>acme</h1>" in said and "1 of 2 deliveries made" in said
    assert "/console/deadletters?reason=rejected" in said
    page = (await tenants.ask("ada", "GET", "/console/destinations"))[1].decode()
    assert "Forbid" not in page and "Approve" not in page
