"""Publications of WS-Messenger's clients (Airavata 0.11), `SPECIFICATION`.

Its clients wait for an envelope in answer to what they publish; a client that gets an empty 202
throws, and keeps the connection. Of the namespace of WS-BaseNotification 1.0 that it speaks, Notify
is read.
"""

from collections.abc import Mapping

from lxml import etree

from mediation import names
from mediation.eventing import v2004_08
from mediation.model.requests import (
    Arrival,
    Context,
    Operation,
    Publish,
    Published,
    Request,
    Response,
)
from mediation.model.specification import Answer, Specification
from mediation.model.versions import Family, Version
from mediation.notification.notify import read_notify
from mediation.soap.envelopes import xml_attribute

NOTIFY = f"{{{names.WSN_IBM}}}Notify"
_RESPONSES = frozenset({"Subscribe", "Renew", "GetStatus", "Unsubscribe"})
"""Requests of WS-Eventing: their responses have types, so no event may be answered by such a
name."""


class MessengerRequests:
    """Notify of WS-BaseNotification 1.0, and the answers to it and to bare events."""

    namespaces = frozenset({names.WSN_IBM})
    elements: Mapping[str, Operation] = {NOTIFY: Operation.PUBLISH}
    actions: Mapping[str, Operation] = {}

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        return Publish(read_notify(element, context, arrival), answered=True)

    def write(self, response: Response, context: Context) -> Answer:
        track = response.track_id if isinstance(response, Published) else ""
        said = f"trackId={xml_attribute(track)}"
        if context.element == NOTIFY:
            body = f'<wsnt:NotifyResponse xmlns:wsnt="{names.WSN_IBM}" {said}/>'
            return Answer(f"{names.WSN_IBM}/NotifyResponse", body)
        event = context.element.rpartition("}")[2]
        name = f"{'event' if event in _RESPONSES else event}Response"
        body = f'<wse:{name} xmlns:wse="{names.WSE_2004_08}" {said}/>'
        return Answer(f"{names.WSE_2004_08}/{name}", body)


SPECIFICATION = Specification(
    Version.MESSENGER,
    Family.WSE,
    "publishing by WS-Messenger",
    requests=MessengerRequests(),
    faults=v2004_08.FAULTS,
    events=frozenset({names.WSE_NOTIFICATION}),
)
