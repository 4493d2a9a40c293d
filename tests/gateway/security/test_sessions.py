"""Sessions of the console, while the file of identities changes and tokens say something else."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.security import sessions as sessions_module
from gateway.security.authentication import Authentication, NotIdentified
from gateway.security.identify import Identification, TransportFacts
from gateway.security.identities import Identities, Issuer, parse_identities
from gateway.security.openid_login import OpenIdLogin
from gateway.security.passwords import hash_password
from gateway.security.principals import Identity, owner_in, tenant_of
from gateway.security.sessions import Sessions
from tests.rigs.identity_provider import DOCUMENTS

PATH = Path("identities.toml")


def user_with(password: str) -> Identities:
    text = f'[[users]]\nname = "ada"\npassword = "{hash_password(password)}"\n'
    return parse_identities(text.encode(), PATH)


def sessions_of(authentication: Authentication) -> Sessions:
    return Sessions(authentication, OpenIdLogin(authentication, PATH.parent))


@pytest.mark.parametrize("turns", [0, 1])
async def test_a_password_that_changes_while_it_is_verified(turns: int) -> None:
    """It opens no session, or one that ends at once: it takes 25 ms to verify it."""
    authentication = Authentication(user_with("old"), PATH, DOCUMENTS)
    sessions, changed = sessions_of(authentication), user_with("new")
    login = asyncio.create_task(sessions.log_in("ada", "old", "192.0.2.1"))
    for _ in range(turns):
        await asyncio.sleep(0)
    authentication.use(changed)
    try:
        token = await login
    except NotIdentified:
        return
    assert sessions.find(token) is None


ISSUER = """
[[issuers]]
issuer = "https://id.example"
audience = "dragoman"
keys = "keys.json"
[[rights]]
who = ["role:shift"]
may = ["subscribe"]
"""


def test_a_session_shows_no_roles() -> None:
    """Those of a token that was shown since count for what its user subscribed to."""
    authentication = Authentication(parse_identities(ISSUER.encode(), PATH), PATH, DOCUMENTS)
    known, sessions = Identification(authentication=authentication), sessions_of(authentication)
    [issuer] = authentication.identities.issuers
    facts = TransportFacts("192.0.2.1")

    def may_receive_after(identity: Identity | None) -> bool:
        known.principal_of(identity, facts)
        return known.may_receive("user:ada", None)

    token = sessions.open(logged_in := shown(issuer, "shift"), issuer)
    assert may_receive_after(logged_in)
    assert may_receive_after(sessions.find(token))
    assert not may_receive_after(shown(issuer))
    assert not may_receive_after(sessions.find(token))
    found = sessions.find(token)
    assert found is not None and found.roles == {"shift"}, "its own requests are its login's"


def shown(issuer: Issuer, *roles: str) -> Identity:
    """Whom a token of *issuer* proves, which says *roles*."""
    said = frozenset(roles)
    return Identity("user:ada", said, issuer=issuer.issuer, shown=said, roles_days=30)


NAMES = st.sampled_from(["user:a", "user:b", "user:c", "user:d", "user:e"])


@given(st.lists(st.tuples(st.sampled_from(["", "acme"]), NAMES), max_size=60))
def test_who_logs_in_without_end_ends_its_own_sessions(logins: list[tuple[str, str]]) -> None:
    """A login always succeeds; the sessions of whoever has fewer than an equal part stay."""
    authentication = Authentication(parse_identities(ISSUER.encode(), PATH), PATH, DOCUMENTS)
    [issuer] = authentication.identities.issuers
    opened: dict[str, list[str]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions_module, "MOST", 12)
        patch.setattr(sessions_module, "MOST_OF_ONE", 5)
        sessions = sessions_of(authentication)
        for tenant, name in logins:
            token = sessions.open(Identity(name, tenant=tenant), issuer)
            assert sessions.is_open(token)
            opened.setdefault(owner_in(tenant, name), []).append(token)
            here = {each: sum(map(sessions.is_open, its)) for each, its in opened.items()}
            assert sum(here.values()) == min(12, sum(here.values())) and max(here.values()) <= 5
            # Six parties: five users of the default tenant, and the other tenant.
            for owner, tokens in opened.items():
                assert len(tokens) > 2 or tenant_of(owner) or here[owner] == len(tokens), owner
