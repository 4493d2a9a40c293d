"""People log in to the console at an identity provider."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest

from gateway.identities.file_editing import create_identities
from gateway.security import openid_login, sessions
from gateway.security.audit_chain import read_records
from gateway.security.authentication import Authentication
from gateway.security.identities import parse_identities
from gateway.security.openid_login import OpenIdLogin
from gateway.web.console import openid_pages
from tests.rigs.chromium import Page
from tests.rigs.console_logins import FORM, begin_login, cookies, end_login, goes_to
from tests.rigs.envelopes import Answer
from tests.rigs.gateways import Running, running
from tests.rigs.identity_provider import DOCUMENTS, IdentityProvider, identity_provider
from tests.rigs.waiting import until

RULES = """
[[issuers]]
issuer = "{}"
audience = "dragoman"
roles = "groups"
client_id = "dragoman-console"
label = "the plant"

[[rights]]
who = ["role:watchers"]
may = ["read"]
"""


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as found:
        found.people = {"ada": {"groups": ["watchers"]}, "eve": {}}
        yield found


@pytest.fixture
async def run(tmp_path: Path, provider: IdentityProvider) -> AsyncIterator[Running]:
    file = tmp_path / "identities.toml"
    create_identities(file)
    file.write_text(file.read_text() + RULES.format(provider.issuer))
    async with running(tmp_path / "data", identities=file) as found:
        yield found


async def begin(run: Running, provider: IdentityProvider) -> tuple[str, str]:
    """Begin a login: where the browser goes, and its cookie."""
    return await begin_login(run, provider.issuer)


async def at_the_provider(where: str, user: str) -> str:
    """Send its form; where it sends the browser, without the host."""

    def send() -> str:
        parts = urlsplit(where)
        connection = HTTPConnection(parts.netloc, timeout=10)
        connection.request("POST", f"{parts.path}?{parts.query}", urlencode({"user": user}))
        location = connection.getresponse().headers["Location"]
        connection.close()
        back = urlsplit(location)
        return f"{back.path}?{back.query}"

    return await asyncio.to_thread(send)


async def log_in(run: Running, provider: IdentityProvider, user: str = "ada") -> Answer:
    where, cookie = await begin(run, provider)
    return await run.request("GET", await at_the_provider(where, user), cookie=cookie)


async def logged_in(run: Running, provider: IdentityProvider, user: str = "ada") -> str:
    """The cookie of a session."""
    where, cookie = await begin(run, provider)
    path = await at_the_provider(where, user)
    return await end_login(run, path, cookie)


async def test_a_session_by_an_identity_provider(
    run: Running, provider: IdentityProvider, tmp_path: Path
) -> None:
    page = await run.request("GET", "/console/login")
    assert b"Log in with the plant" in page.body
    where, _ = await begin(run, provider)
    asked = parse_qs(urlsplit(where).query)
    assert asked["code_challenge_method"] == ["S256"] and asked["scope"] == ["openid profile"]
    assert {"state", "nonce", "code_challenge", "redirect_uri"} <= asked.keys()
    session = await logged_in(run, provider)
    assert (await run.request("GET", "/console/topics", cookie=session)).status == 200
    assert (await run.request("GET", "/api/v1/topics", cookie=session)).status == 401
    changed = await run.request("POST", "/console/topics", b"", cookie=session, **FORM)
    assert changed.status == 403, "its role reads alone"
    stranger = await logged_in(run, provider, "eve")
    assert (await run.request("GET", "/console/topics", cookie=stranger)).status == 403
    left = await run.request("POST", "/console/logout", b"", cookie=session, **FORM)
    assert goes_to(left).startswith(f"{provider.issuer}/leave?client_id=dragoman-console&")
    assert (await run.request("GET", "/console", cookie=session)).status == 303

    async def is_noted() -> bool:
        records = [*read_records(tmp_path / "data" / "audit.jsonl")]
        said = {(one["what"], one["result"]) for one in records if "logged in" in one["did"]}
        return {("user:ada", "done"), ("user:eve", "done")} <= said

    await until(is_noted)


async def test_what_is_no_answer_to_a_login(
    run: Running, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another browser's, a second time, too late, refused there, of another issuer."""
    where, cookie = await begin(run, provider)
    path = await at_the_provider(where, "ada")
    _, other = await begin(run, provider)
    for sent, answered in ((other, path), ("", path), (cookie, f"{path}x"), (cookie, "")):
        wrong = answered or "/console/login/openid/back"
        if sent == cookie and answered:
            wrong = path.replace("iss=", "iss=x")
        answer = await run.request("GET", wrong, cookie=sent)
        assert answer.status == 401 and "__Host-dragoman=" not in str(answer.headers), wrong
    assert (await run.request("GET", path, cookie=cookie)).status == 200, "it was the answer"
    assert (await run.request("GET", path, cookie=cookie)).status == 401, "it was used"
    refused = await log_in(run, provider, "nobody")
    assert refused.status == 401 and b"access_denied" in refused.body
    where, cookie = await begin(run, provider)
    path = await at_the_provider(where, "ada")
    monkeypatch.setattr(openid_login, "PATIENCE", -1.0)
    assert (await run.request("GET", path, cookie=cookie)).status == 401


async def test_who_begins_and_ends_logins_without_end_waits(
    tmp_path: Path, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The identity provider is asked no more, and once by each login that ends."""
    monkeypatch.setattr(openid_pages, "AT_ONCE", 4.0)
    file = tmp_path / "identities.toml"
    create_identities(file)
    file.write_text(file.read_text() + RULES.format(provider.issuer))
    async with running(tmp_path / "data", identities=file, trusted=()) as run:
        where, cookie = await begin(run, provider)
        state = parse_qs(urlsplit(where).query)["state"][0]
        asked = len(provider.asked)
        back = f"/console/login/openid/back?code=guessed&state={state}"
        answers = [await run.request("GET", back, cookie=cookie) for _ in range(6)]
        assert [one.status for one in answers] == [503, 401, 401, 429, 429, 429]
        assert len(provider.asked) == asked + 1
        answer = await run.request("GET", f"/console/login/openid?issuer={provider.issuer}")
        assert answer.status == 429


async def test_a_code_of_another_provider_goes_to_nobody(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    """A tenant's provider sends an operator on to that of the operators, with what an attacker
    began there: the code comes back where neither the tenant's provider nor the attacker get it."""
    file = tmp_path / "identities.toml"
    create_identities(file)
    with identity_provider() as evil:
        rows = RULES.format(provider.issuer) + RULES.format(evil.issuer).partition("[[rights]]")[0]
        file.write_text(file.read_text() + rows)
        async with running(tmp_path / "data", identities=file) as run:
            mine, _ = await begin(run, provider)
            honest = parse_qs(urlsplit(mine).query)["redirect_uri"][0]
            theirs, cookie = await begin(run, evil)
            asked = parse_qs(urlsplit(theirs).query)
            assert asked["redirect_uri"][0] != honest, "each has an address of its own"
            begun = parse_qs(urlsplit(mine).query)["state"][0]
            sent_on = mine.replace(f"state={begun}", f"state={asked['state'][0]}")
            back = await at_the_provider(sent_on, "ada")
            back = back.partition("&iss=")[0] + "&code=" + back.partition("&code=")[2]
            assert "iss=" not in back
            shared = f"/console/login/openid/back?{urlsplit(back).query}"
            for path in (back, shared, back.replace("/back/", "/back/x")):
                answer = await run.request("GET", path, cookie=cookie)
                assert answer.status == 401 and "__Host-dragoman=" not in str(answer.headers), path
            assert not evil.asked, "it was given no code"
            assert (await log_in(run, provider)).status == 200, "the operator himself"


async def test_the_address_for_one_provider_stays(run: Running, provider: IdentityProvider) -> None:
    """What operators have registered there goes on working, and stands for no other."""
    where, cookie = await begin(run, provider)
    [address] = parse_qs(urlsplit(where).query)["redirect_uri"]
    assert address.endswith("/console/login/openid/back")
    path = await at_the_provider(where, "ada")
    answer = await run.request("GET", path.replace("/back?", "/back/else?"), cookie=cookie)
    assert answer.status == 401
    assert (await run.request("GET", path, cookie=cookie)).status == 200


@pytest.mark.parametrize("says_issuer", [False, True])
async def test_a_provider_that_always_says_who_it_is(
    run: Running, provider: IdentityProvider, *, says_issuer: bool
) -> None:
    """RFC 9207, section 2.4: without it, the answer is another's."""
    provider.says_issuer = says_issuer
    where, cookie = await begin(run, provider)
    path = re.sub("&iss=[^&]*", "", await at_the_provider(where, "ada"))
    answer = await run.request("GET", path, cookie=cookie)
    assert answer.status == (401 if says_issuer else 200)
    assert bool(provider.asked) is not says_issuer
    assert (await log_in(run, provider)).status == 200


@pytest.mark.parametrize(
    ("site", "status"),
    [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)],
)
async def test_another_sites_page_begins_no_login(
    run: Running, provider: IdentityProvider, site: str, status: int
) -> None:
    path = f"/console/login/openid?{urlencode({'issuer': provider.issuer})}"
    answer = await run.request("GET", path, sec_fetch_site=site)
    assert answer.status == status
    assert ("set-cookie" in answer.headers) is (status == 200)


NOTHING: tuple[dict[str, Any], ...] = (
    {"nonce": "another login's"},
    {"nonce": None},
    {"aud": "dragoman"},
    {"azp": "another client"},
    {"exp": 1},
    {"iss": "https://evil.example"},
)


async def test_tokens_that_prove_nothing(run: Running, provider: IdentityProvider) -> None:
    good = provider.people["ada"]
    for claims in NOTHING:
        provider.people["ada"] = good | claims
        assert (await log_in(run, provider)).status == 401, claims
    provider.people["ada"] = good | {"azp": "dragoman-console", "aud": ["x", "dragoman-console"]}
    assert (await log_in(run, provider)).status == 200


SAID_BESIDE: dict[str, tuple[str, dict[str, Any], dict[str, Any], int, int]] = {
    "in the token": ("ada", {"groups": ["watchers"]}, {"groups": []}, 200, 0),
    "beside it": ("ada", {}, {"sub": "ada", "groups": ["watchers"]}, 200, 1),
    "less beside it": ("ada", {}, {"sub": "ada"}, 403, 1),
    "of another": ("ada", {}, {"sub": "eve", "groups": ["watchers"]}, 401, 1),
    "of nobody": ("ada", {}, {"groups": ["watchers"]}, 401, 1),
    "not at all": ("ada", {}, {}, 403, 1),
    "for a header that is none": ("a\r\nX: y", {"sub": "ada"}, {"sub": "ada"}, 403, 0),
}
"""Who logs in, what the token says, and what is said beside it; the answer to a page that takes a
role, 401 where there is no session; and how often it was asked."""


@pytest.mark.parametrize("case", SAID_BESIDE.values(), ids=SAID_BESIDE.keys())
async def test_what_is_said_beside_the_token(
    run: Running, provider: IdentityProvider, case: tuple[str, Any, dict[str, Any], int, int]
) -> None:
    """Many providers write the claims of a scope there alone (OpenID Connect Core 1.0, 5.4)."""
    name, claims, userinfo, status, asked = case
    provider.people = {name: claims}
    provider.userinfo = {name: userinfo} if userinfo else {}
    if status == 401:
        assert (await log_in(run, provider, name)).status == 401
    else:
        session = await logged_in(run, provider, name)
        assert (await run.request("GET", "/console/topics", cookie=session)).status == status
    assert provider.shown == [f"Bearer opaque-{name}"] * asked
    noted = any(one["event"] == "identity.userinfo-unavailable" for one in run.logs)
    assert noted is not bool(userinfo)


async def test_a_session_ends_with_its_issuer_and_after_hours(
    run: Running, provider: IdentityProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await logged_in(run, provider)
    with monkeypatch.context() as patch:
        patch.setattr(sessions, "LONGEST", 0.0)
        assert (await run.request("GET", "/console", cookie=session)).status == 303
    session = await logged_in(run, provider)
    file = tmp_path / "identities.toml"
    file.write_text(file.read_text().partition("[[issuers]]")[0])

    async def is_over() -> bool:
        return (await run.request("GET", "/console", cookie=session)).status == 303

    await until(is_over)


async def test_an_identity_provider_that_is_down(run: Running, provider: IdentityProvider) -> None:
    provider.down = True
    query = urlencode({"issuer": provider.issuer})
    answer = await run.request("GET", f"/console/login/openid?{query}")
    assert answer.status == 503 and b"Nobody can log in" in answer.body
    unknown = await run.request("GET", "/console/login/openid?issuer=https://evil.example")
    assert unknown.status == 404


async def test_logins_that_strangers_begin_end_no_other(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    rows = parse_identities(RULES.format(provider.issuer).encode(), tmp_path)
    login = OpenIdLogin(Authentication(rows, tmp_path / "identities.toml", DOCUMENTS), tmp_path)
    [issuer] = login.issuers
    where, cookie = await login.begin(issuer, returns_to="https://here/back", page="/console")
    for _ in range(1100):
        await login.begin(issuer, returns_to="https://here/back", page="/console")
    said = dict(parse_qsl(urlsplit(await at_the_provider(where, "ada")).query))
    done = await login.finish(said["state"], cookie, said["code"], said["iss"], tag="")
    assert done.identity.owner == "user:ada"


async def test_a_cookie_of_a_login_is_the_gateways_own(
    run: Running, provider: IdentityProvider
) -> None:
    where, cookie = await begin(run, provider)
    path = await at_the_provider(where, "ada")
    for changed in (cookie[:-3], cookie[:40] + "AAAA" + cookie[44:], f"{cookie}A"):
        answer = await run.request("GET", path, cookie=changed)
        assert answer.status == 401, changed
    far = f"/console/{'x' * 5000}"
    query = urlencode({"issuer": provider.issuer, "to": far})
    answer = await run.request("GET", f"/console/login/openid?{query}")
    [value] = cookies(answer).values()
    assert len(value) < 4000, "browsers keep no larger one"


@pytest.mark.nightly
async def test_in_a_browser(page: Page, run: Running, provider: IdentityProvider) -> None:
    """A browser keeps both cookies, comes back to what it asked for, and leaves both."""
    await page.go(f"{run.url}/console/topics")
    await page.do("document.querySelector('a[href*=openid]').click()")
    await page.until("document.title === 'Who are you?'")
    await page.do("""
        document.querySelector('[name=user]').value = 'ada';
        document.querySelector('button').click();
    """)
    await page.until("document.title.startsWith('Topics')")
    await page.do("document.querySelector('header form[action$=logout] button').click()")
    await page.until("document.title === 'Left'")
    assert provider.ended[0]["client_id"] == "dragoman-console"
