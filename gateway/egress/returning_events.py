"""Events that come back, or come by several subscriptions, from other gateways: taken once each.

Two gateways that subscribe to each other ten times would make ten copies of an event at each of the
eight hops that it may go. So a delivery says, beside its hops, which event it is a copy of: its
*origin*, which the gateway that took the event in first has given it. One of this process's own is
an event that was here already; another is taken once from each peer on each topic.

Not once from all peers: an origin proves nothing, and nobody shall suppress what a gateway sends by
naming its origin first. What is left of a circle ends by the hop count.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b

from gateway.egress.hops import ORIGIN_PROPERTY, read_origin
from mediation.model.messages import Notification

SECONDS = 600.0
MOST = 100_000
"""Seconds for which an origin is remembered, and how many are."""


class Origins:
    """Gives origins, and knows those that came lately."""

    def __init__(self, *, seconds: float = SECONDS, most: int = MOST) -> None:
        self._ours = secrets.token_hex(8)
        self._secret = secrets.token_bytes(16)
        self._seconds = seconds
        self._most = most
        self._taken: OrderedDict[bytes, float] = OrderedDict()
        self._under_way: dict[bytes, asyncio.Future[None]] = {}

    def of(self, notification: Notification) -> str:
        """The origin of *notification*: what came with it, if that is one; else one that nobody can
        guess, the same whenever it is asked for."""
        came = read_origin(notification.properties.get(ORIGIN_PROPERTY))
        if came:
            return came
        text = f"{notification.source}\0{notification.id}".encode(errors="surrogatepass")
        return f"{self._ours}.{blake2b(text, digest_size=12, key=self._secret).hexdigest()}"

    async def accept_once(
        self,
        copies: Mapping[str, Sequence[Notification]],
        source: str,
        take: Callable[[Sequence[Notification]], Awaitable[None]],
        *,
        was_here: Callable[[Sequence[Notification]], bool] = lambda _: True,
    ) -> int:
        """Have the notifications in *copies*, by their origins, taken together by *take*, but for
        those that were taken from *source* before; how many were taken. While others of the same
        origins are being taken, it waits for what becomes of them: what fails is not remembered.
        *was_here*: whether what has an origin of ours was where these came to; between two channels
        of ours it was elsewhere.

        Raises:
            Whatever *take* does.
        """
        loop = asyncio.get_running_loop()
        keyed = {
            _key(origin, source, some): some
            for origin, some in copies.items()
            if not (origin.startswith(f"{self._ours}.") and was_here(some))
        }
        while under_way := {self._under_way[key] for key in keyed if key in self._under_way}:
            await asyncio.wait(under_way)
        new = {key: some for key, some in keyed.items() if key not in self._taken}
        if not new:
            return 0
        taken, done = [one for some in new.values() for one in some], loop.create_future()
        self._under_way.update(dict.fromkeys(new, done))
        try:
            await take(taken)
            for key in new:
                self._remember(key, loop.time())
        finally:
            for key in new:
                del self._under_way[key]
            done.set_result(None)
        return len(taken)

    def _remember(self, key: bytes, now: float) -> None:
        taken = self._taken
        taken[key] = now
        while len(taken) > self._most or next(iter(taken.values())) < now - self._seconds:
            taken.popitem(last=False)


def _key(origin: str, source: str, notifications: Sequence[Notification]) -> bytes:
    topics = sorted({str(one.topic or "") for one in notifications})
    text = "\0".join((origin, source, *topics))
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
