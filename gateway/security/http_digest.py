"""Digest access authentication of requests that come in (RFC 7616). Sans-I/O.

    WWW-Authenticate: Digest realm="dragoman", qop="auth", algorithm=SHA-256, nonce="N", ...
    Authorization: Digest username="camera-7", realm="dragoman", nonce="N", uri="/soap",
        algorithm=SHA-256, qop=auth, nc=00000001, cnonce="C",
        response="H(H(user:realm:password):N:00000001:C:auth:H(POST:/soap))"

A nonce is the time at which it was made, and a MAC over that: nothing is kept of it before somebody
who knows a password has used it, and all gateways that have the key know it, over restarts, too.

    0        6               14                              30 octets: 40 characters of base64url
    +--------+---------------+-------------------------------+
    | time   | chance        | HMAC-SHA-256, the first 16    |
    +--------+---------------+-------------------------------+

How often a nonce was used (``nc``) is for the caller to count. Of what a server may choose this
takes ``qop=auth`` alone: the digest of a body (``auth-int``) would be computed before it is known
who sent that, and without ``qop`` nothing could be counted. Names are not hashed (``userhash``).
"""

import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5, sha256
from urllib.parse import unquote_to_bytes

REALM = "dragoman"
LIFE = 300.0
"""Seconds for which a nonce counts, and its uses are remembered for longer."""
AHEAD = 60.0
"""Seconds that the clock of the gateway that made it may be ahead."""
MAX_LENGTH = 8192
"""Characters of the parameters of credentials."""
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_CONTROL = r"\x00-\x08\x0a-\x1f\x7f"
_QUOTED = rf'"((?:[^"\\{_CONTROL}]|\\[^{_CONTROL}])*+)"'
_PARAMETER = re.compile(
    rf"({_TOKEN})[ \t]*+=[ \t]*+(?:{_QUOTED}|({_TOKEN}))[ \t]*+(?:,[ \t,]*+|\Z)"
)
_ESCAPED = re.compile(r"\\(.)")
_NONCE = re.compile(r"[A-Za-z0-9_-]{40}")
_COUNT = re.compile(r"[0-9a-fA-F]{8}")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{1,128}")
_ORIGIN = re.compile(r"https?://[^/?#]*+", re.IGNORECASE)
_HASHES: Mapping[str, Callable[[bytes], str]] = {
    "SHA-256": lambda octets: sha256(octets).hexdigest(),
    "MD5": lambda octets: md5(octets, usedforsecurity=False).hexdigest(),
}
"""The algorithms that are offered, the one that is preferred first (RFC 7616, section 3.7). Many
devices know MD5 alone. What it is known to be weak at, collisions, forges no response; passwords
are guessed from a response by either at nearly the same cost, so both belong into TLS."""


class CredentialsUnreadable(ValueError):
    """Credentials are no Digest that is taken here; the text says why."""


@dataclass(slots=True)
class HttpRequest:
    """One request over HTTP, whoever asks for its sender how often.

    Attributes:
        method: As it was sent.
        target: Its path and query as they were sent, in Latin-1.
        public_path: The path of the public URL: a proxy that cuts it off changes the target.
        stale: Its credentials were right, but for their nonce.
        proved: What was verified of it, because its credentials count once.
    """

    method: str
    target: str
    public_path: str = ""
    stale: bool = False
    proved: "ProvedDigest | None" = None

    def is_for(self, uri: str) -> bool:
        """Return True if *uri*, of credentials, is the target: its path and query, or a URL that
        has them, as clients of a proxy write it."""
        origin = _ORIGIN.match(uri)
        asked = uri[origin.end() if origin is not None else 0 :].removesuffix("?")
        target = self.target.removesuffix("?")
        return asked in (target, self.public_path + target)


@dataclass(frozen=True, slots=True)
class ProvedDigest:
    """Credentials of a request that were right.

    Attributes:
        text: The credentials.
        user: The user's name.
        kept: Its password, encrypted.
    """

    text: str = field(repr=False)
    user: str
    kept: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class DigestCredentials:
    """The parameters of ``Authorization: Digest``, in Latin-1 but for the user's name.

    Attributes:
        nc: The count of requests with the nonce, as it was written: it is a part of the response.
    """

    user: str
    realm: str
    nonce: str
    uri: str
    algorithm: str
    nc: str
    cnonce: str
    response: str

    @property
    def count(self) -> int:
        return int(self.nc, 16)

    def is_of(self, password: str, method: str) -> bool:
        """Return True if the response is that of *password* for a request with *method*."""
        digest = _HASHES[self.algorithm]
        secret = digest(f"{self.user}:{self.realm}:{password}".encode())
        request = digest(f"{method}:{self.uri}".encode("latin-1"))
        text = f"{secret}:{self.nonce}:{self.nc}:{self.cnonce}:auth:{request}"
        return hmac.compare_digest(digest(text.encode("latin-1")), self.response)


def read_digest(text: str) -> DigestCredentials:
    """Read the parameters of credentials: what stands behind ``Digest`` in Authorization.

    Args:
        text: In Latin-1.

    Raises:
        CredentialsUnreadable: They have another form, or want what is not offered.
    """
    given = _parameters(text)
    if given.get("qop", "").lower() != "auth":
        raise CredentialsUnreadable("The credentials have no qop=auth.")
    algorithm = given.get("algorithm", "MD5").upper()
    if algorithm not in _HASHES or given.get("userhash", "false").lower() != "false":
        raise CredentialsUnreadable("The credentials are of a kind of Digest that was not offered.")
    try:
        found = DigestCredentials(
            user=_user_of(given),
            realm=given["realm"],
            nonce=given["nonce"],
            uri=given["uri"],
            algorithm=algorithm,
            nc=given["nc"],
            cnonce=given["cnonce"],
            response=given["response"].lower(),
        )
    except (KeyError, ValueError) as error:
        raise CredentialsUnreadable("The credentials cannot be read.") from error
    if not _COUNT.fullmatch(found.nc) or not found.count or not found.cnonce:
        raise CredentialsUnreadable("The credentials count no request: nc and cnonce.")
    if not _HEXADECIMAL.fullmatch(found.response):
        raise CredentialsUnreadable("The credentials cannot be read.")
    if found.realm != REALM:
        raise CredentialsUnreadable(f'The credentials are not of realm "{REALM}".')
    return found


def challenges(nonce: str, *, stale: bool) -> Sequence[str]:
    """The challenges with *nonce*, each for a field ``WWW-Authenticate`` of its own: httpx and
    aiohttp look at the beginning of a field alone.

    Args:
        stale: The password was right: the client need not ask anybody for another.
    """
    end = ", stale=true" if stale else ""
    return [
        f'Digest realm="{REALM}", qop="auth", algorithm={algorithm}, nonce="{nonce}", '
        f"charset=UTF-8{end}"
        for algorithm in _HASHES
    ]


class Nonces:
    """Makes nonces, and knows them again.

    Args:
        key: Of all gateways that take them.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def make(self, now: float) -> str:
        """A new nonce; *now* is in seconds since 1970."""
        begin = int(now * 1000).to_bytes(6, "big") + secrets.token_bytes(8)
        return urlsafe_b64encode(begin + self._mac(begin)).decode()

    def is_fresh(self, nonce: str, now: float) -> bool:
        """Return True if *nonce* was made with the key, less than `LIFE` ago."""
        if not _NONCE.fullmatch(nonce):
            return False
        octets = urlsafe_b64decode(nonce)
        begin, mac = octets[:14], octets[14:]
        if not hmac.compare_digest(mac, self._mac(begin)):
            return False
        return -AHEAD <= now - int.from_bytes(begin[:6], "big") / 1000 <= LIFE

    def _mac(self, begin: bytes) -> bytes:
        return hmac.digest(self._key, begin, "sha256")[:16]


def _parameters(text: str) -> Mapping[str, str]:
    """The parameters by their names in lower case.

    Raises:
        CredentialsUnreadable: They are too long, or not separated by commas; or one comes twice.
    """
    if len(text) > MAX_LENGTH:
        raise CredentialsUnreadable("The credentials are too long.")
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        parameter = _PARAMETER.match(text, at)
        if parameter is None:
            raise CredentialsUnreadable("The credentials cannot be read.")
        name, quoted, plain = parameter.groups()
        if name.lower() in found:
            raise CredentialsUnreadable(f"The credentials have {name[:20]} twice.")
        found[name.lower()] = plain if quoted is None else _ESCAPED.sub(r"\1", quoted)
        at = parameter.end()
    return found


def _user_of(given: Mapping[str, str]) -> str:
    """The user's name: as UTF-8, as the challenge asks for, or else in Latin-1; or as RFC 5987
    encodes it (``username*``).

    Raises:
        KeyError: There is none.
        ValueError: There are two, or it cannot be read.
    """
    extended = given.get("username*")
    if extended is None:
        octets = given["username"].encode("latin-1")
        try:
            return octets.decode()
        except UnicodeDecodeError:
            return octets.decode("latin-1")
    charset, _, encoded = extended.partition("'")
    if "username" in given or charset.upper() != "UTF-8":
        raise ValueError("two names, or one in another charset than UTF-8")
    return unquote_to_bytes(encoded.partition("'")[2]).decode()
