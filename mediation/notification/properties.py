"""The resource properties of subscriptions and of the gateway as a producer, which WS-Notification
defines and WS-ResourceProperties reads."""

from collections.abc import Collection, Mapping
from datetime import datetime

from filters import Expression, Filter, Topic, dialects
from mediation import names
from mediation.filtering import (
    CHANGED_ONLY,
    FILTER_ELEMENTS,
    of_producer,
    write_kept_expression,
)
from mediation.model.messages import Subscription
from mediation.model.requests import RegisterPublisher
from mediation.model.specification import PropertyDocument
from mediation.notification.brokered import BROKERED_1_3, broker_properties, registration_properties
from mediation.notification.topics import is_path, topic_set, written_topic
from mediation.resources.wsrf import lifetime_properties, write_time
from mediation.soap.addressing import write_epr
from mediation.soap.envelopes import xml_text

RL, WSNT = names.WSRF_RL, names.WSN_1_3

SUBSCRIPTION_DOCUMENT = f"{{{WSNT}}}SubscriptionManagerRP"
PULL_POINT_DOCUMENT = f"{{{RL}}}ScheduledResourceTerminationRP"
"""WS-BaseNotification says of no document for pull points; this is what WSRF has for resources with
nothing but an end."""
PRODUCER_DOCUMENT = f"{{{names.WSN_BR_1_3}}}NotificationBrokerRP"


def subscription_properties(subscription: Subscription, now: datetime) -> Mapping[str, bytes]:
    """The resource properties of a subscription, by expanded name, in the schema's order
    (WS-BaseNotification 1.3, SubscriptionManagerRP; WS-ResourceLifetime 1.2)."""
    wsnt = f' xmlns:wsnt="{WSNT}"'
    consumer = write_epr(subscription.consumer)
    values = {
        "ConsumerReference": f"<wsnt:ConsumerReference{wsnt}>{consumer}</wsnt:ConsumerReference>",
        "Filter": write_filter(subscription.filter),
        "SubscriptionPolicy": _policy(subscription, wsnt),
        "CreationTime": write_time("wsnt:CreationTime", subscription.lease.created, wsnt),
    }
    properties = {f"{{{WSNT}}}{name}": text.encode() for name, text in values.items()}
    return {**properties, **lifetime_properties(subscription.lease.expires, now)}


def write_filter(filter_: Filter) -> str:
    """The filter of a subscription of any specification, as WS-BaseNotification writes it; empty
    where it has none."""
    wsnt = f' xmlns:wsnt="{WSNT}"'
    inner = [_expression("TopicExpression", expression) for expression in filter_.topics]
    inner += [
        _expression(
            "ProducerProperties" if of_producer(expression) else "MessageContent", expression
        )
        for expression in (*filter_.contents, *filter_.others)
        if expression != CHANGED_ONLY
    ]
    return f"<wsnt:Filter{wsnt}>{''.join(inner)}</wsnt:Filter>" if inner else ""


_ELEMENT_DIALECTS = frozenset(FILTER_ELEMENTS.values())


def _expression(name: str, expression: Expression) -> str:
    """Write an expression, or the element that it is."""
    if expression.dialect in _ELEMENT_DIALECTS:
        return expression.text
    return write_kept_expression(WSNT, name, expression)


def _policy(subscription: Subscription, wsnt: str) -> str:
    inner = "<wsnt:UseRaw/>" if subscription.policy.raw else ""
    if CHANGED_ONLY in subscription.filter.contents:
        inner += f'<tev:ChangedOnly xmlns:tev="{names.ONVIF_EVENTS}">true</tev:ChangedOnly>'
    return f"<wsnt:SubscriptionPolicy{wsnt}>{inner}</wsnt:SubscriptionPolicy>" if inner else ""


def producer_properties(
    topics: Collection[Topic],
    topic_dialects: Collection[str],
    *,
    requires_registration: bool = False,
    fixed: bool = False,
) -> Mapping[str, bytes]:
    """The resource properties of the gateway as a producer and broker
    (WS-BrokeredNotification 1.3, NotificationBrokerRP); *topics* are those known so far, and all
    that there can be where *fixed*. A topic whose name is not an NCName is left out: neither an
    expression nor an element of the TopicSet can have it."""
    wsnt = f' xmlns:wsnt="{WSNT}"'
    expressions = "".join(
        _topic_element("wsnt:TopicExpression", topic, wsnt) for topic in filter(is_path, topics)
    )
    offered = "".join(
        f"<wsnt:TopicExpressionDialect{wsnt}>{xml_text(uri)}</wsnt:TopicExpressionDialect>"
        for uri in topic_dialects
    )
    fixed_set = f"<wsnt:FixedTopicSet{wsnt}>{str(fixed).lower()}</wsnt:FixedTopicSet>"
    return {
        f"{{{WSNT}}}TopicExpression": expressions.encode(),
        f"{{{WSNT}}}FixedTopicSet": fixed_set.encode(),
        f"{{{WSNT}}}TopicExpressionDialect": offered.encode(),
        f"{{{names.WSTOP_1_3}}}TopicSet": topic_set(topics),
        **broker_properties(names.WSN_BR_1_3, requires_registration=requires_registration),
    }


def _topic_element(name: str, topic: Topic, declarations: str) -> str:
    text, scope = written_topic(topic)
    return f'<{name}{declarations}{scope} Dialect="{dialects.TOPIC_CONCRETE}">{text}</{name}>'


class Properties13:
    """The resource properties of WS-Notification 1.3."""

    def of_subscription(self, subscription: Subscription, now: datetime) -> PropertyDocument:
        return PropertyDocument(SUBSCRIPTION_DOCUMENT, subscription_properties(subscription, now))

    def of_producer(
        self,
        topics: Collection[Topic],
        topic_dialects: Collection[str],
        *,
        requires_registration: bool = False,
        fixed: bool = False,
    ) -> PropertyDocument:
        values = producer_properties(
            topics, topic_dialects, requires_registration=requires_registration, fixed=fixed
        )
        return PropertyDocument(PRODUCER_DOCUMENT, values)

    def of_registration(
        self,
        request: RegisterPublisher,
        created: datetime,
        expires: datetime | None,
        now: datetime,
    ) -> PropertyDocument:
        values = registration_properties(BROKERED_1_3, request, created)
        return PropertyDocument(
            f"{{{names.WSN_BR_1_3}}}PublisherRegistrationRP",
            {**values, **lifetime_properties(expires, now)},
        )

    def of_mailbox(self, end: datetime | None, now: datetime) -> PropertyDocument:
        return PropertyDocument(PULL_POINT_DOCUMENT, lifetime_properties(end, now))
