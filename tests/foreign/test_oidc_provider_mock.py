"""oidc-provider-mock, made with Authlib and Flask: its tokens do not say by which key they are
signed, and it has another key whenever it starts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientSession
from yarl import URL

from gateway.identities.file_editing import create_identities
from gateway.security import issuer_keys
from tests.rigs.console_logins import begin_login, end_login
from tests.rigs.gateways import running
from tests.rigs.ports import free_ports

mock = pytest.importorskip(
    "oidc_provider_mock", reason="needs oidc-provider-mock (pip install oidc-provider-mock)"
)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:authlib")
RULES = """
[[issuers]]
issuer = "{}"
audience = "dragoman"
roles = "groups"
client_id = "dragoman-console"
client_secret_file = "secret"

[[rights]]
who = ["role:watchers"]
may = ["read"]
"""


@contextmanager
def provider(port: int) -> Iterator[None]:
    """It, at *port*, where ada is known."""
    ada = mock.User(sub="ada", claims={"groups": ["watchers"]})
    with mock.run_server_in_thread(port, user_claims=[ada]):
        yield


async def test_people_log_in_also_after_it_has_another_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [port] = free_ports(1)
    issuer = f"http://localhost:{port}"
    file = tmp_path / "identities.toml"
    create_identities(file)
    file.write_text(file.read_text() + RULES.format(issuer))
    (tmp_path / "secret").write_text("a secret: +/%\n")
    monkeypatch.setattr(issuer_keys, "REFRESH", 0.0)
    async with running(tmp_path / "data", identities=file) as run, ClientSession() as browser:
        for _ in range(2):
            with provider(port):
                where, cookie = await begin_login(run, issuer)
                answer = await browser.post(
                    URL(where, encoded=True), data={"sub": "ada"}, allow_redirects=False
                )
                back = urlsplit(answer.headers["Location"])
                session = await end_login(run, f"{back.path}?{back.query}", cookie)
            shown = await run.request("GET", "/console/topics", cookie=session)
            assert shown.status == 200
