"""Negotiate (RFC 4559), by which services of WS-Management know who asks: Kerberos where this
machine has a ticket or finds the domain, else NTLM. pyspnego, an extra, makes the tokens.

    gateway                                  producer
       | -- request, token ------------------> |
       | <------------------ 401, token ------ |    once for NTLM, mostly never for Kerberos
       | -- request, token ------------------> |
       | <------------------ 200 (, token) --- |

NTLM proves who asks to the connection: what others sent on it would count as the same user's. So
each request has a connection of its own.
"""

import asyncio
import importlib.util
import re
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from gateway.egress import Answer, Request
from gateway.egress.http_authentication import read_challenges

INSTALL = "install Dragoman with the extra negotiate"
MOST_STEPS = 4
"""Requests of one exchange."""
_threads = ThreadPoolExecutor(8, "negotiate")
"""A token of NTLM takes a millisecond. Those of Kerberos may wait for a server, and only here: the
gateway's usual threads read files, and serve the console."""
T = TypeVar("T")
_TOKEN = re.compile(r"(?:^|,)\s*Negotiate(?:\s+([A-Za-z0-9+/]+=*))?\s*(?=,|$)", re.IGNORECASE)


class NegotiationFailed(Exception):
    """The exchange cannot go on; the text says why, to the operator."""


def is_installed() -> bool:
    """Return True if tokens can be made here."""
    return importlib.util.find_spec("spnego") is not None


async def negotiate(
    send: Callable[[Request], Awaitable[Answer]], request: Request, user: str, password: str
) -> Answer:
    """Send *request* by *send*, over one connection, until the producer knows who asks, or refuses
    it: its last answer.

    Args:
        password: Empty: the ticket that this machine has for *user*.

    Raises:
        NegotiationFailed: No token can be made, or the producer does not prove who it is.
    """
    if not is_installed():
        raise NegotiationFailed(f"Negotiate needs pyspnego: {INSTALL}")
    context = await _in_thread(_context, request.target.host, user, password)
    token = await _in_thread(_step, context, None)
    for _ in range(MOST_STEPS):
        request.own_headers = (("Authorization", f"Negotiate {b64encode(token).decode()}"),)
        answer = await send(request)
        offered = answer.headers.get("www-authenticate", "")
        theirs = _TOKEN.search(offered)
        if theirs is None:
            if answer.status == 401 and offered:
                schemes = ", ".join(one.scheme for one in read_challenges(offered))
                raise NegotiationFailed(f"it does not take Negotiate, but {schemes or 'nothing'}")
            return answer
        if theirs[1] is None:
            return answer
        reply = await _in_thread(_step, context, theirs[1])
        if answer.status != 401 or not reply:
            return answer
        token = reply
    return answer


async def _in_thread(work: Callable[..., T], *given: object) -> T:
    """Run *work* in one of our own threads: Kerberos asks a server of its domain, which may not
    answer, and whoever gives up leaves the thread to that."""
    return await asyncio.get_running_loop().run_in_executor(_threads, work, *given)


def _context(host: str, user: str, password: str) -> Any:
    import spnego

    try:
        return spnego.client(
            user, password or None, hostname=host, service="http", protocol="negotiate"
        )
    except (spnego.exceptions.SpnegoError, ValueError, ImportError) as error:
        raise NegotiationFailed(_words(error)) from error


def _step(context: Any, theirs: str | None) -> bytes:
    """Our next token, after *theirs* in base64; empty where there is none."""
    try:
        return context.step(None if theirs is None else b64decode(theirs)) or b""
    except Exception as error:
        # Of tokens with a few other bytes, pyspnego reads one in six as far as a KeyError,
        # IndexError, OverflowError or struct.error.
        raise NegotiationFailed(_words(error)) from error


def _words(error: Exception) -> str:
    """What is said of *error*: its first line, without what the other side wrote."""
    text = str(getattr(error, "base_error", "") or error).strip() or type(error).__name__
    return f"no token can be made for Negotiate: {text.splitlines()[0][:150]}"
