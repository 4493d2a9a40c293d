"""As whose a message is admitted, where tenants take turns."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.identities.file_editing import add_user, create_identities
from gateway.soap.service import UNIDENTIFIED
from tests.gateway.soap.test_username_tokens import PASSWORD, plain, send
from tests.rigs.gateways import Running, running

TENANTS = """
[[tenants]]
name = "acme"

[[tenants]]
name = "umbrella"

[[rights]]
who = ["role:publishers"]
may = ["publish"]
"""


@pytest_asyncio.fixture
async def run(tmp_path: Path) -> AsyncIterator[Running]:
    file = tmp_path / "identities.toml"
    create_identities(file)
    file.write_text(file.read_text() + TENANTS)
    for name, tenant in (("ada", "acme"), ("eve", "umbrella"), ("dora", "")):
        add_user(file, name, PASSWORD, ["publishers"], tenant=tenant)
    async with running(tmp_path / "data", identities=file) as found:
        yield found


async def test_who_is_named_in_the_message_alone(
    run: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs the sender's tenant its turns, and not the default tenant those of its own."""
    admission = run.gateway.soap.admission
    admitted: list[str] = []
    request = admission.request

    def note(tenant: str, octets: int) -> AbstractAsyncContextManager[None]:
        admitted.append(tenant)
        return request(tenant, octets)

    monkeypatch.setattr(admission, "request", note)
    assert (await send(run, plain("ada"))).status == 202  # The first, at which nobody is counted.
    for user, tenant in (("ada", "acme"), ("eve", "umbrella"), ("dora", "")):
        admitted.clear()
        assert (await send(run, plain(user))).status == 202
        assert admitted == [UNIDENTIFIED, tenant]
    admitted.clear()
    await send(run, plain("ada", "wrong"))
    assert admitted == [UNIDENTIFIED]
    admitted.clear()
    await send(run, "")
    assert admitted == [""]
