"""Dependencies of routes: who asks, whether that may be, and whether the gateway stops."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from adapters import AdapterUnavailable
from gateway.http import HttpSettings, transport_facts
from gateway.observing.masking import Mask
from gateway.routes import Dependency
from gateway.security.authorise import authorise
from gateway.security.identify import Identification
from gateway.security.principals import Principal
from gateway.security.rights import Right


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks, and whether it may begin something now.

    Attributes:
        draining: Whether the gateway stops.
    """

    http: HttpSettings
    identification: Identification
    draining: Callable[[], bool]

    async def principal(self, request: Request) -> Principal:
        """Who sends *request*.

        Raises:
            NotIdentified: Its credentials prove nothing.
        """
        return await self.identification.identify(transport_facts(request.scope, self.http))


ASKING = Dependency[Asking]()
MASK = Dependency[Mask]()
Masking = Annotated[Mask, Depends(MASK)]
"""What hides fields of the messages that operators are shown: a parameter of routes."""
Asked = Annotated[Asking, Depends(ASKING)]
"""A parameter of any route: the application gives it to all."""


def asking_for(right: Right, reading: Right | None = None) -> Callable[..., Awaitable[None]]:
    """A dependency that refuses who has no *right* to a route, or to one that only reads, where
    that is another: *reading*."""

    async def authorise_sender(request: Request, asking: Asked) -> None:
        reads = request.method in ("GET", "HEAD")
        principal = await asking.principal(request)
        authorise(principal, reading if reads and reading is not None else right)

    return authorise_sender


async def refuse_when_stopping(asking: Asked) -> None:
    """Refuse what begins something, where the gateway stops: a dependency of routes.

    Raises:
        AdapterUnavailable: It does.
    """
    if asking.draining():
        raise AdapterUnavailable("The gateway is stopping.")
