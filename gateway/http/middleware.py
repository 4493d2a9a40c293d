"""The middleware in front of every endpoint."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.forwarded import HttpSettings, from_proxy, header, host_name, public_host
from gateway.http.refusal import HttpRefusal, send_refusal

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_PRIVATE = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class PrivateMiddleware:
    """Has no answer about what is private kept by browsers and proxies, or taken for another type
    than it says: who uses the same browser later, or has a list downloaded, would see it or run it.
    Where a route says one of both itself, that stays.

    Args:
        paths: What the paths of these answers begin with; empty: all are.
    """

    def __init__(self, app: ASGIApp, paths: tuple[str, ...] = ()) -> None:
        self._app = app
        self._paths = paths or ("",)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(self._paths):
            await self._app(scope, receive, send)
            return

        async def send_private(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                said = {name.lower() for name, _ in headers}
                headers += [one for one in _PRIVATE if one[0] not in said]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, send_private)


class HostMiddleware:
    """Lets through requests for one of our own names. One without a length has an empty body
    (RFC 9112, "Message Body Length"), which is for its route to judge.

    Our names are that of the public URL, the address that the connection came to, those of
    loopback, and what is configured. A page in somebody's browser that had its own name
    resolved to us gets no answer.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._settings = settings
        self._names = _LOOPBACK_NAMES | settings.hosts | {public_host(settings)} - {""}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refusal = self._refusal(scope)
            if refusal is not None:
                await send_refusal(send, refusal)
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> HttpRefusal | None:
        if not self._is_ours(scope):
            return HttpRefusal(421, "This is not the host that was asked for.")
        return None

    def _is_ours(self, scope: Scope) -> bool:
        host = header(scope, b"host")
        if not host:  # HTTP/1.0; the server refuses it of anybody else
            return True
        name = host_name(host)
        if name in self._names or from_proxy(scope, self._settings):
            return True
        server = scope.get("server")
        return server is not None and name == str(server[0]).lower()
