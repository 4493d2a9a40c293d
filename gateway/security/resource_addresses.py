"""The addresses of the gateway: which of its resources an address names.

    /subscriptions/KEY                               a subscription's manager
    /pullpoints/KEY                                  a pull point (WS-BaseNotification, ONVIF)
    /mailboxes/KEY                                   a mailbox, for JSON and Server-Sent Events
    /publishers/KEY                                  a publisher's registration
    /sources/KEY                                     what a producer sends to a source of ours
    /sequences/KEY                                   acknowledgements of a subscriber's sequence
    /soap/channel/NAME                               a channel with a name
    /axis2/services/MsgBoxService[/clientid/KEY]     WS-Messenger's message box
    /msgbox[/clientid/KEY]                           the same, shorter
    /MsgBox[/KEY]                                    XSUL's message box

Beside them the SOAP endpoint has addresses that name none of them (`ENDPOINTS`): everything can be
asked and published at each, for clients that build their addresses themselves.

One mailbox has several addresses: whoever knows its key may use any of them. Behind a proxy a path
may stand in front of each; what follows ``/topic/`` is a topic, and never an address.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from urllib.parse import unquote

from gateway.security.keys import public_id
from mediation.mailboxes.message_box import boxes_named_by
from mediation.names import MAKE_CONNECTION_ANONYMOUS

MESSENGER_PREFIX = "/axis2/services"
"""The path of WS-Messenger's services; a setting names more."""
MESSENGER_SERVICES = ("EventingService", "NotificationService", "MsgBoxService")
EVENTING_SERVICE, NOTIFICATION_SERVICE = _MESSENGER_PATHS = tuple(
    f"{MESSENGER_PREFIX}/{name}" for name in MESSENGER_SERVICES[:2]
)
MESSAGE_BOX_SERVICE = f"{MESSENGER_PREFIX}/{MESSENGER_SERVICES[2]}"
WINDOWS_COLLECTOR = "/wsman/SubscriptionManager/WEC"
"""The path that sources of Windows events are told in a group policy."""
ENDPOINTS = ("/soap", *_MESSENGER_PATHS, "/wsman", WINDOWS_COLLECTOR, "/onvif/device_service")
"""Paths of the SOAP endpoint, each with a slash at its end, too: ours, WS-Messenger's, that of
WS-Management, and of ONVIF's device service."""
MESSENGER_TOPIC_PATHS = tuple(f"{path}/topic/" for path in _MESSENGER_PATHS)
TOPIC_PATHS = ("/soap/topic/", *MESSENGER_TOPIC_PATHS)
"""Paths in front of the name of a topic."""


def is_endpoint(path: str) -> bool:
    """Whether *path* is one of the `ENDPOINTS`."""
    return path.removesuffix("/") in ENDPOINTS


def messenger_service(path: str) -> str:
    """The name of WS-Messenger's service whose address *path* is; empty where it is of none."""
    before, _, name = path.removesuffix("/").rpartition("/")
    return name if before == MESSENGER_PREFIX and name in MESSENGER_SERVICES else ""


class ResourceKind(Enum):
    """A kind of resource that an address names; the value is its path, in front of the key."""

    SUBSCRIPTION = "/subscriptions/"
    PULL_POINT = "/pullpoints/"
    MAILBOX = "/mailboxes/"
    SOURCE = "/sources/"
    PUBLISHER = "/publishers/"
    SEQUENCE = "/sequences/"
    CHANNEL = "/soap/channel/"
    MESSAGE_BOX_2011 = "/axis2/services/MsgBoxService/clientid/"
    MESSAGE_BOX_2004 = "/MsgBox/"

    def address(self, base: str, key: str) -> str:
        """The address of the resource with *key*; *base* is the gateway's, without a trailing
        slash."""
        return f"{base}{self.value}{key}"


@dataclass(frozen=True, slots=True)
class ResourceAddress:
    """A kind of resource, and its key, in lower case; None at the address of a message box service
    itself, where boxes are made, and named in the message."""

    kind: ResourceKind
    key: str | None = None


MESSAGE_BOXES = frozenset({ResourceKind.MESSAGE_BOX_2011, ResourceKind.MESSAGE_BOX_2004})
"""Kinds whose addresses also exist without a key; whatever else is sent to them is stored."""
MAILBOXES = MESSAGE_BOXES | {ResourceKind.PULL_POINT, ResourceKind.MAILBOX}
"""Kinds whose addresses are those of mailboxes."""

_KEY = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_ANY = r"([^/]{1,100})"
"""Any text in the place of a key: whether somebody has it is found out by looking it up."""
_RESOURCES = (
    (ResourceKind.SUBSCRIPTION, re.compile(rf"/subscriptions/{_ANY}/?$")),
    (ResourceKind.PULL_POINT, re.compile(rf"/pullpoints/{_ANY}/?$")),
    (ResourceKind.MAILBOX, re.compile(rf"/mailboxes/{_ANY}/?$")),
    (ResourceKind.SOURCE, re.compile(rf"/sources/{_ANY}/?$")),
    (ResourceKind.PUBLISHER, re.compile(rf"/publishers/{_ANY}/?$")),
    (ResourceKind.SEQUENCE, re.compile(rf"/sequences/({_KEY})/?$")),
    (ResourceKind.CHANNEL, re.compile(rf"/soap/channel/{_ANY}/?$")),
    (
        ResourceKind.MESSAGE_BOX_2011,
        re.compile(rf"/(?:MsgBoxService|msgbox)(?:/clientid(?:/{_ANY})?)?/?$"),
    ),
    (ResourceKind.MESSAGE_BOX_2004, re.compile(rf"/MsgBox(?:/{_ANY})?/?$")),
)
_AUTHORITY = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_USER = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@")
_RELAY = re.compile(r"(/relay/)([^/?#]{16,})")
"""A relay's token in an address, its own or another gateway's."""
_RELAY_IN_TEXT = re.compile(r"(/relay/)([^/?#\s<>\"'&]{16,})")
_BARE_KEY = re.compile(rf"(?:urn:uuid:|uuid:)?({_KEY})")
_OPENING = "|".join(
    re.escape(kind.value.strip("/").rpartition("/")[2])
    for kind in ResourceKind
    if kind is not ResourceKind.CHANNEL
)
_KEY_AT_A_PATH = re.compile(rf"(/(?:{_OPENING})/(?:urn:uuid:|uuid:)?)({_KEY})")
_USER_IN_TEXT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s<>\"']*@")
_FETCHER_IN_TEXT = re.compile(rf"({re.escape(MAKE_CONNECTION_ANONYMOUS)}[^\s<>\"'&]*)")
_KEY_IN_TEXT = re.compile(rf"(?:^|/subscriptions/|urn:uuid:|uuid:)({_KEY})(?=$|[/?#])", re.I)


KEPT = 256
KEPT_CHARACTERS = 256
"""Addresses that are remembered with what they name, and the length of each, at most: they come
again and again."""


def resource_at(address: str | None) -> ResourceAddress | None:
    """The resource that an address, of any scheme, or a path names; None where it names none."""
    if not address:
        return None
    return _kept(address) if len(address) <= KEPT_CHARACTERS else _find_resource(address)


def _find_resource(address: str) -> ResourceAddress | None:
    path = _AUTHORITY.sub("", re.split(r"[?#]", address.strip(), maxsplit=1)[0])
    if not path or "/topic/" in path:
        return None
    for kind, form in _RESOURCES:
        found = form.search(path)
        if found is not None:
            key: str | None = found[1]
            return ResourceAddress(kind, key.lower() if key else None)
    return None


_kept = lru_cache(KEPT)(_find_resource)


def addressed(path: str, to: str | None) -> ResourceAddress | None:
    """The resource that a message was sent to: that of the request's *path*, else of ``wsa:To``."""
    resource = resource_at(path)
    if resource is None and (path in ("", "/") or is_endpoint(path)):
        resource = resource_at(to)
    return resource


def shown(address: str) -> str:
    """*address* as logs and lists show it: without a user's name and password, and with the id in
    place of a key or a relay's token, which would open what it leads to; so would the name of a
    consumer that fetches by it."""
    if address.startswith(MAKE_CONNECTION_ANONYMOUS):
        return MAKE_CONNECTION_ANONYMOUS + public_id(address)
    address = _USER.sub(r"\1", address)
    if "/relay/" in address:
        address = _RELAY.sub(lambda found: found[1] + public_id(unquote(found[2])), address)
    resource = resource_at(address)
    if resource is None or resource.key is None or not _BARE_KEY.fullmatch(resource.key):
        return address
    return re.sub(resource.key, public_id(resource.key), address, flags=re.IGNORECASE)


def shown_in(text: str) -> str:
    """A *text* with addresses, such as a document, in which each is as `shown` has it. Names in
    it are read as they are: a document must have no escapes in the place of their letters."""
    text = _FETCHER_IN_TEXT.sub(lambda found: shown(found[1]), text)
    text = _USER_IN_TEXT.sub(r"\1", text)
    text = _RELAY_IN_TEXT.sub(lambda found: found[1] + public_id(unquote(found[2])), text)
    return _KEY_AT_A_PATH.sub(lambda found: found[1] + public_id(found[2].lower()), text)


def key_in(text: str | None) -> str | None:
    """The key of a subscription in a URL, a path or an identifier; None where there is none."""
    found = _KEY_IN_TEXT.search(text.strip()) if text else None
    return found[1].lower() if found else None


def key_named(text: str | None) -> str | None:
    """The key of a mailbox in a peer's text: alone, as a ``urn:uuid:``, or in an address."""
    text = (text or "").strip()
    bare = _BARE_KEY.fullmatch(text)
    if bare is not None:
        return bare[1].lower()
    resource = resource_at(text)
    return resource.key if resource is not None and resource.kind in MAILBOXES else None


def mailbox_key(address: str, references: Sequence[bytes] = ()) -> str | None:
    """The key of the mailbox that an endpoint reference leads to; None where it leads to none.

    Whether *address* is this gateway's is for the caller to know. At the address of a message box
    service a reference property or parameter names the box.
    """
    resource = resource_at(address)
    if resource is None or resource.kind not in MAILBOXES:
        return None
    if resource.key is None:
        return next(filter(None, map(key_named, boxes_named_by(references))), None)
    return resource.key
