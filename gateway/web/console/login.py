"""The page to log in at, where a file of identities says who there is."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from filters import Refused
from gateway.http import client_address, public_base
from gateway.model.hosts import is_loopback
from gateway.security.identities import Issuer
from gateway.security.sessions import Sessions
from gateway.web.console.forms import first, read_form, redirect
from gateway.web.console.page_routes import LOGIN
from gateway.web.console.rendering import Rendering
from gateway.web.csrf import refuse_other_origins
from gateway.web.dependencies import Asking
from gateway.web.refusals import headers_of, status_of
from gateway.web.session_cookies import COOKIE, session_token

HOME = "/console"
Leave: TypeAlias = Callable[[Request, str], Awaitable[Response | None]]


class Login:
    """Logs people in and out.

    Args:
        asking: Says where a request came from, and notes who logs in.

    Attributes:
        leave: Makes the page that ends a session at an identity provider, too.
    """

    def __init__(self, sessions: Sessions, rendering: Rendering, asking: Asking) -> None:
        self._sessions = sessions
        self._rendering = rendering
        self._asking = asking
        self._http = asking.http
        self.leave: Leave | None = None

    async def log_in(self, request: Request) -> Response:
        """``/console/login``: the form, and what it sends.

        Raises:
            HTTPException: 403: the form is of another site. 400: it cannot be read.
        """
        if request.method != "POST":
            return await self.page(request, first_of(request.query_params.get("to")))
        await refuse_other_origins(request)
        form = await read_form(request)
        user, secret, to = first(form, "user"), first(form, "secret"), first_of(first(form, "to"))
        try:
            address = client_address(request.scope, self._http)
            token = await self._sessions.log_in(user.strip(), secret.strip(), address)
        except Refused as refused:
            self.note(request, user, refused.text)
            page = await self.page(request, to, refused.text, status_of(refused))
            if "Retry-After" in (headers := headers_of(refused)):
                page.headers["Retry-After"] = headers["Retry-After"]
            return page
        self.note(request, user)
        self.end(request)  # One that there was before: nobody goes on with what another began.
        answer = redirect(to)
        answer.set_cookie(COOKIE, token, secure=True, httponly=True, samesite="strict", path="/")
        return answer

    async def log_out(self, request: Request) -> Response:
        """``/console/logout``.

        Raises:
            HTTPException: 403: the form is of another site.
        """
        await refuse_other_origins(request)
        issuer = self.end(request)
        answer = None
        if issuer is not None and self.leave is not None:
            answer = await self.leave(request, issuer.issuer)
        answer = answer or redirect(LOGIN)
        answer.delete_cookie(COOKIE, secure=True, httponly=True, samesite="strict", path="/")
        return answer

    def note(self, request: Request, user: str, refusal: str = "") -> None:
        """Note in the audit log that *user* logged in, or why not."""
        result = f"refused: {refusal}" if refusal else "done"
        sender = self._asking.of_connection(request)
        self._asking.audit.note(sender, "logged in to the console", user[:256], result)

    def end(self, request: Request) -> Issuer | None:
        """End the session of *request*; return the issuer that proved it."""
        token = session_token(request.scope)
        return self._sessions.log_out(token) if token is not None else None

    async def page(
        self, request: Request, to: str, refusal: str = "", status: int = 200
    ) -> Response:
        """The page to log in at, which says why that was refused."""
        providers = [
            (one.label or one.issuer, urlencode({"issuer": one.issuer, "to": to}))
            for one in self._sessions.openid.issuers
        ]
        return await self._rendering.page(
            "login.html",
            status,
            to=to,
            refusal=refusal,
            providers=providers,
            here="",
            secure=self._is_secure(request),
        )

    def _is_secure(self, request: Request) -> bool:
        """Whether a browser keeps the cookie: over HTTPS, and on loopback."""
        if public_base(request.scope, self._http).startswith("https:"):
            return True
        host = request.url.hostname or ""
        return host == "localhost" or is_loopback(host)


def first_of(to: str | None) -> str:
    """The page of the console to go on to: an address of another place is none."""
    if to is not None and (to == HOME or to.startswith((f"{HOME}/", f"{HOME}?"))):
        return to if "\\" not in to and to.isprintable() else HOME
    return HOME
