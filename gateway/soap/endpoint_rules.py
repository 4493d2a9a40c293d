"""The rules of the endpoints that have some of their own: a row for each."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from gateway.security.resource_addresses import (
    ENDPOINTS,
    EVENTING_SERVICE,
    MESSAGE_BOX_SERVICE,
    NOTIFICATION_SERVICE,
    TOPIC_PATHS,
    ResourceKind,
    is_endpoint,
    resource_at,
)
from mediation.eventing.messenger import EVENTING_RULES, MESSAGE_BOX_RULES, NOTIFICATION_RULES
from mediation.model.calling import CallRules
from mediation.model.requests import ANYWHERE, EndpointRules, Sequences

OF_OURS = frozenset({ResourceKind.SOURCE, ResourceKind.SEQUENCE})
"""Addresses that only producers and consumers know that the gateway chose: nothing of what is sent
there has to be secured."""
_ROWS: Mapping[str, EndpointRules] = {
    EVENTING_SERVICE: EVENTING_RULES,
    NOTIFICATION_SERVICE: NOTIFICATION_RULES,
    MESSAGE_BOX_SERVICE: MESSAGE_BOX_RULES,
}
"""WS-Messenger's services (Apache Airavata 0.11)."""

_ACKNOWLEDGEMENTS = replace(ANYWHERE, sequences=Sequences.OFFERED)
"""The rules where consumers acknowledge what they got in sequences."""
_WITHOUT_LEXICAL_NAMES = {path: replace(row, lexical_names=False) for path, row in _ROWS.items()}


def rules_at(path: str, *, lexical_names: bool = True) -> EndpointRules:
    """The rules of the endpoint at *path*, which a slash, or ``/topic/`` and a name, may follow."""
    for endpoint, rules in (_ROWS if lexical_names else _WITHOUT_LEXICAL_NAMES).items():
        if path == endpoint or path.startswith(f"{endpoint}/"):
            return rules
    return _ACKNOWLEDGEMENTS if _takes_acknowledgements(path) else ANYWHERE


def _takes_acknowledgements(path: str) -> bool:
    if ResourceKind.SEQUENCE.value not in path:
        return False
    resource = resource_at(path)
    return resource is not None and resource.kind is ResourceKind.SEQUENCE


def endpoint_named(to: str | None) -> str:
    """The path of the endpoint that ``wsa:To`` names, for a transport that has no path; empty where
    it names none of them in particular."""
    try:
        path = urlsplit(to or "").path
    except ValueError:
        return ""
    known = is_endpoint(path) or path.startswith(TOPIC_PATHS) or _takes_acknowledgements(path)
    return path if known else ""


def demanded_at(path: str, to: str | None) -> str:
    """The path of the endpoint that a message was sent to, for what is demanded there. Over
    SOAP.TCP it is the address in the message, *to*, that names it."""
    return path or endpoint_named(to) or ENDPOINTS[0]


def with_sequences(
    rules: Callable[[str], EndpointRules], mode: Sequences, at: Mapping[str, Sequences]
) -> Callable[[str], EndpointRules]:
    """*rules* with what each endpoint does with sequences: *mode*, or what *at* says of its path or
    of the longest one above it. Addresses of resources, such as mailboxes, have none, but those for
    acknowledgements."""
    rows = sorted(at.items(), key=lambda row: -len(row[0]))
    known: dict[tuple[int, Sequences], EndpointRules] = {}

    def mode_at(path: str) -> Sequences:
        if _takes_acknowledgements(path):
            return Sequences.OFFERED
        if path and not is_endpoint(path) and not path.startswith(TOPIC_PATHS):
            return Sequences.OFF
        for above, said in rows:
            if path == above or path.startswith(f"{above}/"):
                return said
        return mode

    def ruled(path: str) -> EndpointRules:
        found, its = rules(path), mode_at(path)
        key = id(found), its  # The rows are few, and live for ever.
        if key not in known:
            known[key] = replace(found, sequences=its)
        return known[key]

    return ruled


def with_calls(
    rules: Callable[[str], EndpointRules], calls: CallRules
) -> Callable[[str], EndpointRules]:
    """*rules* with what all endpoints decide for calls of Grid SOAP Events."""
    known: dict[int, EndpointRules] = {}

    def ruled(path: str) -> EndpointRules:
        found = rules(path)
        if id(found) not in known:  # The rows are few, and live for ever.
            known[id(found)] = replace(found, calls=calls)
        return known[id(found)]

    return ruled
