"""oidc-provider, a server in JavaScript that is certified for OpenID Connect: programs show its
tokens, and people log in to the console there."""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urljoin, urlsplit

import pytest
from aiohttp import ClientResponse, ClientSession, ClientTimeout, CookieJar, encode_basic_auth
from lxml import html
from yarl import URL

from gateway.identities.file_editing import create_identities
from gateway.security import issuer_keys
from tests.rigs.console_logins import FORM, begin_login, end_login, goes_to
from tests.rigs.envelopes import Speaker, fresh_id
from tests.rigs.gateways import Running, running
from tests.rigs.node_packages import node_modules
from tests.rigs.ports import free_ports
from tests.rigs.waiting import DEADLINE

PACKAGE = "oidc-provider@9.13.3"
PROGRAM = Path(__file__).parent / "oidc_provider.mjs"
SPEAKER = Speaker()
GATEWAY = "https://gateway.example.org"
RULES = """
[[issuers]]
issuer = "{}"
audience = "dragoman"
name = "{}"
roles = "{}"
client_id = "dragoman-console"

[[rights]]
who = ["role:sensors"]
may = ["publish", "subscribe"]

[[rights]]
who = ["role:watchers"]
may = ["read"]
"""


@dataclass
class Provider:
    """The server, which runs, and a browser that has been there."""

    process: Process
    issuer: str
    browser: ClientSession

    async def line(self) -> bytes:
        assert self.process.stdout is not None
        return await asyncio.wait_for(self.process.stdout.readline(), DEADLINE)

    async def rotate(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"rotate\n")
        assert await self.line() == b"rotated\n"

    async def token(self, client: str) -> str:
        """A token for a program (RFC 6749, section 4.4)."""
        answer = await self.browser.post(
            f"{self.issuer}/token",
            data={
                "grant_type": "client_credentials",
                "resource": "urn:gateway",
                "scope": "sensors",
            },
            headers={"Authorization": encode_basic_auth(client, quote_plus("a secret: +/%"))},
        )
        assert answer.status == 200, await answer.text()
        return str((await answer.json())["access_token"])

    async def open(self, where: str) -> ClientResponse:
        """The page at *where*; it goes nowhere else by itself."""
        return await self.browser.get(URL(where, encoded=True), allow_redirects=False)

    async def log_in(self, where: str, name: str) -> str:
        """Fill in its forms; where it sends the browser, without the host."""
        page = await self.open(where)
        while page.status != 303 or page.headers["Location"].startswith(("/", self.issuer)):
            if page.status == 303:
                page = await self.open(urljoin(self.issuer, page.headers["Location"]))
            else:
                page = await self.send_form(page, login=name, password="any")
        back = urlsplit(page.headers["Location"])
        return f"{back.path}?{back.query}"

    async def send_form(self, page: ClientResponse, **fields: str) -> ClientResponse:
        """Send the form of *page*, where its *fields* of these names are filled in."""
        document: Any = html.fromstring(await page.text())
        [form] = document.forms
        said = {**dict(form.form_values()), **fields}
        address = URL(urljoin(str(page.url), form.action), encoded=True)
        return await self.browser.post(address, data=said, allow_redirects=False)


@pytest.fixture(scope="module")
def modules() -> Path:
    return node_modules("oidc-provider", PACKAGE)


@pytest.fixture
async def provider(modules: Path) -> AsyncIterator[Provider]:
    [port] = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        "node", str(PROGRAM), str(port), GATEWAY,
        stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={**os.environ, "NODE_PATH": str(modules)},
    )  # fmt: skip
    try:
        # It keeps cookies of an address without a name, too.
        jar, limit = CookieJar(unsafe=True), ClientTimeout(total=DEADLINE)
        async with ClientSession(cookie_jar=jar, timeout=limit) as browser:
            found = Provider(process, f"http://127.0.0.1:{port}", browser)
            assert await found.line() == b"ready\n"
            yield found
    finally:
        process.kill()
        await process.wait()


def rules(folder: Path, provider: Provider, name: str, roles: str) -> Path:
    """A file of identities, by which users have the claim *name*, and the *roles* of that claim."""
    file = folder / "identities.toml"
    create_identities(file)
    file.write_text(file.read_text() + RULES.format(provider.issuer, name, roles))
    return file


async def statuses(run: Running, token: str) -> list[int]:
    """What is answered to an event, and to a Subscribe, with *token*."""
    bodies = ("<event/>", SPEAKER.wse_subscribe("http://127.0.0.1:9999/"))
    return [
        (
            await run.post(
                SPEAKER.envelope(body, message_id=fresh_id()),
                type=SPEAKER.type,
                authorization=f"Bearer {token}",
            )
        ).status
        for body in bodies
    ]


async def test_a_program_shows_a_token(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a role that it has there, before and after the provider has new keys."""
    file = rules(tmp_path, provider, "client_id", "roles")
    async with running(tmp_path / "data", identities=file, egress_allow=["127.0.0.1"]) as run:
        monkeypatch.setattr(issuer_keys, "REFRESH", 0.0)
        good = await provider.token("north-mole")
        head, payload, signature = good.split(".")
        forged = f"{head}.{payload}.{'A' * len(signature)}"
        assert await statuses(run, good) == [202, 200]
        assert await statuses(run, forged) == [401, 401]
        assert await statuses(run, await provider.token("visitor")) == [403, 403]
        await provider.rotate()
        newer = await provider.token("north-mole")
        assert newer.partition(".")[0] != head, "it names another key"
        assert await statuses(run, newer) == [202, 200]


async def test_people_log_in(provider: Provider, tmp_path: Path) -> None:
    """Their groups are in its userinfo alone; logging out here is logging out there."""
    file = rules(tmp_path, provider, "sub", "groups")
    async with running(tmp_path / "data", identities=file, public_url=GATEWAY) as run:
        for name, status in (("ada", 200), ("eve", 403)):
            where, cookie = await begin_login(run, provider.issuer)
            path = await provider.log_in(where, name)
            session = await end_login(run, path, cookie)
            shown = await run.request("GET", "/console/topics", cookie=session)
            assert shown.status == status, name
            left = await run.request("POST", "/console/logout", b"", cookie=session, **FORM)
            page = await provider.open(goes_to(left))
            done = await provider.send_form(page, logout="yes")
            assert done.headers["Location"] == f"{GATEWAY}/console/login"
            gone = await run.request("GET", "/console/topics", cookie=session)
            assert gone.status == 303
