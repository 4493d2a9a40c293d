"""The resource properties that a specification defines."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from filters import Topic
from mediation.model.messages import Subscription
from mediation.model.requests import RegisterPublisher


class PropertyDocument(NamedTuple):
    """The resource properties of one resource: the expanded name of their document's root, and each
    expanded name with its elements (bytes), in the order of the document."""

    root: str
    values: Mapping[str, bytes]


class ResourceProperties(Protocol):
    """The resource properties that a version of WS-Notification defines."""

    def of_subscription(self, subscription: Subscription, now: datetime) -> PropertyDocument:
        """Resource properties of a subscription."""

    def of_producer(
        self,
        topics: Collection[Topic],
        topic_dialects: Collection[str],
        *,
        requires_registration: bool = False,
        fixed: bool = False,
    ) -> PropertyDocument:
        """Resource properties of the gateway as producer and broker; *topics* are those seen so
        far."""

    def of_registration(
        self,
        request: RegisterPublisher,
        created: datetime,
        expires: datetime | None,
        now: datetime,
    ) -> PropertyDocument:
        """Resource properties of the registration of a publisher; *expires* None is never."""

    def of_mailbox(self, end: datetime | None, now: datetime) -> PropertyDocument:
        """Resource properties of a mailbox, which is destroyed at *end* when nobody reads it."""
