"""OpenNMS's client of WS-Management at a gateway: Identify, and events that it pulls."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.gateway.soap.test_management import publish, subscribe_pulling
from tests.rigs.gateways import Running
from tests.rigs.opennms import OpenNmsClient, needs_opennms, opennms_client

needs_opennms()
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
RESOURCE = "urn:test:resource"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def client(gateway: Running) -> AsyncIterator[OpenNmsClient]:
    async with opennms_client(f"{gateway.url}/wsman") as running:
        yield running


async def test_identify(client: OpenNmsClient) -> None:
    done, said = await client.ask("identify")
    assert done and said[0] == "Dragoman"


async def test_it_pulls(gateway: Running, client: OpenNmsClient) -> None:
    """It subscribes to nothing, so we do; a context may change, or stay."""
    context = await subscribe_pulling(gateway)
    marked = await subscribe_pulling(gateway, "<w:SendBookmarks/>")
    await publish(gateway, 1, 2, 3)
    done, said = await client.ask("pull", context, RESOURCE)
    assert (done, said) == (True, [context, "1", "2", "3"])
    done, said = await client.ask("pull", marked, RESOURCE)
    following, *events = said
    assert done and following != marked and events == ["1", "2", "3"]
    await publish(gateway, 4)
    done, said = await client.ask("pull", following, RESOURCE)
    assert done and said[1:] == ["4"]


async def test_what_is_refused(client: OpenNmsClient) -> None:
    done, said = await client.ask("pull", "urn:uuid:none", RESOURCE)
    assert not done and "enumeration context is invalid" in " ".join(said)
    # Faults of the sender have the status 400, in which it reads none.
    done, said = await client.ask("enumerate", RESOURCE)
    assert not done and "HTTPException" in said[0]
