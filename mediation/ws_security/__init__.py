"""WS-Security on messages: X.509 signatures, and encryption of the Body; what comes may have
encrypted header blocks, too.

OASIS, "Web Services Security: SOAP Message Security Version 1.1.1" (18 May 2012), and its "X.509
Certificate Token Profile Version 1.1.1".

libxml2 canonicalises, `cryptography` signs, verifies and encrypts; here is the one shape of XML
Signature and XML Encryption that messages need, so nothing of what else they can say has to be
decided. Tests compare it with xmlsec1, python-xmlsec and gSOAP.
"""

from mediation.ws_security.algorithms import USUAL, Algorithms
from mediation.ws_security.encryption import (
    Decrypted,
    DecryptionKeys,
    check_recipient,
    decrypt_message,
    decryption_failed,
    encrypt_envelope,
    read_decryption_keys,
    read_recipient,
)
from mediation.ws_security.key_info import write_token_reference
from mediation.ws_security.signatures import SignedMessage, verify_message, verify_when_made
from mediation.ws_security.signing import (
    SigningKey,
    has_canonical_form,
    has_security,
    may_lack_canonical_form,
    read_key_and_certificate,
    read_signing_key,
    sign_envelope,
)
from mediation.ws_security.trust import Trust, read_trust

__all__ = [
    "USUAL",
    "Algorithms",
    "Decrypted",
    "DecryptionKeys",
    "SignedMessage",
    "SigningKey",
    "Trust",
    "check_recipient",
    "decrypt_message",
    "decryption_failed",
    "encrypt_envelope",
    "has_canonical_form",
    "has_security",
    "may_lack_canonical_form",
    "read_decryption_keys",
    "read_key_and_certificate",
    "read_recipient",
    "read_signing_key",
    "read_trust",
    "sign_envelope",
    "verify_message",
    "verify_when_made",
    "write_token_reference",
]
