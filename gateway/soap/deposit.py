"""Step "deposit": what is sent to a mailbox is kept there, and not carried out.

A mailbox keeps even what cannot be read as a request (`keeps_unread`): it need not be ours to
understand. How it is kept is `gateway.mailboxes.deposits`.
"""

from dataclasses import replace

from filters import Reason
from gateway.exchange import ACCEPTED, Reply
from gateway.security.keys import message_urn
from gateway.security.resource_addresses import (
    MAILBOXES,
    MESSAGE_BOXES,
    ResourceAddress,
    ResourceKind,
)
from mediation.model.requests import Context, Done, Operation, Rejected
from mediation.model.versions import Version
from mediation.responses import write_response

_KEPT_ALL_THE_SAME = frozenset({Reason.ACTION_UNSUPPORTED, Reason.MESSAGE_INVALID})
"""Reasons of refusal that do not keep a message out of a mailbox."""
_ASKED_OF_BOXES = frozenset(
    {
        Operation.CREATE_PULL_POINT,
        Operation.GET_MESSAGES,
        Operation.PULL_MESSAGES,
        Operation.DESTROY_PULL_POINT,
        Operation.CREATE_MESSAGE_BOX,
        Operation.TAKE_MESSAGES,
        Operation.DESTROY_MESSAGE_BOX,
    }
)
"""Operations of mailboxes, in any specification."""


_TOLD = frozenset({None, Operation.PUBLISH, Operation.SUBSCRIPTION_END})
"""What asks for nothing: an event, a Notify, the end of a subscription; None is unread."""


def is_deposit(resource: ResourceAddress, operation: Operation | None) -> bool:
    """Whether a message that was sent to *resource* is one to keep: it asks for nothing there."""
    if resource.kind not in MAILBOXES:
        return False
    if resource.kind in MESSAGE_BOXES:  # They keep all but what is asked of themselves.
        return operation not in _ASKED_OF_BOXES
    return operation in _TOLD


def keeps_unread(resource: ResourceAddress | None, rejected: Rejected) -> bool:
    """Whether *resource* keeps a message that could not be read; an envelope it is at least."""
    return (
        rejected.refused.reason in _KEPT_ALL_THE_SAME
        and resource is not None
        and resource.key is not None
        and is_deposit(resource, rejected.context.operation)
    )


def deposited(resource: ResourceAddress, context: Context) -> Reply:
    """The reply to who put a message into *resource*: a response, where the service has one."""
    if resource.kind is not ResourceKind.MESSAGE_BOX_2011:
        return ACCEPTED[context.soap]
    action, body = write_response(
        Done(),
        replace(context, version=Version.MESSAGE_BOX_2011, operation=Operation.STORE_MESSAGES),
        message_id=message_urn(),
    )
    return Reply(
        status=200,
        soap=context.soap,
        action=action,
        body=body,
        expected=context.headers.message_id is not None,
    )
