"""The rules of the endpoints that have some of their own: a row for each."""

from collections.abc import Mapping
from dataclasses import replace

from gateway.security.resource_addresses import EVENTING_SERVICE, NOTIFICATION_SERVICE
from mediation import ANYWHERE, MESSENGER_FAULT_TEXTS, EndpointRules, Version

_MESSENGER = EndpointRules(
    Version.MESSENGER, event_is_root=True, lexical_names=True, fault_texts=MESSENGER_FAULT_TEXTS
)
_ROWS: Mapping[str, EndpointRules] = {
    EVENTING_SERVICE: _MESSENGER,
    NOTIFICATION_SERVICE: replace(_MESSENGER, known_events=True),
}
"""WS-Messenger's clients (Apache Airavata 0.11) wait for an envelope in answer to every event."""


_WITHOUT_LEXICAL_NAMES = {path: replace(row, lexical_names=False) for path, row in _ROWS.items()}


def rules_at(path: str, *, lexical_names: bool = True) -> EndpointRules:
    """The rules of the endpoint at *path*, which a slash, or ``/topic/`` and a name, may follow."""
    for endpoint, rules in (_ROWS if lexical_names else _WITHOUT_LEXICAL_NAMES).items():
        if path == endpoint or path.startswith(f"{endpoint}/"):
            return rules
    return ANYWHERE
