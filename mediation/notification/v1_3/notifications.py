"""Notify of WS-BaseNotification 1.3, and raw messages."""

from filters import Topic
from mediation import names
from mediation.model.facts import BARE, TOPICS, WRAPPED
from mediation.model.messages import EndpointReference
from mediation.model.specification import EnvelopeParts, Wrapping
from mediation.model.versions import Soap, Wsa
from mediation.notification.brokered import BROKER_ACTIONS
from mediation.notification.topics import topic_element
from mediation.notification.v1_3.actions import NAMESPACE, NOTIFY_ACTION
from mediation.soap.addressing import write_epr


class Notifications13:
    """Notify (section 3.2), or raw messages for a subscriber that asked for them."""

    actions = frozenset(
        {
            NOTIFY_ACTION,
            names.WSN_1_3_ACTIONS + "PullPoint/Notify",
            BROKER_ACTIONS + "Notify",
        }
    )

    def wrapping(self, soap: Soap, *, raw: bool, dialect: str | None) -> Wrapping:
        return _RAW if raw else _NOTIFY


def _raw(topic: Topic, producer: EndpointReference, dialect: str | None, wsa: Wsa) -> EnvelopeParts:
    return EnvelopeParts()


def _notify(
    topic: Topic, producer: EndpointReference, dialect: str | None, wsa: Wsa
) -> EnvelopeParts:
    reference = write_epr(producer, wsa)
    return EnvelopeParts(
        "",
        f'<wsnt:Notify xmlns:wsnt="{NAMESPACE}"><wsnt:NotificationMessage>',
        f"{topic_element('wsnt:Topic', topic, dialect)}"
        f"<wsnt:ProducerReference>{reference}</wsnt:ProducerReference><wsnt:Message>",
        "</wsnt:Message></wsnt:NotificationMessage></wsnt:Notify>",
    )


def _write_reference(manager: str, wsa: Wsa) -> str:
    epr = write_epr(EndpointReference(manager, wsa))
    return f"<wsnt:SubscriptionReference>{epr}</wsnt:SubscriptionReference>"


_RAW = Wrapping(_raw, default_action=NOTIFY_ACTION, tells=BARE - TOPICS)
_NOTIFY = Wrapping(
    _notify, _write_reference, action=NOTIFY_ACTION, names_producer=True, tells=WRAPPED
)
