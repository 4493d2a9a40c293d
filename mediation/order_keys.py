"""Order by key: messages of one key in their order, and those of different keys side by side.

A subscriber that wants that says by ``OrderKey`` in the namespace `mediation.names.DRAGOMAN_POLICY`
what the key of a message is:

    property:NAME    the value of one of its properties
    topic            its topic

Messages without the property, or without a topic, are those of one key. It stands where
``Assurance`` may, as `mediation.start_positions` says.
"""

from collections.abc import Iterable
from hashlib import sha256

from lxml import etree

from filters import Reason, quoted
from mediation import names
from mediation.model.delivery_modes import DeliveryMode, Mode, Oversize
from mediation.model.errors import MediationError
from mediation.model.messages import Notification
from mediation.soap.envelopes import text_of, xml_text
from mediation.soap.policy_assertions import assertions_in

ORDER_KEY = f"{{{names.DRAGOMAN_POLICY}}}OrderKey"
TOPIC = "topic"
PROPERTY = "property:"
LONGEST = 256
"""Characters of what names a key."""
_SHORT = 64
"""Characters of a key that is kept as it is; of a longer one a hash is."""


def key_of(order_key: str, notification: Notification) -> str:
    """The key of a message, where *order_key* says what that is."""
    if order_key == TOPIC:
        key = "" if notification.topic is None else str(notification.topic)
    else:
        key = notification.properties.get(order_key.removeprefix(PROPERTY), "")
    if len(key) > _SHORT or not key.isprintable():  # Databases take no NUL, nor half characters.
        return f"#{sha256(key.encode(errors='surrogatepass')).hexdigest()[: _SHORT - 1]}"
    return key


def read_order_key(parts: Iterable[etree._Element], mode: DeliveryMode) -> str:
    """Read what `ORDER_KEY` among *parts* of a Subscribe says; empty where there is none.

    Raises:
        MediationError: ``POLICY_UNSUPPORTED``: it names no key, or deliveries in *mode* go one
            after the other.
    """
    asked = list(map(text_of, assertions_in(parts, ORDER_KEY)))
    if not asked:
        return ""
    if len(asked) > 1:
        raise MediationError(Reason.POLICY_UNSUPPORTED, "Subscribe has several keys of its order.")
    return order_key_of(asked[0], mode)


def order_key_of(text: str, mode: DeliveryMode) -> str:
    """What *text* names as the key of an order, where deliveries in *mode* can have one.

    Raises:
        MediationError: ``POLICY_UNSUPPORTED``, as of `read_order_key`.
    """
    name = text.removeprefix(PROPERTY)
    named = text == TOPIC or (text.startswith(PROPERTY) and name.strip() == name != "")
    if not named or len(text) > LONGEST:
        raise MediationError(
            Reason.POLICY_UNSUPPORTED,
            f"{quoted(text)} is not the key of an order; use topic, or property:NAME.",
        )
    one_by_one = mode.reliable or mode.bookmarks or mode.at_most_once
    if mode.mode is not Mode.PUSH or one_by_one or mode.oversize is Oversize.CANCEL:
        raise MediationError(
            Reason.POLICY_UNSUPPORTED,
            "Order by key goes with deliveries that are pushed one by one, and neither numbered, "
            "acknowledged nor wanted at most once.",
        )
    return text


def write_order_key(order_key: str) -> str:
    """Write what asks for the order of *order_key*; `read_order_key` is the inverse."""
    namespace = names.DRAGOMAN_POLICY
    return f'<drg:OrderKey xmlns:drg="{namespace}">{xml_text(order_key)}</drg:OrderKey>'
