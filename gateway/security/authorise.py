"""The one place that says who may do what; asked once for each request, in front of its handler."""

from gateway.security.principals import Principal
from gateway.security.resource_addresses import ResourceAddress
from mediation.model.requests import Request


def authorise(
    principal: Principal, request: Request | None, resource: ResourceAddress | None
) -> None:
    """Refuse what *principal* may not ask for.

    Every principal may ask for everything today: whoever reaches the gateway may publish and
    subscribe, and the key of a subscription or a mailbox is the permission to use it. A rule that
    tells principals apart is written here, and nowhere else. Rates and quotas are no permissions;
    they ask the principal where they are counted.

    Args:
        request: What is asked for in SOAP; None where the path and the method of HTTP say it.
        resource: The address that the request was sent to, where that names a resource.

    Raises:
        Refused: It may not; nothing was done.
    """


def may_choose_reply_address(principal: Principal, *, host_agreed: bool) -> bool:
    """Whether the answer to *principal* may be sent to an address that it names.

    A stranger's only to a host that has accepted messages before (*host_agreed*): another would get
    answers to what it has not asked.
    """
    return principal.trusted or host_agreed
