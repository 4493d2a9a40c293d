"""Signatures of events by their publishers: they survive brokers, gateways and translation.

A signature is a JWS with detached content (RFC 7515, appendix F), in compact form::

    BASE64URL(header) ".." BASE64URL(signature)

===============  ============================================================================
``alg``          ES256, ES384, ES512 or PS256, as the key is
``typ``          ``event+jws``
``x5c``          the signer's certificate, then intermediates; or
``kid``          the identifier of the signer's key, whose certificate the reader has
``id``           the event's id, by which a repetition is known
``topic``        in Clark notation; missing where the event has none
``time``         when it was signed, with an offset (RFC 3339)
``cty``          ``xml``, or the media type of data that is not XML; missing: no data
``ns``           of XML: the prefixes that its publisher declared, see `canonical_content`
``attachments``  the SHA-256 of each attachment in base64url; missing where there are none
===============  ============================================================================

What is signed is ``BASE64URL(header) "." BASE64URL(content)``. The content is not in it, so that
the event stays what it is, and every library of JWS can check it that is given the content.

XML Signature is not used for it: beside JWS, which properties of AMQP and JMS and attributes of
CloudEvents can hold, it would say the same in ten times the bytes, and of XML alone.
"""

from mediation.event_signatures.content import canonical_content
from mediation.event_signatures.signing import EventSigner, read_signer
from mediation.event_signatures.verification import (
    EventSignature,
    EventVerifier,
    SignatureInvalid,
    TrustedSigners,
    read_trusted_signers,
    topic_agrees,
)

__all__ = [
    "EventSignature",
    "EventSigner",
    "EventVerifier",
    "SignatureInvalid",
    "TrustedSigners",
    "canonical_content",
    "read_signer",
    "read_trusted_signers",
    "topic_agrees",
]
