"""Bare events as WS-Messenger's clients (Airavata 0.11) publish them, `SPECIFICATION`.

They wait for an envelope in answer; a client that gets an empty 202 throws, and keeps the
connection. What they speak besides is WS-Eventing 2004/08 and WS-BaseNotification 1.0.
"""

from collections.abc import Mapping

from lxml import etree

from filters import Reason
from mediation import names
from mediation.eventing import v2004_08
from mediation.model.requests import Arrival, Context, Operation, Published, Request, Response
from mediation.model.specification import Answer, Specification
from mediation.model.versions import Family, Version
from mediation.soap.envelopes import xml_attribute

_RESPONSES = frozenset({"Subscribe", "Renew", "GetStatus", "Unsubscribe"})
"""Requests of WS-Eventing: their responses have types, so no event may be answered by such a
name."""


FAULT_TEXTS: Mapping[tuple[Reason, Operation | None], str] = {
    (Reason.SUBSCRIPTION_UNKNOWN, None): "unknown subscription:",
    (Reason.SUBSCRIPTION_UNKNOWN, Operation.PAUSE): "no subscription found for id:",
    (Reason.SUBSCRIPTION_UNKNOWN, Operation.RESUME): "no subscription found for id:",
    (Reason.DELIVERY_MODE, None): "Only Push delivery Mode (NotifyTo) is supported in WSE.",
    (Reason.FILTER_DIALECT, None): "Unkown dialect:",
    (Reason.TOPIC_DIALECT, None): "Unkown dialect:",
    (Reason.FILTER_INVALID, None): "Invalid XPath expression:",
    (Reason.MESSAGE_INVALID, Operation.SUBSCRIBE): "invalid subscription message -",
    (Reason.MESSAGE_INVALID, Operation.PUBLISH): "unable to process message:",
    (Reason.MESSAGE_INVALID, None): "unable to process message:",
}
"""The beginnings of the original's own texts, misspellings included: people search logs for
them."""


class MessengerRequests:
    """The answers to bare events; any element is one, so none is read here."""

    namespaces = frozenset[str]()
    elements: Mapping[str, Operation] = {}
    actions: Mapping[str, Operation] = {}

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:  # pragma: no cover - `elements` names none
        raise AssertionError(operation)

    def write(self, response: Response, context: Context) -> Answer:
        track = response.track_id if isinstance(response, Published) else ""
        event = context.element.rpartition("}")[2]
        name = f"{'event' if event in _RESPONSES else event}Response"
        body = f'<wse:{name} xmlns:wse="{names.WSE_2004_08}" trackId={xml_attribute(track)}/>'
        return Answer(f"{names.WSE_2004_08}/{name}", body)


SPECIFICATION = Specification(
    Version.MESSENGER,
    Family.WSE,
    "publishing by WS-Messenger",
    requests=MessengerRequests(),
    faults=v2004_08.FAULTS,
    events=frozenset({names.WSE_NOTIFICATION}),
)
