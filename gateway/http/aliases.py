"""The middleware that serves known paths below further prefixes."""

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send


class AliasMiddleware:
    """Takes a request below one of *prefixes* for one below *prefix*, where it is for one of the
    paths *names* there, or below it."""

    def __init__(
        self, app: ASGIApp, prefixes: Collection[str], prefix: str, names: Collection[str]
    ) -> None:
        self._app = app
        self._paths = {f"{each}/{name}": f"{prefix}/{name}" for each in prefixes for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            for alias, known in self._paths.items():
                if path == alias or path.startswith(f"{alias}/"):
                    scope = {**scope, "path": known + path.removeprefix(alias)}
                    break
        await self._app(scope, receive, send)
