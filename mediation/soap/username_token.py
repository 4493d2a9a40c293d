"""The header block by which a client says who it is: UsernameToken of WS-Security (OASIS Web
Services Security UsernameToken Profile 1.0, section 3.1), with a digest of the password.
"""

from base64 import b64encode
from datetime import datetime
from hashlib import sha1

from mediation.model.expiry import format_seconds
from mediation.names import WSSE, WSU
from mediation.soap.envelopes import xml_text
from mediation.soap.splicing import add_header_blocks

PASSWORD_DIGEST = (
    "http://docs.oasis-open.org/wss/2004/01/"
    "oasis-200401-wss-username-token-profile-1.0#PasswordDigest"
)
BASE_64 = (
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-soap-message-security-1.0#Base64Binary"
)


def password_digest(nonce: bytes, created: str, password: str) -> str:
    """Base64(SHA-1(nonce + created + password)), as the profile has it."""
    octets = nonce + created.encode() + password.encode()
    return b64encode(sha1(octets, usedforsecurity=False).digest()).decode()


def add_username_token(
    envelope: bytes, user: str, password: str, *, nonce: bytes, created: datetime
) -> bytes:
    """Put ``wsse:Security`` into *envelope*, before all other header blocks.

    Args:
        nonce: Bytes that no other message has.
        created: The time, by the clock of who reads it.

    Raises:
        ValueError: It is no envelope.
    """
    at = format_seconds(created)
    return add_header_blocks(
        envelope,
        (
            f'<wsse:Security xmlns:wsse="{WSSE}" xmlns:wsu="{WSU}"><wsse:UsernameToken>'
            f"<wsse:Username>{xml_text(user)}</wsse:Username>"
            f'<wsse:Password Type="{PASSWORD_DIGEST}">{password_digest(nonce, at, password)}'
            f'</wsse:Password><wsse:Nonce EncodingType="{BASE_64}">{b64encode(nonce).decode()}'
            f"</wsse:Nonce><wsu:Created>{at}</wsu:Created></wsse:UsernameToken></wsse:Security>"
        ).encode(),
    )
