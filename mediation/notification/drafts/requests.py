"""The requests of a draft of WS-BaseNotification, and their answers."""

from collections.abc import Mapping
from dataclasses import replace

from lxml import etree

from filters import Expression, Filter, Reason
from mediation.filtering import (
    by_rules,
    check_producer_conditions,
    read_content,
    read_producer_condition,
    read_topic_expression,
    reference_by_rules,
    topic_by_rules,
)
from mediation.model.delivery_modes import PUSH
from mediation.model.errors import MediationError
from mediation.model.expiry import Expiry
from mediation.model.messages import EndpointReference, Subscription
from mediation.model.requests import (
    Arrival,
    Context,
    CurrentMessage,
    EndpointRules,
    GetCurrentMessage,
    Operation,
    Pause,
    Published,
    Request,
    Response,
    Resume,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from mediation.model.specification import Answer
from mediation.model.versions import Version
from mediation.notification.drafts.draft import Draft
from mediation.notification.reading_notify import read_notify
from mediation.notification.subscribing import child_of, read_time
from mediation.notification.topics import read_one_topic
from mediation.order_keys import read_order_key
from mediation.reliable_messaging import read_assurance
from mediation.soap.addressing import parameter_named, read_epr, write_epr
from mediation.soap.envelopes import elements, text_of, xml_attribute
from mediation.start_positions import read_since

_WORDS = {"true": True, "1": True, "false": False, "0": False, "": True}
UNTIL_DESTROYED = Expiry(never=True, as_duration=False, best_effort=True)
"""The lease of a subscriber who asks for none. The answer to Subscribe cannot tell it of any, so it
gets the longest that there is for it."""


def _says(element: etree._Element) -> bool:
    """Return whether *element* has an expression: clients send what is optional as an empty
    element."""
    return len(element) > 0 or bool(text_of(element))


class DraftRequests:
    """The requests of one draft; those to resources are WSRF's."""

    def __init__(self, draft: Draft, version: Version) -> None:
        self._draft = draft
        self._version = version
        self.namespaces = frozenset({draft.namespace})
        self.elements: Mapping[str, Operation] = {
            f"{{{draft.namespace}}}{name}": operation for name, operation in draft.requests.items()
        }
        self.actions: Mapping[str, Operation] = {
            f"{draft.actions}{name}": operation
            for name, operation in draft.requests.items()
            if operation is not Operation.PUBLISH
        }

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        match operation:
            case Operation.PUBLISH:
                publish = read_notify(element, context, arrival)
                return replace(publish, answered=self._draft.answers_notify)
            case Operation.SUBSCRIBE:
                return self._read_subscribe(element, context, arrival)
            case Operation.GET_CURRENT_MESSAGE:
                topic = self._child(element, "Topic")
                if topic is None:
                    raise MediationError(Reason.MESSAGE_INVALID, "GetCurrentMessage has no Topic.")
                return GetCurrentMessage(read_one_topic(topic))
            case Operation.PAUSE:
                return Pause()
            case Operation.RESUME:
                return Resume()
            case Operation.UNSUBSCRIBE:
                return Unsubscribe()
            case _:  # pragma: no cover - `elements` names no other
                raise AssertionError(operation)

    def _child(self, element: etree._Element, name: str) -> etree._Element | None:
        return child_of(element, name, self.namespaces)

    def _read_subscribe(
        self, element: etree._Element, context: Context, arrival: Arrival
    ) -> Subscribe:
        """Read Subscribe (1.2 draft, section 4.1). A policy is the producer's to interpret, and
        that there is one here that one can ask for: how often an event is wanted."""
        reference = self._child(element, "ConsumerReference")
        if reference is None:
            raise MediationError(
                Reason.MESSAGE_INVALID,
                "Subscribe has no ConsumerReference.",
                missing="ConsumerReference",
            )
        rules = arrival.rules
        filter_ = by_rules(self._read_filter(element, rules), rules)
        check_producer_conditions(filter_)
        time = self._child(element, "InitialTerminationTime")
        policy = self._child(element, "SubscriptionPolicy")
        asked = elements(policy) if policy is not None else ()
        delivery = read_assurance(asked, PUSH, sequences=False)
        return Subscribe(
            reference_by_rules(read_epr(reference, forged="refuse"), context.wsa, rules),
            filter_,
            UNTIL_DESTROYED if time is None else read_time(time),
            raw=not self._uses_notify(element),
            dialect=filter_.topics[0].dialect if filter_.topics else None,
            delivery=delivery,
            since=read_since(asked),
            order_key=read_order_key(asked, delivery),
        )

    def _read_filter(self, element: etree._Element, rules: EndpointRules) -> Filter:
        """Read the topic and the content filter; without a topic, of every topic. An empty one is
        none, as WS-Messenger's clients mean it."""
        topic = self._child(element, "TopicExpression")
        selector = self._child(element, "Selector")
        topics: tuple[Expression, ...] = ()
        if topic is not None and text_of(topic):
            topics = (topic_by_rules(read_topic_expression(topic), rules),)
        contents = [read_content(selector)] if selector is not None and _says(selector) else []
        condition = self._child(element, "Precondition")
        if condition is not None and _says(condition):
            contents.append(read_producer_condition(condition, self._version))
        return Filter(topics, tuple(contents))

    def _uses_notify(self, element: etree._Element) -> bool:
        found = self._child(element, "UseNotify")
        word = "" if found is None else text_of(found).lower()
        if word not in _WORDS:
            raise MediationError(
                Reason.MESSAGE_INVALID, "UseNotify is neither true nor false.", value=word[:100]
            )
        return _WORDS[word]

    def write(self, response: Response, context: Context) -> Answer:
        operation = context.operation or Operation.SUBSCRIBE
        name, attributes, inner = f"{operation.value}Response", "", ""
        match response:
            case Subscribed(subscription):
                epr = write_epr(self._reference(subscription))
                inner = f"<wsnt:SubscriptionReference>{epr}</wsnt:SubscriptionReference>"
            case CurrentMessage(notification):
                inner = notification.payload.decode()
            case Published(track_id):
                attributes = f" trackId={xml_attribute(track_id)}"
            case _:
                pass
        action = f"{self._draft.actions}{self._draft.responses.get(operation, name)}"
        if operation in self._draft.empty_answers:
            return Answer(action)
        declared = self._draft.declared
        return Answer(action, f"<wsnt:{name}{declared}{attributes}>{inner}</wsnt:{name}>")

    def _reference(self, subscription: Subscription) -> EndpointReference:
        """The reference of a subscription, in the version of the subscriber's own, with the element
        by which clients of this draft name it."""
        key = parameter_named(self._draft.subscription_key, subscription.key)
        wsa = subscription.consumer.wsa
        return EndpointReference(subscription.manager, wsa, parameters=(key,))
