"""Routers of a room, and what their routes work with.

    SOURCES = Dependency[Sources]()
    Given = Annotated[Sources, Depends(SOURCES)]

    @router.get("")
    async def list_sources(sources: Given) -> SourcePage: ...

    BoundRouter(router, {**SOURCES.of(sources)})  # In the room that brings the router.

Routers are made once in a process: to make one with forty routes takes FastAPI 50 ms, and a process
may run several gateways, as tests do.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, cast

from fastapi import APIRouter, Request
from starlette.routing import BaseRoute

from gateway.security.rights import Right

P = ParamSpec("P")
T = TypeVar("T")


class Dependency(Generic[T]):
    """A dependency of the routes of one router, which the room gives that brings the router."""

    async def __call__(self, request: Request) -> T:
        return cast(T, request.app.state.given[self])

    def of(self, value: T) -> "Bindings":
        """What `BoundRouter` is made with, so that the routes get *value*."""
        return {self: value}


Bindings: TypeAlias = Mapping[Dependency[Any], Any]


@dataclass(frozen=True, slots=True)
class BoundRouter:
    """A router, with the values of its dependencies, and the right to its routes: None where their
    addresses have keys that were given to those who are to ask there. With *reading* there is
    another right to those that only read. Principals of other tenants than the default one find its
    routes where it has *tenants*; of others, those alone that are marked (`open_to_tenants`). Where
    it *asks the administration*, its routes change nothing but by requests of that, of which the
    audit log has lines."""

    router: APIRouter
    given: Bindings
    right: Right | None
    reading: Right | None = None
    tenants: bool = False
    asks_administration: bool = False


def open_to_tenants(route: Callable[P, T]) -> Callable[P, T]:
    """Mark the function of a *route* that shows each tenant what is its own, and nothing else."""
    route.open_to_tenants = True  # type: ignore[attr-defined]  # Functions take any attribute.
    return route


def changing_nothing(route: Callable[P, T]) -> Callable[P, T]:
    """Mark the function of a *route* that is asked with POST for its long questions alone: the
    audit log notes no question."""
    route.changing_nothing = True  # type: ignore[attr-defined]  # Functions take any attribute.
    return route


Routes: TypeAlias = Iterable[BaseRoute | BoundRouter]
