"""WS-Messenger's publications (Airavata 0.11), and what its consumers expect.

Its clients wait for an envelope in answer to what they publish; who gets an empty 202 throws, and
keeps the connection. Of the namespace of WS-BaseNotification 1.0 that it speaks, Notify is read.
"""

from lxml import etree

from filters import dialects
from mediation import names
from mediation.codec import Answer
from mediation.model.requests import (
    Arrival,
    Context,
    Operation,
    Publish,
    Published,
    Request,
    Response,
)
from mediation.model.versions import Soap, Version
from mediation.notification.notify import read_notify
from mediation.soap.envelopes import xml_attribute

NOTIFY = f"{{{names.WSN_IBM}}}Notify"
_RESPONSES = frozenset({"Subscribe", "Renew", "GetStatus", "Unsubscribe"})
"""Requests of WS-Eventing: their responses have types, so no event may be answered by such a
name."""


def is_messenger(version: Version, soap: Soap, dialect: str | None) -> bool:
    """Whether a subscriber is one of WS-Messenger's clients, as far as its Subscribe tells:
    WS-Eventing in SOAP 1.1 with topics in its dialect (`eventing` sees to that where the
    expiration is in milliseconds)."""
    own = dialect == dialects.TOPIC_IBM_SIMPLE
    return own and soap is Soap.V1_1 and version is Version.WSE_2004_08


class Messenger:
    """The codec of `Version.MESSENGER`."""

    version = Version.MESSENGER
    namespaces = frozenset({names.WSN_IBM})

    def operation(self, name: str) -> Operation | None:
        return Operation.PUBLISH if name == NOTIFY else None

    def action(self, action: str) -> Operation | None:
        return None

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        return Publish(read_notify(element, context, arrival))

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
