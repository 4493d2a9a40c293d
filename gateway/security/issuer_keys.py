"""The keys of issuers of tokens: from a file, from a URL, or found by OpenID Connect Discovery."""

import asyncio
import time
from pathlib import Path
from typing import Any

import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from filters import Reason, Refused
from gateway.security.identities import Issuer
from gateway.security.issuer_documents import MAX_ANSWER, IssuerDocuments, parse_json
from mediation.public_keys import is_usable_key

REFRESH = 60.0
"""Seconds between two readings at least: whoever sends tokens of unknown keys causes no more."""
KEPT = 3600.0
"""Seconds for which keys are used without looking for newer ones."""
DEADLINE = 15.0
"""Seconds in all: an issuer that sends a byte now and then keeps nobody waiting."""
MOST = 100
"""Keys of an issuer that are read: each takes 0.1 ms."""
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

    def __init__(self, issuer: Issuer, folder: Path, documents: IssuerDocuments) -> None:
        self._documents = documents
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
                self._keys = await self._load()
        except (OSError, ValueError, JoseError, KeyError) as error:
            # Those that were read before go on: an issuer that is down for an hour stops nobody.
            _log.warning("identity.keys-unavailable", issuer=self._issuer.issuer, why=str(error))
        self._read_at = time.monotonic()  # Not before: who comes meanwhile waits for the keys.

    async def _load(self) -> KeySet:
        where = self._issuer.keys
        if where is None:
            where = str((await self._documents.discover(self._issuer.issuer))["jwks_uri"])
        if "://" in where:
            return usable_keys(await self._documents.fetch(where))
        return usable_keys(parse_json(await asyncio.to_thread(_read, self._folder / where)))


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_ANSWER)


def usable_keys(document: Any) -> KeySet:
    """Return the keys of a JWK set (RFC 7517) by which tokens may be signed.

    Raises:
        ValueError: It has none.
    """
    rows = document.get("keys") if isinstance(document, dict) else None
    found = []
    for row in rows[:MOST] if isinstance(rows, list) else ():
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
        return is_usable_key(key.public_key)
    if isinstance(key, ECKey):
        return key.curve_name == "P-256"
    return isinstance(key, OKPKey) and key.curve_name == "Ed25519"
