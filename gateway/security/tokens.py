"""Bearer tokens: signed JWTs (RFC 7519, RFC 8725) of issuers that the file of identities names.

Keys come from the issuer alone: what a token itself says of keys (``jku``, ``jwk``, ``x5u``,
``x5c``) refuses it, as does an extension that must be understood (``crit``).
"""

import base64
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joserfc import jwt
from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError, SecurityWarning
from joserfc.jwk import KeySet

from filters import Reason, Refused
from gateway.security.identities import Issuer

ALGORITHMS = ("RS256", "ES256", "EdDSA", "Ed25519")
LEEWAY = 60
"""Seconds by which clocks may differ."""
MAX_LENGTH = 16 * 1024
_OWN_KEYS = frozenset({"jku", "jwk", "x5u", "x5c", "crit"})


class TokenRefused(Refused):
    """A token proves nothing; the text says why in general words."""

    def __init__(self, why: str) -> None:
        super().__init__(Reason.NOT_IDENTIFIED, f"The token is not accepted: {why}.")


class UnknownKey(TokenRefused):
    """A token is signed by a key that is not known: the issuer may have a new one, by the name of
    a former one, too, or by none."""


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """What a token that was verified says.

    Attributes:
        until: When it expires, in seconds since 1970.
        tenant: The tenant that it names; None where its issuer's tokens name none.
        issued: When it was issued, in seconds since 1970; 0 where it does not say so.
    """

    name: str
    roles: frozenset[str]
    until: float
    tenant: str | None = None
    issued: float = 0.0


def is_token(text: str) -> bool:
    """Return True if *text* has the form of a signed JWT."""
    return text.count(".") == 2 and len(text) <= MAX_LENGTH


def issuer_of(token: str) -> str:
    """Return the issuer that *token* names, which is not verified yet.

    Raises:
        TokenRefused: It is no token of a kind that is taken.
    """
    header, payload, _ = token.split(".")
    if _OWN_KEYS & _json(header).keys():
        raise TokenRefused("it brings keys of its own, or extensions")
    issuer = _json(payload).get("iss")
    if not isinstance(issuer, str):
        raise TokenRefused("it names no issuer")
    return issuer


def verified_claims(
    token: str, issuer: Issuer, keys: KeySet, *, nonce: str | None = None
) -> Mapping[str, Any]:
    """Verify *token* of *issuer*, which has *keys*; what it says.

    Args:
        nonce: That of a login, where it is a token of identity for the console, which is another
            audience than the gateway's (OpenID Connect Core 1.0, section 3.1.3.7).

    Raises:
        UnknownKey: None of *keys* is the one that the token names, or that has signed it.
        TokenRefused: It proves nothing.
    """
    try:
        with warnings.catch_warnings():
            # The library warns of "EdDSA", the name that most issuers still write (RFC 9864).
            warnings.simplefilter("ignore", SecurityWarning)
            claims = jwt.decode(token, keys, algorithms=ALGORITHMS).claims
        jwt.JWTClaimsRegistry(
            leeway=LEEWAY,
            iss={"essential": True, "value": issuer.issuer},
            exp={"essential": True},
            **_expected(issuer, nonce),
        ).validate(claims)
    except InvalidKeyIdError as error:
        raise UnknownKey("its key is unknown") from error
    except BadSignatureError as error:
        raise UnknownKey("bad signature") from error
    except (JoseError, ValueError, TypeError) as error:
        code = getattr(error, "error", "invalid").replace("_", " ")
        raise TokenRefused(code) from error
    return claims


def lacking(claims: Mapping[str, Any], issuer: Issuer) -> list[str]:
    """The paths of claims that the row of *issuer* names, and that are not among *claims*."""
    named = (issuer.name, issuer.roles, issuer.tenant_claim)
    return [path for path in named if path is not None and claim(claims, path) is None]


def with_userinfo(
    claims: Mapping[str, Any], userinfo: Mapping[str, Any], issuer: Issuer
) -> Mapping[str, Any]:
    """*claims* of a token of identity, and of *userinfo* those that it lacks.

    Raises:
        TokenRefused: *userinfo* is of another user (OpenID Connect Core 1.0, section 5.3.2).
    """
    if "sub" not in claims or userinfo.get("sub") != claims["sub"]:
        raise TokenRefused("what its issuer says beside it is of another user")
    return {**claims, **{path: claim(userinfo, path) for path in lacking(claims, issuer)}}


def read_claims(claims: Mapping[str, Any], issuer: Issuer) -> TokenClaims:
    """Whom the verified *claims* of a token of *issuer* prove.

    Raises:
        TokenRefused: Nobody.
    """
    name = claim(claims, issuer.name)
    if not isinstance(name, str) or not name.isprintable() or not name.strip():
        raise TokenRefused(f"it has no {issuer.name}")
    tenant = None
    if issuer.tenant_claim is not None:
        tenant = claim(claims, issuer.tenant_claim)
        if not isinstance(tenant, str) or not tenant:  # It is not the default tenant's.
            raise TokenRefused(f"it has no {issuer.tenant_claim}")
    until, issued = float(claims["exp"]), float(claims.get("iat", 0.0))
    return TokenClaims(name, _roles(claims, issuer.roles), until, tenant, issued)


def _expected(issuer: Issuer, nonce: str | None) -> dict[str, Any]:
    """For whom a token must be: the gateway, or a login of the console with this *nonce*."""
    if nonce is None:
        return {"aud": {"essential": True, "value": issuer.audience}}
    return {
        "aud": {"essential": True, "value": issuer.client_id},
        "nonce": {"essential": True, "value": nonce},
        "azp": {"essential": False, "value": issuer.client_id},
    }


def claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return the claim at *path*, whose names are parted by dots; None where there is none."""
    if path in claims:  # Some issuers have URIs as names of claims.
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _roles(claims: Mapping[str, Any], path: str | None) -> frozenset[str]:
    found = claim(claims, path) if path is not None else None
    if isinstance(found, str):  # As scopes are: OAuth 2.0, section 3.3.
        found = found.split()
    return frozenset(one for one in found or () if isinstance(one, str))


def _json(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError) as error:
        raise TokenRefused("it cannot be read") from error
    if not isinstance(found, dict):
        raise TokenRefused("it cannot be read")
    return found
