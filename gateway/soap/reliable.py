"""Step "reliable": between a message that was read and all that it leads to.

No sequence of reliable messages is kept here, so every message goes on at once. A step that keeps
some has this form: it may go on later, or not at all (a message that came twice), answer by itself
(a request about a sequence), and add to the reply.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from gateway.inbound import Inbound
from gateway.soap.replies import Reply
from mediation import Incoming

Proceed: TypeAlias = Callable[[Inbound, Incoming], Awaitable[Reply]]
"""The steps that follow."""


def reliably(inbound: Inbound, incoming: Incoming, proceed: Proceed) -> Awaitable[Reply]:
    """The reply to *incoming*: what *proceed* makes of it."""
    return proceed(inbound, incoming)  # Not awaited here: one coroutine less for each event.
