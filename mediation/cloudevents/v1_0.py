"""CloudEvents 1.0, `SPECIFICATION`: bodies in place of envelopes, and requests in JSON, which are
read where HTTP is."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from filters import Topic
from mediation.cloudevents.http_binding import (
    BATCH,
    ORIGIN_HEADER,
    STRUCTURED,
    is_of_events,
    origin_of,
    write_headers,
)
from mediation.cloudevents.json_format import write_data, write_event
from mediation.cloudevents.mapping import event_of, json_of
from mediation.model.facts import TOPICS, Fact
from mediation.model.messages import Notification, Policy, Subscription
from mediation.model.specification import (
    NO_HOLES,
    NO_REQUESTS,
    Body,
    Holes,
    LeaseRules,
    Specification,
)
from mediation.model.versions import DataForm, EventForm, Family, Form, Version

_TELLS = TOPICS | {
    Fact.ACTION,
    Fact.PRODUCER,
    Fact.ID,
    Fact.TIME,
    Fact.EXPIRY,
    Fact.SIGNATURE,
    Fact.ATTRIBUTES,
}


@dataclass(frozen=True, slots=True)
class EventShape:
    """The form of the message, and of the data in it."""

    form: EventForm
    data: DataForm

    @property
    def soap(self) -> None:
        """None: it is not an envelope."""

    @property
    def tells(self) -> frozenset[Fact]:
        return _TELLS

    def topic_of(self, notification: Notification) -> Topic | None:
        return notification.topic

    def render(self, notification: Notification, producer: str) -> Body:
        if self.form is EventForm.BATCHED:
            return self.batch([notification], producer)
        if self.form is EventForm.STRUCTURED:
            return Body(_headers(STRUCTURED, producer), self._json_of(notification))
        event = event_of(notification, self.data)
        data_type = str(event.attributes.get("datacontenttype", ""))
        if is_of_events(data_type):
            return Body(_headers(STRUCTURED, producer), write_event(event))
        return Body(_headers(data_type, producer), event.data or b"", write_headers(event))

    def batch(self, notifications: Sequence[Notification], producer: str) -> Body:
        if self.form is not EventForm.BATCHED:
            raise ValueError(f"{self.form.value} messages have one event")
        events = b",".join([self._json_of(notification) for notification in notifications])
        return Body(_headers(BATCH, producer), b"[%b]" % events)

    def _json_of(self, notification: Notification) -> bytes:
        if self.data is DataForm.AS_PUBLISHED:
            made = json_of(notification)
            if made is not None:
                attributes, media_type = made
                return write_data(attributes, notification.payload, media_type)
        return write_event(event_of(notification, self.data))


class EventBodies:
    """The ways of CloudEvents."""

    def shape(self, form: Form, policy: Policy) -> EventShape:
        if not isinstance(form, EventForm):
            raise ValueError("CloudEvents are not written in SOAP")
        return _shape(form, policy.data)

    def holes(self, subscription: Subscription) -> Holes:
        return NO_HOLES


@lru_cache(maxsize=16)
def _shape(form: EventForm, data: DataForm) -> EventShape:
    return EventShape(form, data)


@lru_cache(maxsize=1024)
def _headers(content_type: str, producer: str) -> tuple[tuple[str, str], ...]:
    named = (("Content-Type", content_type),) if content_type else ()
    return (*named, (ORIGIN_HEADER, origin_of(producer)))


SPECIFICATION = Specification(
    Version.CLOUDEVENTS,
    Family.CLOUDEVENTS,
    "CloudEvents 1.0",
    requests=NO_REQUESTS,
    bodies=EventBodies(),
    handshake=True,
    leases=LeaseRules(shortens=True),
)
