"""The digest that a Possession has of what it is sent with, so that nobody on the way puts anything
else beside the proof.

| sent with                   | SHA-256 of                                                       |
|-----------------------------|------------------------------------------------------------------|
| an event, SOAP or native    | its payload, in canonical form; data that is not XML as it is;    |
|                             | then the SHA-256 of each attachment                              |
| another request in SOAP     | the Body, in canonical form                                      |
| a request in JSON           | the members without ``tdn_...``, sorted by name, without blanks  |

The canonical form is Canonical XML 1.0, inclusive and without comments: it has the bindings of all
prefixes, since a filter or a text may use them. The digest is written in base64.
"""

import base64
import hashlib
import json
from collections.abc import Iterable
from typing import Any

from lxml import etree

from filters import Reason
from filters.documents import parse_document, parse_own
from mediation.model.errors import MediationError
from mediation.model.messages import Notification
from mediation.packaging.data import unwrap
from mediation.soap.envelopes import octets_of, read_envelope

_OF_PROOFS = "tdn_"


def event_digest(event: Notification) -> str:
    """The digest of an event: of its payload, and of what is attached to it.

    Raises:
        Refused: The payload cannot be read.
    """
    data = unwrap(event.payload)
    content = _canonical(event.payload) if data is None else data.content or b""
    attached = (hashlib.sha256(part.content).digest() for part in event.attachments)
    return _digest([content, *attached])


def body_digest(envelope: bytes) -> str:
    """The digest of the Body of a request in SOAP.

    Raises:
        Refused: It is not an envelope.
    """
    root = parse_document(envelope)
    body = next(root.iterchildren(f"{{{read_envelope(root).soap.value}}}Body"))
    return _digest([_canonical(octets_of(body))])


def json_digest(octets: bytes) -> str:
    """The digest of a request in JSON.

    Raises:
        Refused: It is not JSON.
    """
    try:
        said = json.loads(octets)
    except (ValueError, RecursionError):
        raise MediationError(Reason.MESSAGE_INVALID, "the request is not JSON") from None
    plain = json.dumps(
        _without_proof(said), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return _digest([plain.encode("utf-8", "surrogatepass")])


def _without_proof(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_proof(member)
            for name, member in value.items()
            if not name.startswith(_OF_PROOFS)
        }
    return [_without_proof(each) for each in value] if isinstance(value, list) else value


def _canonical(octets: bytes) -> bytes:
    try:
        root = parse_own(octets)
    except etree.XMLSyntaxError:
        raise MediationError(Reason.NOT_XML, "the payload is not well-formed") from None
    return etree.tostring(root, method="c14n", exclusive=False, with_comments=False)


def _digest(parts: Iterable[bytes]) -> str:
    found = hashlib.sha256()
    for each in parts:
        found.update(each)
    return base64.b64encode(found.digest()).decode()
