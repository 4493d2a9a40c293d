"""Login at an identity provider: OpenID Connect Core 1.0, the authorization code flow, with PKCE
(RFC 7636), state and nonce.

    browser            gateway                              identity provider
       | log in with ... -->|  state, nonce, verifier
       |<-- where to go ----|
       |------------------- log in there -------------------------->|
       |<------------------ code, state ----------------------------|
       |---- code, state -->|  code, verifier --------------------->|
       |                    |<--------------- token of identity ----|
       |                    |  where it lacks roles: userinfo ----->|
       |<-- a session ------|

A login that is under way belongs to one browser: its cookie has all that is known of it, encrypted.
The gateway keeps nothing, so whoever begins logins without end takes none from others.

Each identity provider sends browsers back to a redirect URI of its own, where there are several: a
code that another than the one that was asked has given goes to nobody. Else the provider of one
tenant, which sends an operator on to the operators' provider, would be handed the operator's code
(RFC 9700, section 4.4, "Mix-Up Attacks").
"""

import asyncio
import hashlib
import hmac
import json
import re
import secrets
import time
from base64 import b64encode, urlsafe_b64encode
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlencode

import structlog
from cryptography.fernet import Fernet, InvalidToken

from filters import Reason, Refused
from gateway.security.authentication import Authentication, NotIdentified
from gateway.security.identities import Issuer
from gateway.security.issuer_documents import is_private
from gateway.security.principals import Identity

PATIENCE = 600.0
"""Seconds in which somebody logs in at the identity provider."""
MOST = 1000
"""Logins that have ended, of which it is known that they do not end again."""
LONGEST_COOKIE = 3800
"""Characters: browsers keep none of more than 4096 bytes with its name and attributes."""
DEADLINE = 15.0
"""Seconds for an exchange with the identity provider, and for the wait until it begins."""
AT_A_TIME = 4
"""Exchanges at a time: whoever begins logins without end opens no connections without end."""
TAG = 32
"""Characters of a hash that stand for an issuer in its redirect URI: 128 bits, which nobody finds
another issuer for."""
KEPT = 600.0
"""Seconds for which it is known what an identity provider says of itself."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{1,16384}=*")
"""A token that a header may have (RFC 6750, section 2.1)."""
_SAYS_ISSUER = "authorization_response_iss_parameter_supported"
_ELSEWHERE = "The login was begun at another identity provider."
_log = structlog.get_logger("dragoman.identity")


@dataclass(frozen=True, slots=True)
class _Begun:
    """A login under way, at the *issuer* of this name."""

    issuer: str
    state: str
    nonce: str
    verifier: str
    returns_to: str
    page: str


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """Who logged in, by which issuer, and the *page* that it wanted."""

    identity: Identity
    issuer: Issuer
    page: str


class LoginUnavailable(Refused):
    """The identity provider cannot be asked now, or answers otherwise than it should."""

    def __init__(self, issuer: str, why: str) -> None:
        super().__init__(Reason.UNAVAILABLE, f"Nobody can log in at {issuer} now: {why}.")


class OpenIdLogin:
    """Logs people in at the issuers of the file of identities that have a ``client_id``.

    Args:
        folder: Of the file of identities: files of secrets are named from there.
    """

    def __init__(self, authentication: Authentication, folder: Path) -> None:
        self._authentication = authentication
        self._folder = folder
        self._cipher = Fernet(Fernet.generate_key())
        self._ended: dict[bytes, None] = {}
        """The hashes of states, the oldest first."""
        self._exchanges = asyncio.Semaphore(AT_A_TIME)
        self._described: dict[str, tuple[float, dict[str, Any]]] = {}
        """What issuers say of themselves, and when they did."""

    @property
    def issuers(self) -> list[Issuer]:
        """Those at which somebody can log in."""
        return [one for one in self._authentication.identities.issuers if one.client_id]

    def find(self, issuer: str) -> Issuer | None:
        """The issuer of this name, where somebody can log in there."""
        return next((one for one in self.issuers if one.issuer == issuer), None)

    def tag_of(self, issuer: Issuer) -> str:
        """The last segment of the redirect URI of *issuer*: of its own where people log in at
        others, too. Empty where it is the only one, so that what operators registered there before
        goes on working: no other can have its codes sent here."""
        if len({one.issuer for one in self.issuers}) == 1:
            return ""
        return hashlib.sha256(issuer.issuer.encode()).hexdigest()[:TAG]

    async def begin(self, issuer: Issuer, *, returns_to: str, page: str) -> tuple[str, str]:
        """Begin a login: where the browser goes, and the cookie that it comes back with.

        Args:
            returns_to: The URL to which the identity provider sends the browser.
            page: What was wanted, for when it has logged in.

        Raises:
            LoginUnavailable: The identity provider does not say where.
        """
        where = await self._endpoint(issuer, "authorization_endpoint")
        begun = _Begun(
            issuer.issuer,
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            returns_to=returns_to,
            page=page,
        )
        cookie = self._sealed(begun)
        if len(cookie) > LONGEST_COOKIE:
            raise LoginUnavailable(issuer.issuer, "the address of this page is too long")
        asked = {
            "response_type": "code",
            "client_id": issuer.client_id or "",
            "redirect_uri": returns_to,
            "scope": issuer.scope,
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": _challenge_of(begun.verifier),
            "code_challenge_method": "S256",
        }
        return f"{where}{'&' if '?' in where else '?'}{urlencode(asked)}", cookie

    async def finish(
        self, state: str, cookie: str, code: str, issuer: str | None, *, tag: str
    ) -> LoggedIn:
        """End the login that *state* and *cookie* began, with the *code* that the identity provider
        gave; *issuer* is what it says that it is (RFC 9207), where it does.

        Args:
            tag: The last segment of the redirect URI at which the browser came back (`tag_of`).

        Raises:
            NotIdentified: No such login is under way, or its token proves nothing.
            LoginUnavailable: The identity provider gives no token.
        """
        begun, hashed = self._opened(cookie), hashlib.sha256(state.encode()).digest()
        if (
            begun is None
            or not hmac.compare_digest(state.encode(), begun.state.encode())
            or hashed in self._ended
        ):
            raise NotIdentified("No such login is under way in this browser: log in again.")
        row = self.find(begun.issuer)
        if row is None or issuer not in (None, begun.issuer) or tag != self.tag_of(row):
            raise NotIdentified(_ELSEWHERE)
        if len(self._ended) >= MOST:
            del self._ended[next(iter(self._ended))]
        self._ended[hashed] = None  # Before it is asked: no login has it asked twice.
        if issuer is None and (await self._describe(row)).get(_SAYS_ISSUER) is True:
            raise NotIdentified(_ELSEWHERE)  # RFC 9207, section 2.4.
        token, access = await self._tokens(begun, row, code)
        identity = await self._authentication.of_login(
            token, row, begun.nonce, partial(self._userinfo, row, access)
        )
        return LoggedIn(identity, row, begun.page)

    def _sealed(self, begun: _Begun) -> str:
        text = json.dumps(astuple(begun), ensure_ascii=False)
        return self._cipher.encrypt(text.encode()).decode().rstrip("=")

    def _opened(self, cookie: str) -> _Begun | None:
        """The login whose *cookie* this is; None where it is too old, or none of ours."""
        try:
            padded = cookie + "=" * (-len(cookie) % 4)
            return _Begun(*json.loads(self._cipher.decrypt(padded, ttl=int(PATIENCE))))
        except (InvalidToken, ValueError):
            return None

    async def end(self, issuer: Issuer, returns_to: str) -> str | None:
        """Where the browser ends its session at *issuer*, too (OpenID Connect RP-Initiated Logout
        1.0); None where that cannot be."""
        try:
            where = await self._endpoint(issuer, "end_session_endpoint")
        except LoginUnavailable:
            return None
        asked = {"client_id": issuer.client_id or "", "post_logout_redirect_uri": returns_to}
        return f"{where}{'&' if '?' in where else '?'}{urlencode(asked)}"

    async def _endpoint(self, issuer: Issuer, name: str) -> str:
        where = (await self._describe(issuer)).get(name)
        if not isinstance(where, str) or not is_private(where):
            raise LoginUnavailable(issuer.issuer, f"it has no {name} of https")
        return where

    async def _describe(self, issuer: Issuer) -> dict[str, Any]:
        at, found = self._described.get(issuer.issuer, (float("-inf"), {}))
        if time.monotonic() - at < KEPT:
            return found
        try:
            async with asyncio.timeout(DEADLINE), self._exchanges:
                found = await self._authentication.documents.discover(issuer.issuer)
        except (OSError, ValueError) as error:
            _log.warning("identity.login-unavailable", issuer=issuer.issuer, why=str(error))
            raise LoginUnavailable(issuer.issuer, "it does not answer") from error
        self._described[issuer.issuer] = time.monotonic(), found
        return found

    async def _tokens(self, begun: _Begun, issuer: Issuer, code: str) -> tuple[str, str | None]:
        """The token of identity that *code* is good for (OpenID Connect Core 1.0, 3.1.3), and the
        one for userinfo, where there is one."""
        where = await self._endpoint(issuer, "token_endpoint")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": begun.returns_to,
            "code_verifier": begun.verifier,
        }
        headers = {}
        try:
            if issuer.client_secret_file is None:
                form["client_id"] = issuer.client_id or ""
            else:
                path = self._folder / issuer.client_secret_file
                secret = (await asyncio.to_thread(path.read_text)).strip()
                headers["Authorization"] = _basic(issuer.client_id or "", secret)
            async with asyncio.timeout(DEADLINE), self._exchanges:
                answer = await self._authentication.documents.send_form(where, form, headers)
        except (OSError, ValueError) as error:
            _log.warning("identity.login-unavailable", issuer=issuer.issuer, why=str(error))
            raise LoginUnavailable(issuer.issuer, "it gives no token") from error
        token = answer.get("id_token") if isinstance(answer, dict) else None
        if not isinstance(token, str):
            raise LoginUnavailable(issuer.issuer, "it gives no token of identity")
        access = answer.get("access_token")
        return token, access if isinstance(access, str) and _TOKEN.fullmatch(access) else None

    async def _userinfo(self, issuer: Issuer, access: str | None) -> dict[str, Any] | None:
        """What *issuer* says of the user to whom it gave *access* (OpenID Connect Core 1.0, 5.3):
        many say there alone what the scope asked for. None where it does not; the user has then
        what the token of identity says, which is never more."""
        where = (await self._describe(issuer)).get("userinfo_endpoint")
        if access is None or not isinstance(where, str):
            return None
        headers = {"Authorization": f"Bearer {access}"}
        try:
            async with asyncio.timeout(DEADLINE), self._exchanges:
                found = await self._authentication.documents.fetch(where, headers)
        except (OSError, ValueError) as error:
            _log.warning("identity.userinfo-unavailable", issuer=issuer.issuer, why=str(error))
            return None
        return found if isinstance(found, dict) else None


def _basic(user: str, password: str) -> str:
    """A client's credentials (RFC 6749, section 2.3.1)."""
    pair = f"{quote_plus(user)}:{quote_plus(password)}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def _challenge_of(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode()
