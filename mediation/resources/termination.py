"""The end of a resource as an event (WS-ResourceLifetime): a notification on the topic
``ResourceTermination`` of its namespace, for whoever subscribed for that."""

from datetime import datetime

from filters import Event, Filter, FilterError, Step, Topic, compile
from mediation.model.messages import Notification
from mediation.resources.wsrf import write_time
from mediation.soap.envelopes import xml_text


def termination_notification(
    namespace: str, reason: str, *, id: str, now: datetime
) -> Notification:
    """The notification of the end of a resource at *now*; *namespace* is that of the version of
    WS-ResourceLifetime."""
    declared = f' xmlns:rl="{namespace}"'
    why = f"<rl:TerminationReason>{xml_text(reason)}</rl:TerminationReason>" if reason else ""
    payload = (
        f"<rl:TerminationNotification{declared}>{write_time('rl:TerminationTime', now)}{why}"
        "</rl:TerminationNotification>"
    )
    topic = Topic((Step(namespace, "ResourceTermination"),))
    return Notification(id, "", payload.encode(), now, topic=topic)


def asks_for_termination(filter: Filter, notification: Notification) -> bool:
    """Return whether a subscription with *filter* asks to be told of its own end: a topic
    expression selects the topic of *notification*, and all else in it holds of the payload. One
    without a topic expression selects every topic, and asks for none."""
    event = Event(notification.payload, topic=notification.topic)
    try:  # First the topics, for few ask for this one.
        asked = bool(filter.topics) and compile(Filter(topics=filter.topics)).matches(event)
        return asked and compile(filter).matches(event)
    except FilterError:  # What only the messaging system can evaluate.
        return False
