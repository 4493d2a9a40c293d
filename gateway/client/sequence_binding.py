"""The binding of a client's sequences (WS-ReliableMessaging 1.1, section 6): to the certificate of
a key that signs every message of theirs, or to the one that the client shows in TLS."""

from collections.abc import Callable
from datetime import UTC, datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Literal, TypeAlias

from filters import Refused
from gateway.client.errors import GatewayError
from gateway.reliability.party import SequenceBinding
from mediation.model.errors import MediationError
from mediation.reliable_messaging import Rm

if TYPE_CHECKING:  # It needs what only who signs has to have.
    from mediation.ws_security import SigningKey, Trust

BoundTo: TypeAlias = 'SigningKey | Literal["tls"] | None'
"""A key with its certificate, ``tls``, or None: nothing."""
SignEnvelope: TypeAlias = Callable[[bytes], bytes]
"""Signs an envelope.

Raises:
    ValueError: It is none, is not in UTF-8, or has a Security header already.
"""
CheckSignature: TypeAlias = Callable[[bytes], None]
"""Checks by whom an envelope is signed.

Raises:
    GatewayError: It is not, or by somebody who is not trusted, or something else was signed.
"""


def binding_of(bound_to: BoundTo, rm: Rm) -> SequenceBinding:
    """What CreateSequence asks for.

    Raises:
        ValueError: *rm* has no word for it.
    """
    if bound_to is None:
        return SequenceBinding()
    if isinstance(bound_to, str):
        if bound_to != "tls":
            raise ValueError(f"bound_to: {bound_to!r} is neither a key nor 'tls'")
        if "UsesSequenceSSL" not in rm.rules.elements:
            raise ValueError(f"bound_to: WS-ReliableMessaging {rm.number} binds nothing to TLS")
        return SequenceBinding(tls=True)
    from mediation.ws_security import write_token_reference

    return SequenceBinding(write_token_reference(bound_to.certificate))


def signing_by(bound_to: BoundTo) -> SignEnvelope | None:
    """What signs each message, anew whenever it is sent: a signature is good for minutes."""
    if bound_to is None or isinstance(bound_to, str):
        return None
    from mediation.ws_security import sign_envelope

    key = bound_to
    return lambda envelope: sign_envelope(
        envelope, key, unique=f"d{token_hex(8)}", now=datetime.now(UTC)
    )


def checking_by(trust: "Trust | None", bound_to: BoundTo) -> CheckSignature | None:
    """What checks the answers about sequences: whoever is in between could acknowledge messages
    that never arrived, and they would not be sent again.

    Raises:
        ValueError: Messages are not signed, and so are no answers.
    """
    if trust is None:
        return None
    if bound_to is None or isinstance(bound_to, str):
        raise ValueError("trust: answers are signed where messages are: bound_to must be a key")
    from mediation.ws_security import verify_message

    def check(envelope: bytes) -> None:
        try:
            signed = verify_message(envelope, trust, now=datetime.now(UTC))
        except (MediationError, Refused) as error:
            raise GatewayError(f"the answer is not believed: {error}") from error
        if signed is None:
            raise GatewayError("the answer is not believed: it is not signed")

    return check
