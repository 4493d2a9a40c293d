"""Refusals that HTTP itself has a word for, and what may stand in a header."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from starlette.types import Send

_PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F))


class HttpRefusal(Exception):
    """A request that is answered with a status of HTTP, and no envelope.

    Args:
        status: 400 to 599.
        text: One short sentence for the peer. It never repeats input.
        headers: What the status needs: ``Allow``, ``Retry-After``, ...
        challenges: The values of a field ``WWW-Authenticate`` each.
    """

    def __init__(
        self,
        status: int,
        text: str,
        headers: Mapping[str, str] | None = None,
        challenges: Sequence[str] = (),
    ) -> None:
        super().__init__(text)
        self.challenges = challenges
        self.status = status
        self.text = text
        self.headers = dict(headers or {})


def header_value(text: str) -> str:
    """*text* fit to stand in a header: all but printable ASCII becomes ``%XX`` of its UTF-8.

    A line break cannot end the header, and an IRI becomes the URI that it stands for
    (RFC 3987, "Mapping of IRIs to URIs").
    """
    if text.isascii() and text.isprintable():
        return text
    return quote(text, safe=_PRINTABLE, errors="replace")


async def send_refusal(send: Send, refusal: HttpRefusal) -> None:
    """Answer with *refusal* (ASGI)."""
    body = refusal.text.encode()
    headers = {
        "content-type": "text/plain; charset=utf-8",
        "content-length": str(len(body)),
        **{name.lower(): header_value(value) for name, value in refusal.headers.items()},
    }
    await send(
        {
            "type": "http.response.start",
            "status": refusal.status,
            "headers": [
                *((name.encode(), value.encode()) for name, value in headers.items()),
                *((b"www-authenticate", one.encode()) for one in refusal.challenges),
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})
