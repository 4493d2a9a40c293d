"""Notifications of a draft: Notify, or raw for a subscriber that wants no Notify."""

from filters import Topic
from mediation.model.facts import BARE, TOPICS, WRAPPED, Fact
from mediation.model.messages import EndpointReference
from mediation.model.specification import EnvelopeParts, Wrapping
from mediation.model.versions import Soap, Wsa
from mediation.notification.drafts.draft import Draft
from mediation.soap.addressing import write_epr

_END = "</wsnt:Message></wsnt:NotificationMessage></wsnt:Notify>"


class DraftNotifications:
    """Notify of one draft has a topic always, and no reference of the subscription."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self.actions = frozenset({draft.notify_action, *draft.notify_actions})
        self._notify = Wrapping(
            self._around,
            action=draft.notify_action,
            names_producer=True,
            names_gateway=draft.names_gateway,
            around_written=self._around_written if draft.keeps_topic_element else None,
            tells=(WRAPPED | ({Fact.TOPIC_ELEMENT} if draft.keeps_topic_element else set()))
            - {Fact.SUBSCRIPTION}
            - draft.untold,
        )
        self._raw = Wrapping(
            _nothing_around,
            action=draft.notify_action if draft.raw_as_notify else None,
            default_action=draft.notify_action,
            tells=BARE - TOPICS - ({Fact.ACTION} if draft.raw_as_notify else set()),
        )

    def wrapping(self, soap: Soap, *, raw: bool, dialect: str | None) -> Wrapping:
        return self._raw if raw else self._notify

    def _around(
        self, topic: Topic, producer: EndpointReference, dialect: str | None, wsa: Wsa
    ) -> EnvelopeParts:
        written = self._draft.write_topic("wsnt:Topic", topic, dialect, "")
        return self._around_written(written, producer, wsa)

    def _around_written(self, topic: str, producer: EndpointReference, wsa: Wsa) -> EnvelopeParts:
        reference = ""
        if producer.address:
            reference = (
                f"<wsnt:ProducerReference>{write_epr(producer, wsa)}</wsnt:ProducerReference>"
            )
        return EnvelopeParts(
            before_payload=f"<wsnt:Notify{self._draft.declared}><wsnt:NotificationMessage>{topic}"
            f"{reference}<wsnt:Message>",
            after_payload=_END,
        )


def _nothing_around(
    topic: Topic, producer: EndpointReference, dialect: str | None, wsa: Wsa
) -> EnvelopeParts:
    return EnvelopeParts()
