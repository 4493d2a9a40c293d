"""How requests to any route are told apart: `Asking`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from adapters import AdapterUnavailable
from gateway.http import HttpSettings, client_address
from gateway.routes import Dependency
from gateway.security.identify import Identification
from gateway.security.principals import Principal


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks, and whether it may begin something now.

    Attributes:
        draining: Whether the gateway stops.
    """

    http: HttpSettings
    identification: Identification
    draining: Callable[[], bool]

    def principal(self, request: Request) -> Principal:
        """Who sends *request*."""
        return self.identification.identify(client_address(request.scope, self.http))


ASKING = Dependency[Asking]()
Asked = Annotated[Asking, Depends(ASKING)]
"""A parameter of any route: the application gives it to all."""


async def refuse_when_stopping(asking: Asked) -> None:
    """Refuse what begins something, where the gateway stops: a dependency of routes.

    Raises:
        AdapterUnavailable: It does.
    """
    if asking.draining():
        raise AdapterUnavailable("The gateway is stopping.")
