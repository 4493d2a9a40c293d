"""Requests of peers and their answers as values, the same in every specification.

A module holds the requests of one family with the answers to them.
"""

from mediation.model.requests.administration import (
    DeleteSubscriptions,
    ListSubscriptions,
    SubscriptionEntry,
    SubscriptionsDeleted,
    SubscriptionSelection,
    SubscriptionsListed,
)
from mediation.model.requests.answers import (
    Done,
    Response,
)
from mediation.model.requests.context import (
    Arrival,
    Context,
    ManagementHeaders,
    Rejected,
)
from mediation.model.requests.describing import (
    DescribeDevice,
    DescribeEvents,
    Device,
    Events,
    GetMetadata,
    Identified,
    Identify,
    Metadata,
    MetadataSection,
)
from mediation.model.requests.endpoint_rules import (
    ANYWHERE,
    EndpointRules,
)
from mediation.model.requests.incoming import (
    Incoming,
    Named,
    Request,
)
from mediation.model.requests.mailboxes import (
    CreateMailbox,
    DestroyMailbox,
    MailboxMade,
    MailboxService,
    StoreMessage,
    Take,
    TakeFor,
    Taken,
)
from mediation.model.requests.operations import (
    Operation,
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
from mediation.model.requests.sequences import (
    RunSequence,
    SequenceAnswered,
    SequenceParts,
    Sequences,
)
from mediation.model.requests.subscribing import (
    EndOfSubscription,
    GetStatus,
    Pause,
    Renew,
    Resume,
    Subscribe,
    Subscribed,
    SubscribePulling,
    Synchronize,
    Unsubscribe,
)
from mediation.model.requests.windows_events import (
    AskForSubscriptions,
    EndOfExchange,
    NoContent,
    SourceSubscription,
    SourceSubscriptions,
)

__all__ = [
    "ANYWHERE",
    "Acknowledged",
    "Arrival",
    "AskForSubscriptions",
    "Context",
    "CreateMailbox",
    "CurrentMessage",
    "DeleteSubscriptions",
    "DescribeDevice",
    "DescribeEvents",
    "Destroy",
    "DestroyMailbox",
    "DestroyRegistration",
    "Device",
    "Done",
    "EndOfExchange",
    "EndOfSubscription",
    "EndpointRules",
    "Events",
    "GetCurrentMessage",
    "GetMetadata",
    "GetProperties",
    "GetStatus",
    "Identified",
    "Identify",
    "Incoming",
    "ListSubscriptions",
    "MailboxMade",
    "MailboxService",
    "ManagementHeaders",
    "Metadata",
    "MetadataSection",
    "ModifyProperties",
    "Named",
    "NoContent",
    "Operation",
    "Pause",
    "Properties",
    "Publish",
    "Published",
    "PublisherRegistered",
    "QueryProperties",
    "QueryResult",
    "RegisterPublisher",
    "Rejected",
    "Renew",
    "Request",
    "Response",
    "Resume",
    "RunSequence",
    "SequenceAnswered",
    "SequenceParts",
    "Sequences",
    "SetTerminationTime",
    "SourceSubscription",
    "SourceSubscriptions",
    "StoreMessage",
    "Subscribe",
    "SubscribePulling",
    "Subscribed",
    "SubscriptionEntry",
    "SubscriptionSelection",
    "SubscriptionsDeleted",
    "SubscriptionsListed",
    "Synchronize",
    "Take",
    "TakeFor",
    "Taken",
    "TerminationTime",
    "Unsubscribe",
]
