"""Requests of a draft as a client writes them, and Notify as its consumers read it."""

from collections.abc import Iterable, Mapping
from typing import Final

from lxml import etree

from filters import DEFAULT_TOPIC, Reason, dialects
from mediation.filtering import write_expression, write_topic_expression
from mediation.model.errors import MediationError
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
from mediation.notification.drafts.draft import Draft
from mediation.notification.reading_notify import unwrapped_events, written_notify
from mediation.order_keys import write_order_key
from mediation.reliable_messaging import write_assurance
from mediation.resources.wsrf import ResourceClient
from mediation.soap.addressing import write_epr
from mediation.soap.envelopes import xml_text
from mediation.start_positions import write_since


class DraftClient:
    """Our own side in one draft. Where it has no operation of its own, WSRF's is meant."""

    soap: Final = Soap.V1_1

    def __init__(self, draft: Draft, wsa: Wsa) -> None:
        self._draft = draft
        self._resources = ResourceClient(draft.wsrf)
        self.wsa: Final = wsa
        self.notify: Final = frozenset({f"{{{draft.namespace}}}Notify"})

    def subscribe(self, wanted: SubscribeOptions) -> RequestParts:
        """Write Subscribe, in the order of the schema, which demands a topic; without one it is for
        producers that do not."""
        namespace = self._draft.namespace
        refuse_actions(wanted)
        consumer = write_epr(wanted.consumer)
        inner = f"<wsnt:ConsumerReference>{consumer}</wsnt:ConsumerReference>"
        if wanted.topic:
            inner += self._topic("wsnt:TopicExpression", wanted.topic, wanted.namespaces)
        inner += f"<wsnt:UseNotify>{'false' if wanted.raw else 'true'}</wsnt:UseNotify>"
        content = wanted.content_filter(dialects.XPATH_1_0)
        if content:
            inner += write_expression(namespace, "wsnt:Selector", *content, wanted.namespaces)
        policy = write_assurance(wanted.assurance) if wanted.assurance is not None else ""
        policy += write_since(wanted.since) if wanted.since is not None else ""
        policy += write_order_key(wanted.order_key) if wanted.order_key is not None else ""
        if policy:
            inner += f"<wsnt:SubscriptionPolicy>{policy}</wsnt:SubscriptionPolicy>"
        if wanted.expires:
            if wanted.expires.startswith("P"):
                raise MediationError(
                    Reason.EXPIRY_INVALID, "The specification takes a dateTime, not a duration."
                )
            name = "wsnt:InitialTerminationTime"
            inner += f"<{name}>{xml_text(wanted.expires)}</{name}>"
        return self._request(Operation.SUBSCRIBE, inner)

    def manage(self, operation: Operation, expires: str | None = None) -> RequestParts:
        own = operation in self._draft.requests.values()
        match operation:
            case Operation.PAUSE | Operation.RESUME:
                return self._request(operation)
            case Operation.UNSUBSCRIBE if own:
                return self._request(operation)
            case Operation.UNSUBSCRIBE | Operation.DESTROY:
                return self._resources.destroy()
            case Operation.RENEW | Operation.SET_TERMINATION_TIME:
                return self._resources.set_termination_time(expires)
            case Operation.GET_STATUS:
                return self._resources.get_termination_time()
            case _:
                refuse_operation(operation)

    def get_property(self, name: str) -> RequestParts:
        return self._resources.get_property(name)

    def get_current_message(self, topic: str) -> RequestParts:
        return self._request(Operation.GET_CURRENT_MESSAGE, self._topic("wsnt:Topic", topic))

    def publish(
        self,
        payload: str,
        topic: str | None,
        action: str | None,
        producer: EndpointReference | None,
    ) -> RequestParts:
        """A wrapped Notify, which has a topic always."""
        named = self._topic("wsnt:Topic", topic or str(DEFAULT_TOPIC))
        body = written_notify(self._draft.declared, named, payload, producer)
        return RequestParts(self._draft.notify_action, body)

    def unwrap(self, notify: etree._Element, *, in_ours: bool) -> Iterable[UnwrappedEvent]:
        return unwrapped_events(notify, in_ours=in_ours)

    def _topic(self, name: str, topic: str, scope: Mapping[str, str] | None = None) -> str:
        spelled = self._draft.spelled
        if self._draft.simple_is_blind and ":" in topic:
            spelled = {**spelled, dialects.TOPIC_SIMPLE: spelled[dialects.TOPIC_CONCRETE]}
        return write_topic_expression(self._draft.namespace, name, topic, scope, spelled)

    def _request(self, operation: Operation, inner: str = "") -> RequestParts:
        name = self._draft.request_name(operation)
        body = f"<wsnt:{name}{self._draft.declared}>{inner}</wsnt:{name}>"
        return RequestParts(f"{self._draft.actions}{name}", body)
