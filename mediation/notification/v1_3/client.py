"""Requests of WS-BaseNotification 1.3 as a client writes them, and Notify as it is read."""

from collections.abc import Iterable
from typing import Final

from lxml import etree

from filters import dialects
from mediation import names, profiles
from mediation.filtering import FILTER_ELEMENTS, write_expression, write_topic_expression
from mediation.model.messages import EndpointReference
from mediation.model.requests import Operation
from mediation.model.specification import (
    RequestParts,
    SubscribeOptions,
    UnwrappedEvent,
    refuse_actions,
    refuse_operation,
)
from mediation.model.versions import Soap, Wsa
from mediation.notification.reading_notify import unwrapped_events, written_notify
from mediation.notification.v1_3.actions import NAMESPACE, NOTIFY_ACTION, PORT_TYPES, action_of
from mediation.order_keys import write_order_key
from mediation.reliable_messaging import Rm, write_assurance, write_wanted_rm
from mediation.resources.wsrf import WSRF_1_2, ResourceClient
from mediation.soap.addressing import write_epr
from mediation.soap.envelopes import xml_text
from mediation.start_positions import write_since


class Client13:
    """Requests as a client writes them, and Notify as a consumer reads it."""

    soap: Final = Soap.V1_2
    wsa: Final = Wsa.V2005_08
    notify: Final = frozenset(f"{{{namespace}}}Notify" for namespace in profiles.WSN_1_3_SPELLINGS)
    _resources = ResourceClient(WSRF_1_2)

    def subscribe(self, wanted: SubscribeOptions) -> RequestParts:
        refuse_actions(wanted)
        consumer = write_epr(wanted.consumer)
        inner = f"<wsnt:ConsumerReference>{consumer}</wsnt:ConsumerReference>"
        filters = ""
        if wanted.topic:
            filters += write_topic_expression(
                NAMESPACE,
                "wsnt:TopicExpression",
                wanted.topic,
                wanted.namespaces,
                dialect=wanted.topic_dialect,
            )
        content = wanted.content_filter(dialects.XPATH_1_0)
        if content and content[1] in FILTER_ELEMENTS.values():
            filters += content[0]
        elif content:
            scope = wanted.namespaces
            filters += write_expression(NAMESPACE, "wsnt:MessageContent", *content, scope)
        if filters:
            inner += f"<wsnt:Filter>{filters}</wsnt:Filter>"
        if wanted.expires:
            name = "wsnt:InitialTerminationTime"
            inner += f"<{name}>{xml_text(wanted.expires)}</{name}>"
        policies = "<wsnt:UseRaw/>" if wanted.raw else ""
        policies += write_wanted_rm(Rm.of(wanted.reliable)) if wanted.reliable else ""
        policies += write_assurance(wanted.assurance) if wanted.assurance is not None else ""
        policies += write_since(wanted.since) if wanted.since is not None else ""
        policies += write_order_key(wanted.order_key) if wanted.order_key is not None else ""
        if policies:
            inner += f"<wsnt:SubscriptionPolicy>{policies}</wsnt:SubscriptionPolicy>"
        return _request(Operation.SUBSCRIBE, inner)

    def manage(self, operation: Operation, expires: str | None = None) -> RequestParts:
        match operation:
            case Operation.RENEW if expires:
                inner = f"<wsnt:TerminationTime>{xml_text(expires)}</wsnt:TerminationTime>"
                return _request(operation, inner)
            case Operation.RENEW:
                nil = f'<wsnt:TerminationTime xmlns:xsi="{names.XSI}" xsi:nil="true"/>'
                return _request(operation, nil)
            case Operation.UNSUBSCRIBE | Operation.PAUSE | Operation.RESUME:
                return _request(operation, "")
            case Operation.GET_STATUS:
                return self._resources.get_termination_time()
            case Operation.SET_TERMINATION_TIME:
                return self._resources.set_termination_time(expires)
            case Operation.DESTROY:
                return self._resources.destroy()
            case _:
                refuse_operation(operation)

    def get_property(self, name: str) -> RequestParts:
        return self._resources.get_property(name)

    def get_current_message(self, topic: str) -> RequestParts:
        element = write_topic_expression(NAMESPACE, "wsnt:Topic", topic)
        return _request(Operation.GET_CURRENT_MESSAGE, element)

    def publish(
        self,
        payload: str,
        topic: str | None,
        action: str | None,
        producer: EndpointReference | None,
    ) -> RequestParts:
        """A wrapped Notify."""
        named = write_topic_expression(NAMESPACE, "wsnt:Topic", topic) if topic else ""
        body = written_notify(f' xmlns:wsnt="{NAMESPACE}"', named, payload, producer)
        return RequestParts(NOTIFY_ACTION, body)

    def unwrap(self, notify: etree._Element, *, in_ours: bool) -> Iterable[UnwrappedEvent]:
        return unwrapped_events(notify, in_ours=in_ours)


def _request(operation: Operation, inner: str) -> RequestParts:
    name = f"wsnt:{operation.value}"
    body = f'<{name} xmlns:wsnt="{NAMESPACE}">{inner}</{name}>'
    return RequestParts(action_of(PORT_TYPES[operation], operation), body)
