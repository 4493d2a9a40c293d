"""Step "execute": which handler carries a request out.

The rooms of the gateway bring the rows, each from its ``operations.py``: mailboxes, publishing,
subscriptions.
"""

from collections.abc import Mapping

from filters import Reason, Refused
from gateway.exchange import Handler, Handlers
from gateway.security.resource_addresses import ResourceAddress, ResourceKind
from mediation.model.requests import Request


class Registry:
    """A handler for each type of request.

    Args:
        rooms: The handlers of each room; no type of request is in two of them.
        at: The handlers of what is sent to an address of a kind, instead of all others.
        instead: Those of some of it, while the others are as everywhere.
        otherwise: The text of the refusal of a request that no room offers.
    """

    def __init__(
        self,
        *rooms: Handlers,
        at: Mapping[ResourceKind, Handlers] | None = None,
        instead: Mapping[ResourceKind, Handlers] | None = None,
        otherwise: str = "The operation is not offered.",
    ) -> None:
        self._at = dict(at or {})
        self.own_kinds = frozenset(self._at)
        """Kinds of addresses where nothing is carried out but what `at` has."""
        self._handlers: Handlers = {}
        for handlers in rooms:
            twice = self._handlers.keys() & handlers.keys()
            if twice:
                raise ValueError(f"two rooms offer {', '.join(kind.__name__ for kind in twice)}")
            self._handlers = {**self._handlers, **handlers}
        for resource, handlers in (instead or {}).items():
            self._at[resource] = {**self._handlers, **handlers}
        self._otherwise = otherwise

    def handler(self, request: Request, resource: ResourceAddress | None = None) -> Handler:
        """The handler that carries *request* out, which was sent to *resource*.

        Raises:
            Refused: ``ACTION_UNSUPPORTED``: there is none.
        """
        handlers = self._handlers
        if self._at and resource is not None:
            handlers = self._at.get(resource.kind, handlers)
        handler = handlers.get(type(request))
        if handler is None:
            raise Refused(Reason.ACTION_UNSUPPORTED, self._otherwise)
        return handler

    @property
    def offered(self) -> frozenset[type[Request]]:
        """The types of requests that are carried out."""
        return frozenset(self._handlers).union(*self._at.values())
