"""The one place that says who may do what; asked once for each request, in front of its handler.

Every transport and every route asks: a SOAP request by its type (`RIGHTS`), a route by the right
that its room has said. Every principal has all rights today: whoever reaches the gateway may
publish and subscribe, whoever reaches the administration may operate, and the key of a subscription
or a mailbox is the permission to use it. Rates and quotas are no rights: they ask the principal's
limits where they are counted.
"""

from filters import Reason, Refused
from gateway.security.principals import Principal, Right
from gateway.security.resource_addresses import ResourceAddress
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

RIGHTS: dict[type[Request], Right] = {
    Publish: Right.PUBLISH,
    RegisterPublisher: Right.PUBLISH,
    DestroyRegistration: Right.PUBLISH,
    EndOfSubscription: Right.PUBLISH,
    EndOfExchange: Right.PUBLISH,
    RunSequence: Right.PUBLISH,
    StoreMessage: Right.PUBLISH,
    Subscribe: Right.SUBSCRIBE,
    SubscribePulling: Right.SUBSCRIBE,
    AskForSubscriptions: Right.PUBLISH,
    CreateMailbox: Right.SUBSCRIBE,
    Renew: Right.MANAGE,
    GetStatus: Right.MANAGE,
    Unsubscribe: Right.MANAGE,
    Pause: Right.MANAGE,
    Resume: Right.MANAGE,
    Synchronize: Right.MANAGE,
    Take: Right.MANAGE,
    TakeFor: Right.MANAGE,
    DestroyMailbox: Right.MANAGE,
    ModifyProperties: Right.MANAGE,
    SetTerminationTime: Right.MANAGE,
    Destroy: Right.MANAGE,
    ListSubscriptions: Right.OPERATE,
    DeleteSubscriptions: Right.OPERATE,
    DescribeDevice: Right.READ,
    DescribeEvents: Right.READ,
    GetCurrentMessage: Right.READ,
    GetMetadata: Right.READ,
    GetProperties: Right.READ,
    QueryProperties: Right.READ,
    Identify: Right.READ,
}
"""The right that each type of request needs; its subclasses need the same."""


def right_for(request: type[Request]) -> Right:
    """The right that requests of a type need; one that nobody listed needs that to operate."""
    for each in request.__mro__:
        if each in RIGHTS:
            return RIGHTS[each]
    return Right.OPERATE


def authorise(principal: Principal, right: Right, resource: ResourceAddress | None = None) -> None:
    """Refuse what *principal* has no right to.

    Args:
        resource: The address that the request was sent to, where that names a resource.

    Raises:
        Refused: It may not; nothing was done.
    """
    if right not in principal.rights:
        raise Refused(Reason.NOT_ALLOWED, f"You have no right to {right.value} here.")


def authorise_request(
    principal: Principal, request: Request, resource: ResourceAddress | None
) -> None:
    """Refuse the *request* that *principal* has no right to.

    Raises:
        Refused: It may not; nothing was done.
    """
    authorise(principal, right_for(type(request)), resource)


def may_choose_reply_address(principal: Principal, *, host_agreed: bool) -> bool:
    """Return whether the answer to *principal* may be sent to an address that it names.

    A stranger's only to a host that has accepted messages before (*host_agreed*): another would get
    answers to what it has not asked.
    """
    return host_agreed or not principal.limits.reply_addresses
