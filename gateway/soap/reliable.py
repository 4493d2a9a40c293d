"""Step "reliable": between a message that was read and all that it leads to.

No sequence of reliable messages is kept here, so `pass_on` lets every message go on at once. A step
that keeps some has the same form: it may go on later, or not at all (a message that came twice),
answer by itself (a request about a sequence), and add to the reply.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from gateway.exchange import Inbound, Reply
from mediation import Incoming

Proceed: TypeAlias = Callable[[Inbound, Incoming], Awaitable[Reply]]
"""The steps that follow."""
ReliableStep: TypeAlias = Callable[[Inbound, Incoming, Proceed], Awaitable[Reply]]


def pass_on(inbound: Inbound, incoming: Incoming, proceed: Proceed) -> Awaitable[Reply]:
    """The reply that *proceed* makes of *incoming*."""
    return proceed(inbound, incoming)  # Not awaited here: one coroutine less for each event.
