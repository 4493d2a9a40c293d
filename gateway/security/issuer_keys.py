"""The keys of issuers of tokens: from a file, from a URL, or found by OpenID Connect Discovery."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any
from urllib.request import HTTPRedirectHandler, ProxyHandler, build_opener

import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from filters import Reason, Refused
from gateway.security.identities import Issuer

REFRESH = 60.0
"""Seconds between two readings at least: whoever sends tokens of unknown keys causes no more."""
KEPT = 3600.0
"""Seconds for which keys are used without looking for newer ones."""
TIMEOUT = 5.0
"""Seconds without a byte."""
DEADLINE = 15.0
"""Seconds in all: an issuer that sends a byte now and then keeps nobody waiting."""
MAX_ANSWER = 2**20
SMALLEST_RSA = 2048
_DISCOVERY = "/.well-known/openid-configuration"
_log = structlog.get_logger("dragoman.identity")


class KeysUnavailable(Refused):
    """The keys of an issuer cannot be had now."""

    def __init__(self, issuer: str) -> None:
        text = f"The keys of {issuer} cannot be had: no token of it can be verified now."
        super().__init__(Reason.UNAVAILABLE, text)


class IssuerKeys:
    """The keys of one issuer, read when they are first asked for.

    Args:
        folder: Of the file of identities: a file of keys is named from there.
    """

    def __init__(self, issuer: Issuer, folder: Path) -> None:
        self._issuer = issuer
        self._folder = folder
        self._keys: KeySet | None = None
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def get(self, *, newer: bool = False) -> KeySet:
        """Return the keys; with *newer* they are read again, unless that was just done.

        Raises:
            KeysUnavailable: There are none.
        """
        age = time.monotonic() - self._read_at
        if age >= (REFRESH if newer or self._keys is None else KEPT):
            async with self._reading:
                if time.monotonic() - self._read_at >= REFRESH:
                    await self._read()
        if self._keys is None:
            raise KeysUnavailable(self._issuer.issuer)
        return self._keys

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(DEADLINE):
                self._keys = await asyncio.to_thread(self._load)
        except (OSError, ValueError, JoseError, KeyError) as error:
            # Those that were read before go on: an issuer that is down for an hour stops nobody.
            _log.warning("identity.keys-unavailable", issuer=self._issuer.issuer, why=str(error))
        self._read_at = time.monotonic()  # Not before: who comes meanwhile waits for the keys.

    def _load(self) -> KeySet:
        where = self._issuer.keys
        if where is None:
            found = _fetch(self._issuer.issuer.rstrip("/") + _DISCOVERY)
            if found.get("issuer") != self._issuer.issuer:
                raise ValueError(f"discovery speaks of another issuer, {found.get('issuer')!r}")
            where = str(found["jwks_uri"])
        if "://" in where:
            return usable_keys(_fetch(where))
        with (self._folder / where).open("rb") as file:
            return usable_keys(json.loads(file.read(MAX_ANSWER)))


def usable_keys(document: Any) -> KeySet:
    """Return the keys of a JWK set (RFC 7517) by which tokens may be signed.

    Raises:
        ValueError: It has none.
    """
    rows = document.get("keys") if isinstance(document, dict) else None
    found = []
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict) or row.get("use", "sig") != "sig":
            continue
        if row.get("kty") not in ("RSA", "EC", "OKP"):
            continue
        try:
            found.extend(KeySet.import_key_set({"keys": [row]}).keys)
        except (JoseError, ValueError, TypeError, KeyError):
            continue  # A key of a kind that we do not know is none of those that we need.
    keys = [key for key in found if _may_sign(key)]
    if not keys:
        raise ValueError("there is no key for RS256, ES256 or EdDSA")
    return KeySet(keys)


def _may_sign(key: Any) -> bool:
    if isinstance(key, RSAKey):
        return bool(key.public_key.key_size >= SMALLEST_RSA)
    if isinstance(key, ECKey):
        return key.curve_name == "P-256"
    return isinstance(key, OKPKey) and key.curve_name == "Ed25519"


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _fetch(url: str) -> Any:
    """The JSON at *url*, which an operator has written.

    Raises:
        OSError: It cannot be had.
        ValueError: It is no JSON, or no URL.
    """
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"{url} is no URL of HTTP")
    with build_opener(_NoRedirects, ProxyHandler({})).open(url, timeout=TIMEOUT) as answer:
        return json.loads(answer.read(MAX_ANSWER))
