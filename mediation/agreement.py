"""The question whether a consumer agrees to get notifications, of Dragoman itself: a request with
WS-Addressing, whose answer repeats what nobody knows who has not read the request.

    POST /consumer                          200
    wsa:Action       .../Ask                wsa:Action       .../Agree
    wsa:MessageID    urn:uuid:1             wsa:RelatesTo    urn:uuid:1
    <Ask><Challenge>5f...</Challenge>       <Agree><Challenge>5f...</Challenge></Agree>
         <Callback>http://...</Callback>
    </Ask>
"""

from dataclasses import dataclass

from lxml import etree

from filters import Refused, parse_document
from mediation import names
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.soap.addressing import reference_headers, write_headers
from mediation.soap.envelopes import (
    Envelope,
    http_headers,
    namespace_of,
    read_envelope,
    text_of,
    write_envelope,
    xml_text,
)

ASK = f"{names.DRAGOMAN_AGREEMENT}/Ask"
AGREE = f"{names.DRAGOMAN_AGREEMENT}/Agree"
LONGEST = 200
"""Characters of a challenge that is answered."""
_CHALLENGE = f"{{{names.DRAGOMAN_AGREEMENT}}}Challenge"


@dataclass(frozen=True, slots=True)
class Challenge:
    """What a consumer is asked.

    Attributes:
        message_id: Of the request, to which the answer relates.
        secret: What the answer repeats.
        callback: A URL at which a person may agree instead.
    """

    message_id: str
    secret: str
    callback: str


Headers = tuple[tuple[str, str], ...]
"""Fields of a message of HTTP."""


def write_challenge(
    soap: Soap, wsa: Wsa, consumer: EndpointReference, challenge: Challenge
) -> tuple[Headers, bytes]:
    """Write the request: the fields of HTTP, and the envelope."""
    head = write_headers(wsa, action=ASK, to=consumer.address, message_id=challenge.message_id)
    reply_to = f"<wsa:ReplyTo><wsa:Address>{wsa.anonymous}</wsa:Address></wsa:ReplyTo>"
    parameters = reference_headers(consumer, wsa).decode()
    body = _body(
        "Ask",
        f"<d:Challenge>{xml_text(challenge.secret)}</d:Challenge>"
        f"<d:Callback>{xml_text(challenge.callback)}</d:Callback>",
    )
    envelope = write_envelope(soap, wsa, f"{head}{reply_to}{parameters}", body)
    return http_headers(soap, ASK), envelope


def agrees(answer: bytes, challenge: Challenge) -> bool:
    """Return True if *answer* is an envelope that agrees to *challenge*."""
    try:
        envelope = read_envelope(parse_document(answer))
    except Refused:
        return False
    return (
        _header(envelope, "RelatesTo") == challenge.message_id
        and _challenge_in(envelope, "Agree") == challenge.secret
    )


def answer_challenge(octets: bytes) -> tuple[dict[str, str], bytes] | None:
    """Agree to the question that *octets* are: the headers of HTTP, and the envelope. None where
    they are something else."""
    if names.DRAGOMAN_AGREEMENT.encode() not in octets:
        return None
    try:
        envelope = read_envelope(parse_document(octets))
    except Refused:
        return None
    secret, message_id = _challenge_in(envelope, "Ask"), _header(envelope, "MessageID")
    wsa = next((one for one in Wsa if _is_in(envelope, one)), None)
    if not secret or len(secret) > LONGEST or message_id is None or wsa is None:
        return None
    head = write_headers(wsa, action=AGREE, to=wsa.anonymous, relates_to=message_id)
    body = _body("Agree", f"<d:Challenge>{xml_text(secret)}</d:Challenge>")
    return dict(http_headers(envelope.soap, AGREE)), write_envelope(envelope.soap, wsa, head, body)


def _body(name: str, content: str) -> str:
    return f'<d:{name} xmlns:d="{names.DRAGOMAN_AGREEMENT}">{content}</d:{name}>'


def _is_in(envelope: Envelope, wsa: Wsa) -> bool:
    return any(namespace_of(block) == wsa.value for block in envelope.headers)


def _header(envelope: Envelope, name: str) -> str | None:
    """The text of a header block of any version of WS-Addressing."""
    expanded = {f"{{{wsa.value}}}{name}" for wsa in Wsa}
    return next((text_of(one) for one in envelope.headers if one.tag in expanded), None)


def _challenge_in(envelope: Envelope, name: str) -> str | None:
    """The challenge in the body, which is an element called *name*; None where it is another."""
    found: etree._Element | None = envelope.body[0] if len(envelope.body) == 1 else None
    if found is None or found.tag != f"{{{names.DRAGOMAN_AGREEMENT}}}{name}":
        return None
    secret = found.find(_CHALLENGE)
    return None if secret is None else text_of(secret)
