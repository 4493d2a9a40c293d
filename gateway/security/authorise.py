"""The one place that says who may do what; asked once for each request, in front of its handler.

Every transport and every route asks: a SOAP request by its type (`RIGHTS`), a route by the right
that its room has said. What is published, and subscribed to, is asked for by its topics, too; what
a subscription gets of topics that it names by a pattern is asked for when it is delivered
(`gateway.subscriptions.matching`). The key of a subscription or a mailbox is the permission to use
it. Rates and quotas are no rights: they ask the principal's limits where they are counted.
"""

from collections.abc import Iterable

from filters import Expression, Reason, Refused, Topic, parse_expression
from gateway.security.principals import ANONYMOUS, Principal
from gateway.security.rights import ALL_GRANTS, ALL_RIGHTS, Right
from mediation.model.requests import (
    AskForSubscriptions,
    CreateMailbox,
    DeleteSubscriptions,
    DescribeDevice,
    DescribeEvents,
    Destroy,
    DestroyMailbox,
    DestroyRegistration,
    EndOfExchange,
    EndOfSubscription,
    GetCurrentMessage,
    GetMetadata,
    GetProperties,
    GetStatus,
    Identify,
    ListSubscriptions,
    ModifyProperties,
    Pause,
    Publish,
    QueryProperties,
    RegisterPublisher,
    Renew,
    Request,
    Resume,
    RunSequence,
    SetTerminationTime,
    StoreMessage,
    Subscribe,
    SubscribePulling,
    Synchronize,
    Take,
    TakeFor,
    Unsubscribe,
)

OPEN = frozenset[Right]()
"""What anybody may ask, as a peer must before it logs in: what is here, and how to ask for it."""
_PUBLISH = frozenset({Right.PUBLISH})
_SUBSCRIBE = frozenset({Right.SUBSCRIBE})
_MANAGE = frozenset({Right.MANAGE})
_OPERATE = frozenset({Right.OPERATE})
_SEE_TOPICS = frozenset({Right.SUBSCRIBE, Right.READ})
"""Who has the one sees the topics that it may subscribe to, who has the other sees all."""
_SEE_RESOURCES = _SEE_TOPICS | _PUBLISH | _MANAGE
"""Of what one has the key of: a subscription, a mailbox, a registration; or of the producer."""

RIGHTS: dict[type[Request], frozenset[Right]] = {
    Publish: _PUBLISH,
    RegisterPublisher: _PUBLISH,
    DestroyRegistration: _PUBLISH,
    EndOfSubscription: _PUBLISH,
    EndOfExchange: _PUBLISH,
    RunSequence: _PUBLISH,
    StoreMessage: _PUBLISH,
    AskForSubscriptions: _PUBLISH,
    Subscribe: _SUBSCRIBE,
    SubscribePulling: _SUBSCRIBE,
    CreateMailbox: _SUBSCRIBE,
    GetCurrentMessage: _SUBSCRIBE,
    Renew: _MANAGE,
    GetStatus: _MANAGE,
    Unsubscribe: _MANAGE,
    Pause: _MANAGE,
    Resume: _MANAGE,
    Synchronize: _MANAGE,
    Take: _MANAGE,
    TakeFor: _MANAGE,
    DestroyMailbox: _MANAGE,
    ModifyProperties: _MANAGE,
    SetTerminationTime: _MANAGE,
    Destroy: _MANAGE,
    ListSubscriptions: _OPERATE,
    DeleteSubscriptions: _OPERATE,
    DescribeEvents: _SEE_TOPICS,
    GetProperties: _SEE_RESOURCES,
    QueryProperties: _SEE_RESOURCES,
    DescribeDevice: OPEN,
    GetMetadata: OPEN,
    Identify: OPEN,
}
"""The rights of which each type of request needs one; its subclasses need the same."""


OPEN_TO_TENANTS: frozenset[type[Request]] = frozenset(
    {
        Publish, StoreMessage, RunSequence, Subscribe, SubscribePulling, CreateMailbox, Renew,
        GetStatus, Unsubscribe, Pause, Resume, Synchronize, Take, DestroyMailbox, ModifyProperties,
        SetTerminationTime, Destroy, ListSubscriptions, DeleteSubscriptions, DescribeDevice,
        DescribeEvents, GetCurrentMessage, GetMetadata, GetProperties, QueryProperties, Identify,
    }
)  # fmt: skip
"""What is asked of the gateway in any tenant; all else is the default tenant's alone, and a type of
request that nobody listed, too."""


def rights_for(request: type[Request]) -> frozenset[Right]:
    """The rights of which requests of a type need one; `OPEN`: they need none. One that nobody
    listed needs that to operate."""
    for each in request.__mro__:
        if each in RIGHTS:
            return RIGHTS[each]
    return _OPERATE


def authorise(principal: Principal, right: Right) -> None:
    """Refuse what *principal* has no right to.

    Raises:
        Refused: It may not; nothing was done. ``NOT_IDENTIFIED`` where it has not said who it is.
    """
    if right not in principal.rights:
        raise _refusal(principal, f"to {right.value} here")


def authorise_administrator(principal: Principal) -> None:
    """Refuse who may not do everything, by these credentials and on all topics: who changes who may
    do what could give itself any right.

    Raises:
        Refused: As `authorise`.
    """
    everything = principal.rights >= ALL_RIGHTS and principal.grants.unlimited >= ALL_RIGHTS
    if principal.tenant or not everything:
        raise _refusal(principal, "to change who may do what, which takes everything")


def authorise_request(principal: Principal, request: Request, *, given_out: bool = False) -> None:
    """Refuse the *request* that *principal* has no right to.

    Args:
        given_out: The resource at the address takes the request in itself, and nothing else does: a
            mailbox keeps it, or a source or a sequence has it. To send there needs no right to
            publish: producers and consumers were given the address, and the key in it is the
            permission. Whether the address merely names such a resource is not enough: what is
            carried out as anywhere, RegisterPublisher for example, needs its right.

    Raises:
        Refused: As `authorise`.
    """
    rights = rights_for(type(request))
    sent_there = given_out and rights == _PUBLISH
    if not sent_there:
        _authorise_one(principal, rights)
    if principal.tenant and not OPEN_TO_TENANTS.intersection(type(request).__mro__):
        raise Refused(Reason.ACTION_UNSUPPORTED, "The operation is not offered.")
    if principal.grants is not ALL_GRANTS and not sent_there:
        _authorise_topics(principal, request, rights)


def _authorise_one(principal: Principal, rights: frozenset[Right]) -> None:
    """Refuse what takes one of *rights*, if *principal* has none of them."""
    if rights and not rights & principal.rights:
        named = " or ".join(right.value for right in Right if right in rights)
        raise _refusal(principal, f"to {named} here")


def _authorise_topics(principal: Principal, request: Request, rights: Iterable[Right]) -> None:
    """Refuse a *request* about topics that *principal* has no right to. One that names topics needs
    one right alone.

    Raises:
        Refused: There is one at least.
    """
    grants = principal.grants
    for right in rights:
        for topic in _topics_of(request):
            if not grants.allows(right, topic):
                about = f"on the topic {topic}" if topic is not None else "without a topic"
                raise _refusal(principal, f"to {right.value} {about}")
        for expression in _expressions_of(request):
            if not grants.may_match(right, parse_expression(expression)):
                raise _refusal(principal, f"to {right.value} on {expression.text}")


def _topics_of(request: Request) -> Iterable[Topic | None]:
    if isinstance(request, Publish):
        return (each.topic for each in request.notifications)
    return (request.topic,) if isinstance(request, GetCurrentMessage) else ()


def _expressions_of(request: Request) -> Iterable[Expression]:
    if isinstance(request, Subscribe | SubscribePulling):
        return request.filter.topics
    return request.topics if isinstance(request, RegisterPublisher) else ()


def _refusal(principal: Principal, what: str) -> Refused:
    if principal.owner.startswith(ANONYMOUS) and principal.grants is not ALL_GRANTS:
        return Refused(Reason.NOT_IDENTIFIED, f"Say who you are {what}.")
    return Refused(Reason.NOT_ALLOWED, f"You have no right {what}.")


def sees_all_topics(principal: Principal) -> bool:
    """Return True if *principal* may be told of all topics of its tenant: it may read, or subscribe
    to any."""
    rights, unlimited = principal.rights, principal.grants.unlimited
    return Right.READ in rights or (Right.SUBSCRIBE in rights and Right.SUBSCRIBE in unlimited)


def sees_topic(principal: Principal, topic: Topic | None) -> bool:
    """Return True if *principal* may be told of *topic*, which it may subscribe to."""
    return sees_all_topics(principal) or (
        Right.SUBSCRIBE in principal.rights and principal.grants.allows(Right.SUBSCRIBE, topic)
    )


def may_choose_reply_address(principal: Principal, *, host_agreed: bool) -> bool:
    """Return whether the answer to *principal* may be sent to an address that it names.

    A stranger's only to a host that has accepted messages before (*host_agreed*): another would get
    answers to what it has not asked.
    """
    return host_agreed or not principal.limits.reply_addresses
