"""Login to the console at an identity provider, and back (`gateway.security.openid_login`)."""

import time

from fastapi import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from filters import Reason, Refused
from gateway.http import public_base
from gateway.security.principals import side_of
from gateway.security.quotas import QuotaExceeded
from gateway.security.sessions import Sessions
from gateway.token_bucket import TokenBucket
from gateway.web.console.login import HOME, Login, first_of
from gateway.web.console.page_routes import LOGIN
from gateway.web.console.rendering import Rendering
from gateway.web.csrf import refuse_other_origins
from gateway.web.dependencies import Asking
from gateway.web.session_cookies import COOKIE

BEGIN, BACK = f"{LOGIN}/openid", f"{LOGIN}/openid/back"
BACK_OF_ONE = f"{BACK}/{{tag}}"
"""The redirect URI of one identity provider among several."""
STATE_COOKIE = "__Host-dragoman-login"
"""The cookie of a login under way: it comes along when the identity provider sends the browser
back, which that of a session does not."""

RATE, AT_ONCE = 20 / 60, 20.0
"""Logins that an address may begin or end a second, and at once: each has the gateway ask an
identity provider, and several people may be behind one address."""
LONGEST_PAGE = 1000
"""Bytes of the address of a page that the cookie of a login has room for."""


class OpenIdPages:
    """Sends browsers to identity providers, and takes them back."""

    def __init__(
        self, sessions: Sessions, login: Login, rendering: Rendering, asking: Asking
    ) -> None:
        self._sessions = sessions
        self._openid = sessions.openid
        self._login = login
        self._rendering = rendering
        self._asking = asking
        self._logins = TokenBucket(RATE, AT_ONCE)

    async def begin(self, request: Request) -> Response:
        """``/console/login/openid?issuer=``: to the identity provider."""
        page = first_of(request.query_params.get("to"))
        page = page if len(page.encode()) <= LONGEST_PAGE else HOME
        try:  # Whoever is logged in at a provider would be logged in here without asking for it.
            await refuse_other_origins(request)
        except HTTPException:
            text = "Another site's page had this login begun: begin it here."
            return await self._login.page(request, page, text, 403)
        issuer = self._openid.find(request.query_params.get("issuer", ""))
        if issuer is None:
            return await self._login.page(request, page, "Nobody can log in there.", 404)
        try:
            self._check_rate(request)
            tag = self._openid.tag_of(issuer)
            back = f"{self._base(request)}{BACK_OF_ONE.format(tag=tag) if tag else BACK}"
            where, cookie = await self._openid.begin(issuer, returns_to=back, page=page)
        except Refused as refused:
            return await self._login.page(request, page, refused.text, _status_of(refused))
        answer = await self._on_to(where)
        answer.set_cookie(
            STATE_COOKIE, cookie, max_age=600, secure=True, httponly=True, samesite="lax", path="/"
        )
        return answer

    async def back(self, request: Request) -> Response:
        """``/console/login/openid/back[/TAG]``: a session, where the identity provider says who it
        is."""
        said = request.query_params
        try:
            if "error" in said:
                text = f"The identity provider refused: {said['error'][:100]}."
                raise Refused(Reason.NOT_IDENTIFIED, text)
            self._check_rate(request)
            done = await self._openid.finish(
                said.get("state", ""),
                request.cookies.get(STATE_COOKIE, ""),
                said.get("code", ""),
                said.get("iss"),
                tag=request.path_params.get("tag", ""),
            )
            await self._asking.note_login(done.identity, request)
        except Refused as refused:
            self._login.note(request, "", refused.text)
            return await self._login.page(request, HOME, refused.text, _status_of(refused))
        self._login.note(request, done.identity.owner)
        self._login.end(request)  # One that there was before: a token is new with each login.
        # The next page is asked for by this one: after a redirect from another site a browser
        # would leave the cookie out.
        answer = await self._on_to(done.page)
        token = self._sessions.open(done.identity, done.issuer)
        answer.set_cookie(COOKIE, token, secure=True, httponly=True, samesite="strict", path="/")
        answer.delete_cookie(STATE_COOKIE, secure=True, httponly=True, samesite="lax", path="/")
        return answer

    async def leave(self, request: Request, issuer: str) -> Response | None:
        """The page that ends the browser's session at *issuer*, too; None where that cannot be."""
        found = self._openid.find(issuer)
        where = None
        if found is not None:
            where = await self._openid.end(found, f"{self._base(request)}{LOGIN}")
        return None if where is None else await self._on_to(where)

    def _check_rate(self, request: Request) -> None:
        """Bound what strangers have the gateway ask identity providers.

        Raises:
            QuotaExceeded: The address of *request* began or ended too many logins.
        """
        asking = self._asking.of_connection(request)
        if not asking.limits.quotas:
            return
        if wait := self._logins.take(side_of(asking.address), time.monotonic()):
            raise QuotaExceeded(Reason.RATE, "Too many logins: wait a minute.", retry_after=wait)

    def _base(self, request: Request) -> str:
        return public_base(request.scope, self._asking.http)

    async def _on_to(self, where: str) -> Response:
        return await self._rendering.page("going_on.html", where=where, here="")


def _status_of(refused: Refused) -> int:
    return {Reason.UNAVAILABLE: 503, Reason.RATE: 429}.get(refused.reason, 401)
