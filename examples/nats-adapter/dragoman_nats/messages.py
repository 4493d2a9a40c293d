"""A notification as a message of NATS: what `mediation.packaging.records` says, in headers.

header          carries
content-type    application/xml, or multipart/related with attachments
Nats-Msg-Id     a hash of the publisher and its id: two messages of a stream with the same are one
others          all properties of the record

Values are percent-encoded as in CloudEvents' binding for HTTP, section 3.1.3.2.
"""

import string
from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from urllib.parse import quote, unquote

from adapters.broker.native import notification_of
from filters import Topic
from mediation.model.messages import Notification
from mediation.packaging.records import CONTENT_TYPE, encode

XML = "application/xml"
MESSAGE_ID = "Nats-Msg-Id"
_OF_NATS = ("Status", "Description")
"""Headers that mean something to NATS, beside those that begin with ``Nats-``."""
_PRINTABLE = "".join(set(string.punctuation) - set('"%'))
"""Characters that a value has unescaped, beside letters and digits."""


class NeverTaken(Exception):
    """The server will never take a message."""


def write(notification: Notification, *, max_octets: int) -> tuple[dict[str, str], bytes]:
    """*notification* as headers and body.

    Raises:
        NeverTaken: Together they exceed *max_octets*.
        Refused: Its references are too large.
    """
    record = encode(notification, reserved=_OF_NATS)
    headers = {name: quote(value, _PRINTABLE) for name, value in record.properties.items()}
    headers.setdefault(CONTENT_TYPE, XML)
    identity = f"{notification.source}\0{notification.id}".encode(errors="surrogatepass")
    headers[MESSAGE_ID] = blake2b(identity, digest_size=16).hexdigest()
    octets = len("NATS/1.0\r\n\r\n") + sum(
        len(f"{name}: {value}\r\n") for name, value in headers.items()
    )
    if octets + len(record.body) > max_octets:
        raise NeverTaken(f"the notification exceeds the server's max_payload, {max_octets}")
    return headers, record.body


def read(
    body: bytes,
    headers: Mapping[str, str],
    *,
    id: str,
    source: str,
    time: datetime,
    topic: Topic | None,
) -> Notification:
    """The notification in a message: any message is one. What its headers do not say, for it comes
    from a program that knows no Dragoman, the arguments do."""
    texts = {name: unquote(value) for name, value in headers.items()}
    media_type = next((texts[name] for name in texts if name.lower() == CONTENT_TYPE), None)
    properties = {
        name: value
        for name, value in texts.items()
        if not name.startswith("Nats-") and name not in _OF_NATS and name.lower() != CONTENT_TYPE
    }
    notification, _forced = notification_of(
        body, properties, media_type, id=id, source=source, time=time, topic=topic
    )
    return notification
