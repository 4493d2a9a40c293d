"""Who may use the console logs in, where a file of identities says who there is."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from gateway.identities.file_editing import add_key, add_user, create_identities, remove_key
from gateway.security import sessions
from gateway.security.api_key_hashes import api_key_id, hash_api_key
from tests.rigs.chromium import Page
from tests.rigs.envelopes import Answer
from tests.rigs.gateways import Running, http_request, running
from tests.rigs.waiting import DEADLINE, until

FORM = {"content_type": "application/x-www-form-urlencoded", "sec_fetch_site": "same-origin"}


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Running]:
    """A gateway with an administrator, whose key is in the file ``key``, and a reader, who has a
    password."""
    file = tmp_path / "identities.toml"
    (tmp_path / "key").write_text(create_identities(file))
    add_user(file, "reader", "secret", [])
    rule = '\n[[rights]]\nwho = ["user:reader"]\nmay = ["read"]\n'
    file.write_text(file.read_text() + rule)
    async with running(tmp_path / "data", identities=file) as found:
        yield found


async def log_in(
    run: Running, secret: str, user: str = "", to: str = "/console", **headers: str
) -> Answer:
    body = urlencode({"user": user, "secret": secret, "to": to}).encode()
    return await run.request("POST", "/console/login", body, **{**FORM, **headers})


def cookie_of(answer: Answer) -> str:
    assert answer.status == 303, answer.body
    cookie = answer.headers["set-cookie"]
    assert {part.strip().lower() for part in cookie.split(";")[1:]} == {
        "httponly", "path=/", "samesite=strict", "secure"
    }  # fmt: skip
    return cookie.partition(";")[0]


async def test_a_session(run: Running, tmp_path: Path) -> None:
    """It is opened by a password or a key, serves the console and nothing else, and ends."""
    asked = await run.request("GET", "/console/subscriptions?topic=a")
    assert (asked.status, asked.headers["location"]) == (
        303, "/console/login?to=%2Fconsole%2Fsubscriptions%3Ftopic%3Da"
    )  # fmt: skip
    assert (await run.request("GET", asked.headers["location"])).status == 200
    assert (await log_in(run, "wrong", "reader")).status == 401
    answer = await log_in(run, "secret", "reader", "/console/subscriptions?topic=a")
    assert answer.headers["location"] == "/console/subscriptions?topic=a"
    cookie = cookie_of(answer)
    assert (await run.request("GET", "/console/subscriptions", cookie=cookie)).status == 200
    assert (await run.request("GET", "/api/v1/subscriptions", cookie=cookie)).status == 401
    assert (
        await run.request("POST", "/console/subscriptions", b"", cookie=cookie, **FORM)
    ).status == 403
    again = cookie_of(await log_in(run, (tmp_path / "key").read_text(), cookie=cookie))
    assert (await run.request("GET", "/console", cookie=cookie)).status == 303, "a new token"
    assert (await run.request("GET", "/console", cookie=again)).status == 200
    out = await run.request("POST", "/console/logout", b"", cookie=again, **FORM)
    assert out.headers["location"] == "/console/login"
    assert (await run.request("GET", "/console", cookie=again)).status == 303


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example", "/console\\evil", "/consoles", "/api/v1", ""]
)
async def test_it_leads_to_the_console_alone(run: Running, to: str) -> None:
    assert (await log_in(run, "secret", "reader", to)).headers["location"] == "/console"


async def test_a_page_of_another_site_logs_nobody_in_or_out(run: Running) -> None:
    for path in ("login", "logout"):
        body = urlencode({"user": "reader", "secret": "secret"}).encode()
        headers = {**FORM, "sec_fetch_site": "cross-site"}
        assert (await run.request("POST", f"/console/{path}", body, **headers)).status == 403


async def test_a_session_ends_with_what_proved_it(
    run: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its key, and after half an hour without a request."""
    file = tmp_path / "identities.toml"
    key = add_key(file, "reader")
    await until(lambda: accepts(run, key))
    cookie = cookie_of(await log_in(run, key))
    other = cookie_of(await log_in(run, "secret", "reader"))
    remove_key(file, api_key_id(hash_api_key(key)))
    await until(lambda: leads_to_login(run, cookie))
    assert (await run.request("GET", "/console", cookie=other)).status == 200
    monkeypatch.setattr(sessions, "IDLE", 0.0)
    assert await leads_to_login(run, other)


async def test_a_session_has_the_rights_of_today(run: Running, tmp_path: Path) -> None:
    """Not those of its login: a role that is taken away, and a right of a key."""
    file = tmp_path / "identities.toml"
    add_user(file, "keeper", "secret", ["shift"])
    key = add_key(file, "administrator", ["read", "operate"])
    rule = '\n[[rights]]\nwho = ["role:shift"]\nmay = ["read", "operate"]\n'
    text = file.read_text() + rule
    file.write_text(text)
    await until(lambda: accepts(run, key))
    cookies = [
        cookie_of(await log_in(run, "secret", "keeper")),
        cookie_of(await log_in(run, key)),
    ]

    async def are_refused() -> set[bool]:
        """Whether a change is, which is only for who operates."""
        answers = [
            await run.request("POST", "/console/subscriptions", b"", cookie=cookie, **FORM)
            for cookie in cookies
        ]
        return {one.status == 403 for one in answers}

    assert await are_refused() == {False}
    for old, new in (('roles = ["shift"]', "roles = []"), ('["read", "operate"]', '["read"]')):
        assert old in text
        text = text.replace(old, new, 1)
    file.write_text(text)

    async def both() -> bool:
        return await are_refused() == {True}

    await until(both)


async def test_what_passes_is_streamed_until_the_session_ends(run: Running) -> None:
    cookie = cookie_of(await log_in(run, "secret", "reader"))
    reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
    writer.write(
        http_request(run.port, "GET", "/console/tap/events?topic=a", b"", {"cookie": cookie})
    )
    assert b" 200 " in await asyncio.wait_for(reader.readline(), DEADLINE)
    assert await leads_to_login(run, "", "/console/tap/events")
    await run.request("POST", "/console/logout", b"", cookie=cookie, **FORM)
    await asyncio.wait_for(reader.read(), DEADLINE)
    writer.close()


async def accepts(run: Running, key: str) -> bool:
    return (await log_in(run, key)).status == 303


async def leads_to_login(run: Running, cookie: str, path: str = "/console") -> bool:
    return (await run.request("GET", path, cookie=cookie)).status == 303


@pytest.mark.slow
async def test_in_a_browser(page: Page, run: Running) -> None:
    """The form is readable, says what is wrong, and leads on; the browser keeps the cookie."""
    await page.go(f"{run.url}/console/topics")
    assert not await page.findings()
    for secret, said in (("wrong", "The user or the password is wrong."), ("secret", "Topics")):
        await page.do(f"""
            document.querySelector('[name=user]').value = 'reader';
            document.querySelector('[name=secret]').value = '{secret}';
            document.querySelector('main form button').click();
        """)
        await page.until(f"document.body.innerText.includes({said!r})")
    await page.go(f"{run.url}/console/tap")
    await page.until("document.body.innerText.includes('Watching.')")
    await page.do("document.querySelector('header form[action$=logout] button').click()")
    await page.until("document.title.startsWith('Log in')")
