"""Answers challenges of HTTP: Basic (RFC 7617) and Digest (RFC 7616). Sans-I/O.

It is our own because libraries have it inside of a client of theirs.
"""

import re
import secrets
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import md5, new, sha256
from urllib.parse import quote

LONGEST = 4096
"""Characters of a challenge that is read."""
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_QUOTED = r'"(?:\\.|[^"\\])*"'
_ITEM = re.compile(rf'(?:{_QUOTED}|[^",])+')
_PARAMETER = re.compile(rf"(?:({_TOKEN})[ \t]+)?({_TOKEN})[ \t]*=[ \t]*({_QUOTED}|{_TOKEN})")
_SCHEME = re.compile(rf"({_TOKEN})(?:[ \t]+\S*)?")
_ESCAPED = re.compile(r"\\(.)")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_HASHES: Mapping[str, Callable[[bytes], str]] = {
    "MD5": lambda octets: md5(octets, usedforsecurity=False).hexdigest(),
    "SHA-256": lambda octets: sha256(octets).hexdigest(),
    "SHA-512-256": lambda octets: new("sha512_256", octets).hexdigest(),
}
"""The algorithms of Digest, the strongest last."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """One challenge of a server: its *scheme* in lower case, and its parameters by their names in
    lower case."""

    scheme: str
    parameters: Mapping[str, str]

    @property
    def strength(self) -> int:
        """How much the answer keeps secret; 0: it cannot be answered."""
        if self.scheme == "basic":
            return 1
        algorithm, _ = _algorithm_of(self)
        if self.scheme != "digest" or "nonce" not in self.parameters or algorithm not in _HASHES:
            return 0
        return 2 + list(_HASHES).index(algorithm)


def read_challenges(text: str) -> tuple[Challenge, ...]:
    """Read the field WWW-Authenticate (RFC 9110, section 11.6.1); what is malformed is left out."""
    found: list[tuple[str, dict[str, str]]] = []
    if len(text) > LONGEST or _CONTROLS.search(text):
        return ()
    for item in map(str.strip, _ITEM.findall(text)):
        parameter, alone = _PARAMETER.fullmatch(item), _SCHEME.fullmatch(item)
        if parameter is not None:
            scheme, name, value = parameter.groups()
            if scheme is not None:
                found.append((scheme.lower(), {}))
            if value.startswith('"'):
                value = _ESCAPED.sub(r"\1", value[1:-1])
            if found:
                found[-1][1].setdefault(name.lower(), value)
        elif alone is not None:
            found.append((alone[1].lower(), {}))
    return tuple(Challenge(scheme, parameters) for scheme, parameters in found)


def strongest(challenges: tuple[Challenge, ...]) -> Challenge | None:
    """The challenge to answer; None where none can be."""
    best = max(challenges, key=lambda one: one.strength, default=None)
    return best if best is not None and best.strength else None


class Authorization:
    """Answers one challenge, of any number of requests (RFC 7616, section 3.4).

    Args:
        cnonce: The client's nonce of Digest; a new one, where none is given.
    """

    def __init__(
        self, challenge: Challenge, user: str, password: str, *, cnonce: str | None = None
    ) -> None:
        self.challenge = challenge
        self._user = user
        self._password = password
        self._cnonce = cnonce or secrets.token_urlsafe(24)
        self._count = 0

    def __repr__(self) -> str:
        return f"Authorization({self.challenge.scheme})"

    def header(self, method: str, uri: str, body: bytes = b"") -> str:
        """The value of Authorization for a request; *uri* is its target, as it is written."""
        if self.challenge.scheme == "basic":
            return f"Basic {b64encode(f'{self._user}:{self._password}'.encode()).decode()}"
        return f"Digest {', '.join(self._parameters(method, uri, body))}"

    def _parameters(self, method: str, uri: str, body: bytes) -> list[str]:
        given = self.challenge.parameters
        realm, nonce, qop = given.get("realm", ""), given["nonce"], _protection(given)
        algorithm, session = _algorithm_of(self.challenge)
        self._count += 1
        count = f"{self._count:08x}"
        digest = _HASHES[algorithm]

        def hashed(*parts: str) -> str:
            return digest(":".join(parts).encode())

        secret = hashed(self._user, realm, self._password)
        if session:
            secret = hashed(secret, nonce, self._cnonce)
        request = hashed(method, uri, *([digest(body)] if qop == "auth-int" else []))
        between = (nonce, count, self._cnonce, qop) if qop else (nonce,)
        written = [
            *self._named(hashed, realm),
            f"realm={_quoted(realm)}",
            f"uri={_quoted(uri)}",
            f"nonce={_quoted(nonce)}",
            f'response="{hashed(secret, *between, request)}"',
        ]
        if "algorithm" in given:
            written.append(f"algorithm={algorithm}{'-sess' if session else ''}")
        if qop or session:
            written += [f"nc={count}", f'cnonce="{self._cnonce}"']
        if qop:
            written.append(f"qop={qop}")
        if "opaque" in given:
            written.append(f"opaque={_quoted(given['opaque'])}")
        return written

    def _named(self, hashed: Callable[[str, str], str], realm: str) -> list[str]:
        """The parameters that name the user."""
        if self.challenge.parameters.get("userhash", "").lower() == "true":
            return [f'username="{hashed(self._user, realm)}"', "userhash=true"]
        if self._user.isascii():
            return [f"username={_quoted(self._user)}"]
        return [f"username*=UTF-8''{quote(self._user, safe='')}"]


def _algorithm_of(challenge: Challenge) -> tuple[str, bool]:
    """The algorithm of a challenge, and whether it is that of a session."""
    said = challenge.parameters.get("algorithm", "MD5").upper()
    return said.removesuffix("-SESS"), said.endswith("-SESS")


def _protection(given: Mapping[str, str]) -> str:
    """What is protected: ``auth``, ``auth-int``, or nothing, as before RFC 2617."""
    offered = {word.strip().lower() for word in given.get("qop", "").split(",")}
    return next((one for one in ("auth", "auth-int") if one in offered), "")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
