"""Rights of a broker's users, whose programs publish past the gateway: ``broker:NAME`` in rules.

A broker that says who published a message (RabbitMQ's ``user_id``, ActiveMQ's ``JMSXUserID``) has
checked that. Of other native messages nobody knows whose they are: the broker's own permissions
decide who may publish them.
"""

import re

from filters import Reason, Refused
from gateway.security.audit import Audit, note_refusal
from gateway.security.identify import Identification, producer_of
from gateway.security.principals import BROKER
from gateway.security.rights import Right
from mediation.model.messages import Notification
from mediation.names import BROKER_USER, PUBLISHER
from mediation.tenants import OWNER as TENANT

_IN_TENANT = re.compile(f"{PUBLISHER}({TENANT}[^:]+:)native#{PUBLISHER}({BROKER}.+)", re.DOTALL)
"""The source of what a program published at a destination of a tenant (`mediation.tenants`)."""


class NativeRights:
    """Asks the rules about messages of a broker's users."""

    def __init__(self, identification: Identification, audit: Audit) -> None:
        self._identification = identification
        self._audit = audit

    def allows(self, notification: Notification) -> bool:
        """Return True if *notification* came over a gateway, or of nobody that the broker names, or
        if its user may publish on its topic. The audit log has what is refused."""
        owner, topic = _owner_of(notification.source), notification.topic
        if not owner:
            return True
        if self._identification.grants_of(owner).allows(Right.PUBLISH, topic):
            return True
        what = str(topic) if topic is not None else "no topic"
        refused = Refused(Reason.NOT_ALLOWED, f"{owner} may not publish on it.")
        user = producer_of("", owner)
        note_refusal(self._audit, user, "published at the broker", what[:256], refused)
        return False


def _owner_of(source: str) -> str:
    """The name of the broker's user, in its tenant, whose *source* this is; empty for another."""
    if source.startswith(BROKER_USER):
        return source.removeprefix(PUBLISHER)
    found = _IN_TENANT.fullmatch(source)
    return found[1] + found[2] if found is not None else ""
