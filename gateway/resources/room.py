"""The room of WS-Resources, which other rooms have."""

from collections.abc import Callable

from gateway.exchange import Handlers
from gateway.parsing import Parsing
from gateway.resources.operations import ResourceOperations
from gateway.resources.resource import Resource, Resources
from gateway.rooms import Room
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate


class ResourceRoom(Room):
    """The requests of WSRF to the resources of *rooms*, which are asked in their order."""

    def __init__(
        self,
        *rooms: Resources,
        producer: Callable[[Principal], Resource],
        looks: PrincipalRate,
        parsing: Parsing,
    ) -> None:
        self._operations = ResourceOperations(
            *rooms, producer=producer, looks=looks, parsing=parsing
        )

    def handlers(self) -> Handlers:
        return self._operations.handlers()
