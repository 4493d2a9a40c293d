"""One message, read: its request, of any family, and its context."""

from mediation.model.requests.administration import DeleteSubscriptions, ListSubscriptions
from mediation.model.requests.context import Context
from mediation.model.requests.describing import (
    DescribeDevice,
    DescribeEvents,
    GetMetadata,
    Identify,
)
from mediation.model.requests.mailboxes import (
    CreateMailbox,
    DestroyMailbox,
    StoreMessage,
    Take,
    TakeFor,
)
from mediation.model.requests.properties import (
    Destroy,
    GetProperties,
    ModifyProperties,
    QueryProperties,
    SetTerminationTime,
)
from mediation.model.requests.publishing import (
    DestroyRegistration,
    GetCurrentMessage,
    Publish,
    RegisterPublisher,
)
from mediation.model.requests.sequences import RunSequence
from mediation.model.requests.subscribing import (
    EndOfSubscription,
    GetStatus,
    Pause,
    Renew,
    Resume,
    Subscribe,
    SubscribePulling,
    Synchronize,
    Unsubscribe,
)
from mediation.model.requests.windows_events import AskForSubscriptions, EndOfExchange
from mediation.model.values import checked_dataclass

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
