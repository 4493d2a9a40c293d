"""Answers to requests of any family."""

from dataclasses import dataclass

from mediation.model.requests.administration import SubscriptionsDeleted, SubscriptionsListed
from mediation.model.requests.describing import Device, Events, Identified, Metadata
from mediation.model.requests.mailboxes import MailboxMade, Taken
from mediation.model.requests.properties import Properties, QueryResult, TerminationTime
from mediation.model.requests.publishing import (
    Acknowledged,
    CurrentMessage,
    Published,
    PublisherRegistered,
)
from mediation.model.requests.sequences import SequenceAnswered
from mediation.model.requests.subscribing import Subscribed
from mediation.model.requests.windows_events import NoContent, SourceSubscriptions


@dataclass(frozen=True, slots=True)
class Done:
    """An answer that only says that the request was carried out."""


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
