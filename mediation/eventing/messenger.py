"""Bare events as WS-Messenger's clients (Airavata 0.11) publish them, `SPECIFICATION`.

They wait for an envelope in answer; a client that gets an empty 202 throws, and keeps the
connection. What they speak besides is WS-Eventing 2004/08 and WS-BaseNotification 1.0.
"""

from collections.abc import Mapping
from dataclasses import replace

from lxml import etree

from filters import Reason, dialects
from mediation import names
from mediation.eventing import v2004_08
from mediation.model.requests import (
    Arrival,
    Context,
    EndpointRules,
    FaultTexts,
    Operation,
    Published,
    Request,
    Response,
)
from mediation.model.specification import Answer, Specification
from mediation.model.versions import Family, Version
from mediation.notification import v1_0
from mediation.soap.envelopes import xml_attribute

_RESPONSES = frozenset({"Subscribe", "Renew", "GetStatus", "Unsubscribe"})
"""Requests of WS-Eventing: their responses have types, so no event may be answered by such a
name."""


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

_EVENTING_ACTIONS: Mapping[str, Operation] = {
    **v2004_08.SPECIFICATION.requests.actions,
    f"{names.WSE_2004_08}/SubscriptionEnd": Operation.SUBSCRIPTION_END,
}
"""The actions that EventingService has an operation for; any other publishes."""
_NOTIFICATION_ACTIONS: Mapping[str, Operation] = {
    f"{v1_0.DRAFT.actions}{name}": operation for name, operation in v1_0.DRAFT.requests.items()
}
"""The actions that NotificationService has an operation for."""

_MODES = frozenset({"", names.WSE_PUSH})
"""The delivery modes of EventingService."""

_FAULT_TEXTS: FaultTexts = {
    (Reason.SUBSCRIPTION_UNKNOWN, None, ""): "unknown subscription: {} -",
    (Reason.SUBSCRIPTION_UNKNOWN, Operation.PAUSE, ""): "no subscription found for id: {} -",
    (Reason.SUBSCRIPTION_UNKNOWN, Operation.RESUME, ""): "no subscription found for id: {} -",
    (Reason.SUBSCRIPTION_UNKNOWN, None, "Identifier"): "subscription identifier is not provided.",
    (Reason.SUBSCRIPTION_UNKNOWN, Operation.PAUSE, "Identifier"): "missing subscription id.",
    (Reason.SUBSCRIPTION_UNKNOWN, Operation.RESUME, "Identifier"): "missing subscription id.",
    (Reason.DELIVERY_MODE, None, ""): "Only Push delivery Mode (NotifyTo) is supported in WSE.",
    (Reason.FILTER_DIALECT, None, ""): "Unkown dialect:",
    (Reason.TOPIC_DIALECT, None, ""): "Unkown dialect:",
    (Reason.FILTER_INVALID, None, ""): "Invalid XPath expression:",
    (Reason.FILTER_INVALID, None, "expression"): "xpath expression is not given.",
    (Reason.MESSAGE_INVALID, Operation.SUBSCRIBE, ""): "invalid subscription message -",
    (
        Reason.MESSAGE_INVALID,
        Operation.SUBSCRIBE,
        "Subscribe",
    ): "invalid subscription message - no subscribe element.",
    (
        Reason.MESSAGE_INVALID,
        Operation.SUBSCRIBE,
        "Delivery",
    ): "invalid subscription - unable to find delivery tag.",
    (
        Reason.MESSAGE_INVALID,
        Operation.SUBSCRIBE,
        "NotifyTo",
    ): "invalid subscription - unable to find NotifyTo tag.",
    (
        Reason.MESSAGE_INVALID,
        Operation.SUBSCRIBE,
        "ConsumerReference",
    ): "Only Push delivery Mode (NotifyTo) is supported.",
    (Reason.MESSAGE_INVALID, None, ""): "unable to process message:",
    (Reason.MAILBOX_UNKNOWN, None, "clientid"): "clientid cannot be found.",
}
"""The beginnings of the original's own texts, misspellings included: people search logs for
them."""
_NOTIFICATION_FAULT_TEXTS: FaultTexts = {
    **_FAULT_TEXTS,
    (
        Reason.MESSAGE_INVALID,
        Operation.SUBSCRIBE,
        "Subscribe",
    ): "invalid message context - unable to find Subscribe information.",
}
"""Those of NotificationService."""

EVENTING_RULES = EndpointRules(
    Version.MESSENGER,
    event_is_root=True,
    lexical_names=True,
    actions=_EVENTING_ACTIONS,
    own=Version.WSE_2004_08,
    topics=dialects.TOPIC_IBM_SIMPLE,
    one_addressing=True,
    modes=_MODES,
    fault_texts=_FAULT_TEXTS,
)
"""The rules of EventingService: its clients wait for an envelope in answer to every event."""
NOTIFICATION_RULES = replace(
    EVENTING_RULES,
    known_events=True,
    actions=_NOTIFICATION_ACTIONS,
    own=Version.WSN_1_0,
    fault_texts=_NOTIFICATION_FAULT_TEXTS,
)
"""The rules of NotificationService."""
MESSAGE_BOX_RULES = EndpointRules(fault_texts=_FAULT_TEXTS)
"""The rules of MsgBoxService."""
