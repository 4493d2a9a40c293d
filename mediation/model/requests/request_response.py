"""Requests and responses of any family, and a message that was read (`Incoming`)."""

from dataclasses import dataclass

from mediation.model.requests.context import Context
from mediation.model.requests.describing import (
    DescribeDevice,
    DescribeEvents,
    Device,
    Events,
    GetMetadata,
    Identified,
    Identify,
    Metadata,
)
from mediation.model.requests.mailboxes import (
    CreateMailbox,
    DestroyMailbox,
    MailboxMade,
    StoreMessage,
    Take,
    TakeFor,
    Taken,
)
from mediation.model.requests.properties import (
    Destroy,
    GetProperties,
    ModifyProperties,
    Properties,
    QueryProperties,
    QueryResult,
    SetTerminationTime,
    TerminationTime,
)
from mediation.model.requests.publishing import (
    Acknowledged,
    CurrentMessage,
    DestroyRegistration,
    GetCurrentMessage,
    Publish,
    Published,
    PublisherRegistered,
    RegisterPublisher,
)
from mediation.model.requests.sequences import RunSequence, SequenceAnswered
from mediation.model.requests.subscriptions import (
    DeleteSubscriptions,
    EndOfSubscription,
    GetStatus,
    ListSubscriptions,
    Pause,
    Renew,
    Resume,
    Subscribe,
    Subscribed,
    SubscribePulling,
    SubscriptionsDeleted,
    SubscriptionsListed,
    Synchronize,
    Unsubscribe,
)
from mediation.model.requests.windows_events import (
    AskForSubscriptions,
    EndOfExchange,
    NoContent,
    SourceSubscriptions,
)
from mediation.model.values import checked_dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """An answer that only says that the request was carried out."""


Request = (
    Identify
    | GetMetadata
    | ListSubscriptions
    | DeleteSubscriptions
    | DescribeDevice
    | SubscribePulling
    | CreateMailbox
    | DestroyMailbox
    | Take
    | TakeFor
    | StoreMessage
    | Synchronize
    | DescribeEvents
    | Subscribe
    | Renew
    | GetStatus
    | Unsubscribe
    | Pause
    | Resume
    | GetCurrentMessage
    | GetProperties
    | QueryProperties
    | ModifyProperties
    | SetTerminationTime
    | Destroy
    | Publish
    | EndOfSubscription
    | AskForSubscriptions
    | EndOfExchange
    | RegisterPublisher
    | DestroyRegistration
    | RunSequence
)

Response = (
    Subscribed
    | Done
    | CurrentMessage
    | Properties
    | QueryResult
    | SubscriptionsListed
    | SubscriptionsDeleted
    | TerminationTime
    | MailboxMade
    | Taken
    | Events
    | Published
    | PublisherRegistered
    | Acknowledged
    | SequenceAnswered
    | SourceSubscriptions
    | NoContent
    | Identified
    | Metadata
    | Device
)


@checked_dataclass(frozen=True, slots=True)
class Named:
    """The names of a subscription in a request, as the peer wrote them, the most trusted first.

    ``identifiers``: header blocks that may be reference parameters of ours, by expanded name.
    ``body``: an address inside the body (OSCARS, ServiceMix).
    """

    identifiers: tuple[str, ...] = ()
    to: str | None = None
    body: str | None = None


@checked_dataclass(frozen=True, slots=True)
class Incoming:
    """One message, read."""

    context: Context
    request: Request
    named: Named = Named()
