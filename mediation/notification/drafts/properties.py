"""The resource properties of a draft: SubscriptionManagerRP and NotificationBrokerRP."""

from collections.abc import Collection
from datetime import datetime

from filters import Expression, Topic
from mediation.filtering import CHANGED_ONLY, of_producer, write_kept_expression
from mediation.model.messages import Subscription
from mediation.model.requests import RegisterPublisher
from mediation.model.specification import PropertyDocument
from mediation.notification.brokered import broker_properties, registration_properties
from mediation.notification.drafts.draft import Draft
from mediation.notification.topics import is_path
from mediation.resources.wsrf import lifetime_properties, write_time
from mediation.soap.addressing import write_epr
from mediation.soap.envelopes import xml_text


class DraftProperties:
    """The properties of subscriptions and of the gateway, in the names of one draft and in the
    order of its schema."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def of_subscription(self, subscription: Subscription, now: datetime) -> PropertyDocument:
        wsnt, declared = self._draft.namespace, self._draft.declared
        filter_ = subscription.filter
        consumer = write_epr(subscription.consumer)
        uses_notify = "false" if subscription.policy.raw else "true"
        topics = "".join(self._expression("TopicExpression", each) for each in filter_.topics)
        preconditions = "".join(
            self._expression("Precondition", each) for each in filter_.contents if of_producer(each)
        )
        selectors = "".join(
            self._expression("Selector", each)
            for each in (*filter_.contents, *filter_.others)
            if each != CHANGED_ONLY and not of_producer(each)
        )
        own = {
            "ConsumerReference": f"<wsnt:ConsumerReference{declared}>{consumer}"
            "</wsnt:ConsumerReference>",
            "TopicExpression": topics,
            "UseNotify": f"<wsnt:UseNotify{declared}>{uses_notify}</wsnt:UseNotify>",
            "Precondition": preconditions,
            "Selector": selectors,
            "CreationTime": write_time("wsnt:CreationTime", subscription.lease.created, declared),
        }
        values = {
            **lifetime_properties(subscription.lease.expires, now, self._draft.wsrf.lifetime),
            **{f"{{{wsnt}}}{name}": text.encode() for name, text in own.items()},
        }
        return PropertyDocument(f"{{{wsnt}}}SubscriptionManagerRP", values)

    def of_producer(
        self,
        topics: Collection[Topic],
        topic_dialects: Collection[str],
        *,
        requires_registration: bool = False,
        fixed: bool = False,
    ) -> PropertyDocument:
        wsnt, brokered, declared = self._draft.namespace, self._draft.brokered, self._draft.declared
        offered = dict.fromkeys(self._draft.spelled.get(uri, uri) for uri in topic_dialects)
        name = "wsnt:TopicExpressionDialects"
        fixed_set = str(fixed).lower()
        # A blind Simple takes any name, the dialects of paths NCNames alone.
        written = topics if self._draft.simple_is_blind else filter(is_path, topics)
        own = {
            "Topic": "".join(
                self._draft.write_topic("wsnt:Topic", topic, None, declared) for topic in written
            ),
            "FixedTopicSet": f"<wsnt:FixedTopicSet{declared}>{fixed_set}</wsnt:FixedTopicSet>",
            "TopicExpressionDialects": "".join(
                f"<{name}{declared}>{xml_text(uri)}</{name}>" for uri in offered
            ),
        }
        values = {
            **{f"{{{wsnt}}}{name}": text.encode() for name, text in own.items()},
            **broker_properties(brokered, requires_registration=requires_registration),
        }
        return PropertyDocument(f"{{{brokered}}}NotificationBrokerRP", values)

    def of_registration(
        self,
        request: RegisterPublisher,
        created: datetime,
        expires: datetime | None,
        now: datetime,
    ) -> PropertyDocument:
        values = {
            **lifetime_properties(expires, now, self._draft.wsrf.lifetime),
            **registration_properties(self._draft.broker, request, created),
        }
        return PropertyDocument(f"{{{self._draft.brokered}}}PublisherRegistrationRP", values)

    def of_mailbox(self, end: datetime | None, now: datetime) -> PropertyDocument:
        lifetime = self._draft.wsrf.lifetime
        values = lifetime_properties(end, now, lifetime)
        return PropertyDocument(f"{{{lifetime}}}ScheduledResourceTerminationRP", values)

    def _expression(self, name: str, expression: Expression) -> str:
        dialect = self._draft.spelled.get(expression.dialect)
        return write_kept_expression(self._draft.namespace, name, expression, dialect=dialect)
