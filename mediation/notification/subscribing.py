"""Parts of Subscribe that WS-BaseNotification 1.3 and ONVIF have in common: children in either
spelling of the namespace, termination times, policies."""

from collections.abc import Container
from typing import NamedTuple

from lxml import etree

from filters import Reason
from filters.archive_positions import Position
from mediation import names, profiles
from mediation.model.delivery_modes import PUSH, DeliveryMode
from mediation.model.errors import MediationError
from mediation.model.expiry import NEVER, UNSPECIFIED, Expiry, parse_expiry
from mediation.order_keys import ORDER_KEY, read_order_key
from mediation.reliable_messaging import ASSURANCE, RM_ASSERTIONS, read_assurance, read_wanted_rm
from mediation.soap.envelopes import elements, local_name, namespace_of, text_of
from mediation.start_positions import SINCE, read_since

USE_RAW = f"{{{names.WSN_1_3}}}UseRaw"


def child_of(
    element: etree._Element, name: str, namespaces: Container[str] = profiles.WSN_1_3_SPELLINGS
) -> etree._Element | None:
    """The first child of *element* with that local name, in one of *namespaces*."""
    for child in elements(element):
        if local_name(child) == name and namespace_of(child) in namespaces:
            return child
    return None


def read_time(element: etree._Element | None) -> Expiry:
    """Read a termination time: absent leaves it to the gateway, nil is never, empty is an error.

    Raises:
        MediationError: ``EXPIRY_INVALID``.
    """
    if element is None:
        return UNSPECIFIED
    nil = (element.get(f"{{{names.XSI}}}nil") or "").strip() in ("1", "true")
    return NEVER if nil else parse_expiry(text_of(element))


class WantedPolicy(NamedTuple):
    """Wishes of a ``SubscriptionPolicy``: ``UseRaw``, ONVIF's ``ChangedOnly``, and how it is
    delivered: in sequences of a version of WS-ReliableMessaging, or at most once; since when what
    was published is wanted; and the key of which messages are sent in order."""

    raw: bool
    changed_only: bool
    delivery: DeliveryMode
    since: Position | None
    order_key: str


def read_policy(element: etree._Element | None) -> WantedPolicy:
    """Read a ``SubscriptionPolicy``.

    Raises:
        MediationError: ``POLICY_UNRECOGNIZED``, its names the policies'.
    """
    asked = [] if element is None else elements(element)
    raw = {f"{{{namespace}}}UseRaw" for namespace in profiles.WSN_1_3_SPELLINGS}
    changed_only = f"{{{names.ONVIF_EVENTS}}}ChangedOnly"
    known = {*raw, changed_only, *RM_ASSERTIONS, ASSURANCE, SINCE, ORDER_KEY}
    unknown = tuple(str(policy.tag) for policy in asked if policy.tag not in known)
    if unknown:
        raise MediationError(
            Reason.POLICY_UNRECOGNIZED, "A subscription policy is not known.", names=unknown
        )
    tags = {policy.tag for policy in asked}
    rm = read_wanted_rm(asked)
    delivery = read_assurance(asked, PUSH if rm is None else DeliveryMode(reliable=rm.number))
    order_key = read_order_key(asked, delivery)
    since = read_since(asked)
    return WantedPolicy(bool(tags & raw), changed_only in tags, delivery, since, order_key)
