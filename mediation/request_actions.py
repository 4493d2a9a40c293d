"""The actions of requests, of all specifications: a message with one of them is that request, or is
refused, but never an event."""

from collections.abc import Iterator, Mapping

from filters import Reason, quoted
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.requests import Operation
from mediation.model.specification import Specification
from mediation.specifications import SPECIFICATIONS

_OF_EVENTS = frozenset({Operation.PUBLISH, Operation.SUBSCRIPTION_END, Operation.STORE_MESSAGES})
"""Operations whose actions events have, too: what is published without a wrapper has that of
Notify, what is put into a message box is any body, and Apache CXF tells in an element of its own
that a subscription ended."""


def _rows(specification: Specification) -> Iterator[tuple[str, str]]:
    """The actions of the requests of a specification, each with the name of its operation. Where a
    specification names no action, it is the namespace with the name of the element."""
    requests = specification.requests
    for action, operation in requests.actions.items():
        if operation not in _OF_EVENTS:
            yield action, operation.value
    for element, operation in requests.elements.items():
        if operation not in _OF_EVENTS:
            namespace, _, local = element[1:].rpartition("}")
            yield f"{namespace.rstrip('/')}/{local}", operation.value


REQUEST_ACTIONS: Mapping[str, str] = {
    action: operation
    for specification in SPECIFICATIONS.values()
    for action, operation in _rows(specification)
}
"""The name of the operation that each action asks for."""

_ELSEWHERE = frozenset(names.KNOWN_ELSEWHERE) - {names.WSMAN}
"""Namespaces whose actions are all of requests that nobody here takes. Events of WS-Management have
actions of its namespace."""


def operation_asked_for(action: str | None) -> str | None:
    """The operation that *action* asks for, as faults call it; None where it is not an action of a
    request."""
    if not action:
        return None
    known = REQUEST_ACTIONS.get(action)
    if known is not None:
        return known
    namespace, _, operation = action.rpartition("/")
    return operation if namespace in _ELSEWHERE or _is_eventing(namespace) else None


def _is_eventing(namespace: str) -> bool:
    """Return whether a namespace is that of another version of WS-Eventing."""
    return namespace.endswith("/ws-evt") and namespace != names.WSE_2011_03


def check_action(name: str, operation: Operation, action: str | None, http: str | None) -> None:
    """Refuse a body under the action of another request.

    Args:
        name: The expanded name of the body's first child.
        operation: What that asks for; events are published.
        action: The message's action in WS-Addressing; None where it has none.
        http: The one in HTTP, which may not ask for something else than an event either.

    Raises:
        MediationError: ``ACTION_UNSUPPORTED``.
    """
    asked = operation_asked_for(action or http)
    if asked is None and operation is Operation.PUBLISH:
        asked = operation_asked_for(http)
    if asked is not None and asked != operation.value:
        found = quoted(name.rpartition("}")[2])
        raise MediationError(
            Reason.ACTION_UNSUPPORTED,
            f"The action asks for {asked}, and the body has {found}: send the body of that "
            "request, in its namespace, or the action of this one.",
        )
