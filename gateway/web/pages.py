"""HTML pages: what a browser may do with them, and the one that describes the HTTP interface."""

from functools import lru_cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; "
    # Swagger UI and its icons set styles and have pictures of their own in the text.
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
"""Headers of every page: nothing comes from elsewhere, nobody frames it, and no address leaks."""

_ASSETS = {
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
    "favicon-32x32.png": "image/png",
}
_DOCS = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Dragoman: HTTP interface</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" href="docs/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
_START = """\
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  // Its verdict on the description would come from a server elsewhere.
  validatorUrl: null,
});
"""


def docs_routes() -> list[Route]:
    """``/docs``: Swagger UI, with the files of its distribution that lie in ``swagger_ui``."""
    return [
        Route("/docs", _docs, include_in_schema=False),
        Route("/docs/{name}", _asset, include_in_schema=False),
    ]


async def _docs(_: Request) -> Response:
    return HTMLResponse(_DOCS, headers=HEADERS)


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    headers = {"x-content-type-options": "nosniff", "cache-control": "max-age=3600"}
    if name == "start.js":
        return Response(_START, headers=headers, media_type="text/javascript; charset=utf-8")
    if name not in _ASSETS:
        return Response("There is no such file.", 404, media_type="text/plain")
    return Response(_read(name), headers=headers, media_type=_ASSETS[name])


@lru_cache
def _read(name: str) -> bytes:
    return (files("gateway.web") / "swagger_ui" / name).read_bytes()
