"""Step "execute": which handler carries a request out.

The rooms of the gateway bring the rows, each from its ``operations.py``: mailboxes, publishing,
subscriptions.
"""

from filters import Reason, Refused
from gateway.exchange import Handler, Handlers
from mediation import Request


class Registry:
    """A handler for each type of request.

    Args:
        rooms: The handlers of each room; no type of request is in two of them.
        otherwise: The text of the refusal of a request that no room offers.
    """

    def __init__(self, *rooms: Handlers, otherwise: str = "The operation is not offered.") -> None:
        self._handlers: dict[type[Request], Handler] = {}
        for handlers in rooms:
            twice = self._handlers.keys() & handlers.keys()
            if twice:
                raise ValueError(f"two rooms offer {', '.join(kind.__name__ for kind in twice)}")
            self._handlers.update(handlers)
        self._otherwise = otherwise

    def handler(self, request: Request) -> Handler:
        """The handler that carries *request* out.

        Raises:
            Refused: ``ACTION_UNSUPPORTED``: there is none.
        """
        handler = self._handlers.get(type(request))
        if handler is None:
            raise Refused(Reason.ACTION_UNSUPPORTED, self._otherwise)
        return handler

    @property
    def offered(self) -> frozenset[type[Request]]:
        """The types of requests that are carried out."""
        return frozenset(self._handlers)
