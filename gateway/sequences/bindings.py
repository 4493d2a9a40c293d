"""What a sequence is bound to (WS-ReliableMessaging 1.1, section 6): the X.509 certificate whose
key signed CreateSequence, or the certificate that its sender showed in TLS.

``UsesSequenceSSL`` speaks of the TLS session. That of TLS 1.3 is a connection, and each message
comes on whichever is open, also after a restart and at another replica: of a session, what all have
in common is the certificate whose key the client proves in each handshake. So a sequence is bound
to that, and who showed none is refused one. A renewed certificate is another one, also with the
same key.
"""

import hashlib

from gateway.exchange import Inbound
from gateway.reliability.destination import NO_PROOFS, Proofs
from mediation.reliable_messaging import (
    Bound,
    CreateSequence,
    FaultName,
    ReliableMessage,
    RmFault,
    RmRefused,
)


def proofs_of(inbound: Inbound) -> Proofs:
    """What *inbound* proves, of all that a sequence can be bound to."""
    found = set()
    if inbound.signer is not None:
        found.add(_word(b"x509", inbound.signer))
    if inbound.certificate is not None:
        found.add(_word(b"tls", inbound.certificate))
    return frozenset(found)


def wanted_binding(
    said: ReliableMessage, asked: CreateSequence, inbound: Inbound, required: Bound
) -> Proofs:
    """What the sequence that *inbound* asks for is to be bound to; nothing where it does not say.

    Raises:
        RmRefused: CreateSequenceRefused: it is to be bound to something that *inbound* does not
            prove, or not to what is *required*.
    """
    if required is Bound.TOKEN and asked.token is None:
        raise _refused(
            "Sequences must be bound here to the certificate whose key signs CreateSequence: send "
            "a SecurityTokenReference in it, and UsesSequenceSTR."
        )
    if required is Bound.TLS and not said.uses_tls:
        raise _refused(
            "Sequences must be bound here to the certificate that the client shows in TLS: send "
            "UsesSequenceSSL with CreateSequence."
        )
    found = set(NO_PROOFS)
    if said.uses_token and asked.token is None:
        raise _refused("UsesSequenceSTR goes with a SecurityTokenReference in CreateSequence.")
    if asked.token is not None:
        if inbound.signer is None or not inbound.names_signer:
            raise _refused(
                "A sequence is bound to the X.509 certificate whose key signs CreateSequence: the "
                "SecurityTokenReference in it must refer to that."
            )
        found.add(_word(b"x509", inbound.signer))
    if said.uses_tls:
        if inbound.certificate is None:
            raise _refused(
                "A sequence is bound to the certificate that its client shows in TLS: send "
                "CreateSequence over TLS, with one."
            )
        found.add(_word(b"tls", inbound.certificate))
    return frozenset(found)


def is_bound_to_key(token: bytes | None) -> bool:
    """Return True if the messages of a sequence that is bound to *token* are signed."""
    return any(word.startswith(b"x509:") for word in (token or b"").split())


def _word(kind: bytes, certificate: bytes) -> bytes:
    return b"%b:%b" % (kind, hashlib.sha256(certificate).hexdigest().encode())


def _refused(why: str) -> RmRefused:
    return RmRefused(RmFault(FaultName.CREATE_SEQUENCE_REFUSED, reason=why), why)
