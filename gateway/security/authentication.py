"""Authentication: what credentials of HTTP prove, by the file of identities.

Authorization: Bearer drg_...      an API key
Authorization: Bearer eyJ...       a token of an issuer
Authorization: Basic ...           a user and a password (RFC 7617)
Authorization: Digest ...          a user, and that it knows the password (RFC 7616): `http_digest`
X-API-Key: drg_...                 an API key, for programs that cannot set the other
what a package verifies            asked first: `gateway.security.identity_plugins`
"""

import asyncio
import base64
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from filters import Reason, Refused
from gateway.security.api_key_hashes import PREFIX, hash_api_key
from gateway.security.certificate_proofs import CertificateProofs
from gateway.security.http_digest import (
    CredentialsUnreadable,
    HttpRequest,
    Nonces,
    ProvedDigest,
    challenges,
    read_digest,
)
from gateway.security.identities import Identities, Issuer, Key, is_expired, key_file
from gateway.security.identity_plugins import (
    DEADLINE,
    CredentialsRefused,
    CredentialVerifier,
    VerifiedUser,
)
from gateway.security.issuer_documents import IssuerDocuments
from gateway.security.issuer_keys import IssuerKeys
from gateway.security.password_cipher import PasswordCipher
from gateway.security.passwords import Failures, Passwords, VerifiedPasswords
from gateway.security.principals import USER, Identity, side_of
from gateway.security.revoked_certificates import RevokedCertificates
from gateway.security.tokens import (
    MAX_LENGTH,
    TokenClaims,
    TokenRefused,
    UnknownKey,
    is_token,
    issuer_of,
    lacking,
    read_claims,
    verified_claims,
    with_userinfo,
)

SIGNATURE_FAILURES, SIGNATURE_FAILURES_AT_ONCE = 1.0, 100.0
"""Signatures that do not count, a second and at once, of an address: more than of passwords, for
nobody finds one by trying; each takes 0.7 ms, and others may be behind the same address."""
REMEMBERED = 300.0
"""Seconds for which credentials that were verified are not verified again: a password takes 25 ms,
the signature of a token 0.1 ms."""
_MOST_REMEMBERED = 4096
OF_NONCES = b"dragoman: nonces of HTTP Digest"
"""What the key of nonces is derived for, from that of the passwords."""
_log = structlog.get_logger("dragoman.identity")
_WRONG_PASSWORD = "The user or the password is wrong."
_NOT_TAKEN = "The credentials are of no kind that is taken: Bearer, Basic."


class NotIdentified(Refused):
    """Credentials are wrong, or missing where they are needed."""

    def __init__(self, text: str) -> None:
        super().__init__(Reason.NOT_IDENTIFIED, text)


class Authentication:
    """Verifies credentials against *identities*.

    Args:
        path: Of the file of identities.
        clients: What is revoked of the certificates of clients of TLS; None: nothing is.

    Attributes:
        documents: Those of the issuers.
        count_nonce: Notes that a user has used a nonce so many times; returns False where it was
            used as often before, at any gateway of the store. None: no store is there, and no
            Digest of HTTP is taken.
        certificates: Tells whom certificates prove.
    """

    def __init__(
        self,
        identities: Identities,
        path: Path,
        documents: IssuerDocuments,
        clients: RevokedCertificates | None = None,
    ) -> None:
        self.documents = documents
        self._folder = path.parent
        self.count_nonce: Callable[[str, bytes, int], Awaitable[bool]] | None = None
        self._clients = clients
        self.certificates = CertificateProofs(Identities(), self._folder, clients)
        self._kept = PasswordCipher(key_file(path))
        self._nonces: Nonces | None = None
        self._decoy: str | None = None
        """A password, encrypted: for who keeps none, so that the answer takes as long."""
        self._passwords = Passwords()
        self._lately = VerifiedPasswords()
        self._lately_digested = VerifiedPasswords()
        """Users who proved a password by a digest, and from where."""
        self._failures = Failures()
        self._failed_signatures = Failures(SIGNATURE_FAILURES, SIGNATURE_FAILURES_AT_ONCE)
        self._verified: dict[bytes, Identity] = {}
        self._keys: dict[Issuer, IssuerKeys] = {}
        self.failed: dict[str, int] = {}
        """How many credentials proved nothing, by their kind."""
        self.use(identities)

    def read_certificates(self, identities: Identities) -> CertificateProofs:
        """Read the files that *identities* name, in any thread."""
        return CertificateProofs(identities, self._folder, self._clients, self.certificates)

    def use(self, identities: Identities, certificates: CertificateProofs | None = None) -> None:
        """Verify against *identities* from now on. What was verified before is verified again, but
        for passwords that are still those of their users: of a thousand users each takes 25 ms.

        Args:
            certificates: What was read of their files; None: these are read now.
        """
        self.identities = identities
        self._issuers = {row.issuer: row for row in identities.issuers}
        # Keys that were read stay: the issuer may be down just now.
        self._keys = {
            row: self._keys.get(row) or IssuerKeys(row, self._folder, self.documents)
            for row in identities.issuers
        }
        self._verifiers = list(zip(identities.made_verifiers, identities.verifiers, strict=True))
        self._verified.clear()
        self._lately.keep_of(identities.user_of_name)
        self._lately_digested.keep_of(identities.user_of_name)
        self.certificates = certificates or self.read_certificates(identities)
        self._use_digests(any(user.digest is not None for user in identities.users))

    def _use_digests(self, kept: bool) -> None:
        """Take digests where a password is *kept* for them, and the key is here. Nonces are made
        with a key derived from that of the passwords: whoever can check a response has it."""
        key = self._kept.derive(OF_NONCES) if kept else None
        self._nonces = Nonces(key) if key is not None else None
        if key is not None and self._decoy is None:
            self._decoy = self._kept.make_decoy()

    @property
    def takes_digests(self) -> bool:
        """Whether a user may prove a password by Digest of HTTP."""
        return self._nonces is not None and self.count_nonce is not None

    def challenges(self, *, stale: bool = False) -> Sequence[str]:
        """The challenges of Digest, with a new nonce; none where nobody could answer one.

        Args:
            stale: The client's credentials were right, but for their nonce.
        """
        if self._nonces is None or self.count_nonce is None:
            return ()
        return challenges(self._nonces.make(time.time()), stale=stale)

    async def of_headers(
        self,
        headers: Iterable[tuple[bytes, bytes]],
        address: str,
        request: HttpRequest | None = None,
    ) -> Identity | None:
        """Return whom the credentials in *headers* prove, which came from *address*; None where
        there are none.

        Args:
            request: What the headers are of: without it, no Digest of HTTP is taken.

        Raises:
            NotIdentified: They prove nothing.
            Refused: ``RATE``: there were too many passwords that prove nothing. ``UNAVAILABLE``.
        """
        if self._verifiers:
            headers = tuple(headers)
            proved = await self._of_package(_by_name(headers), address)
            if proved is not None:
                return proved
        found = [value for name, value in headers if name in (b"authorization", b"x-api-key")]
        if not found:
            return None
        if len(found) > 1:
            raise NotIdentified("The request has credentials twice.")
        scheme, _, value = str(found[0], "latin-1").strip().partition(" ")
        scheme, value = scheme if not value else scheme.lower(), value.strip()
        text = f"{scheme} {value}" if value else scheme  # However it is spelt, it is the same.
        if scheme == "digest" and request is not None:  # It counts once: nothing is remembered.
            return await self._of_http_digest(value, request, address)
        digest = hashlib.sha256(text.encode()).digest()
        known = self._verified.get(digest)
        if known is not None and known.until > time.time():
            return known
        identities = self.identities
        identity = await self._verify(text, address)
        if identities is not self.identities:  # Who was removed meanwhile is not remembered.
            return await self.of_headers([(b"authorization", found[0])], address)
        if scheme == "basic":  # Its password is remembered, with the addresses that it came from.
            return identity
        if len(self._verified) >= _MOST_REMEMBERED:
            self._verified.clear()
        self._verified[digest] = identity
        return identity

    async def _of_package(self, headers: Mapping[str, str], address: str) -> Identity | None:
        """Return whom a package of others has verified; None where *headers* have no credentials
        that one knows.

        Raises:
            NotIdentified: They prove nothing.
            Refused: ``RATE``, ``UNAVAILABLE``.
        """
        side = side_of(address)
        for verifier, row in self._verifiers:
            try:
                user = await _verified_by(verifier, headers, address)
            except CredentialsRefused as refused:
                self._failures.check(side)
                self._failures.count(side)
                self._count("package")
                _log.info("identity.refused-by-package", verifier=row.name, why=str(refused)[:200])
                raise NotIdentified("The credentials are not accepted.") from refused
            except Exception as error:
                why = f"{type(error).__name__}: {error}"[:200]
                _log.error("identity.package-failed", verifier=row.name, why=why)
                raise Refused(
                    Reason.UNAVAILABLE, "The credentials cannot be verified now."
                ) from error
            if user is not None:
                self._failures.check(side)  # Nor does who guesses often get in by a lucky one.
                owner = f"user:{user.name}"
                roles = user.roles | self.roles_of(owner, row.tenant)
                return Identity(owner, roles, until=time.time() + REMEMBERED, tenant=row.tenant)
        return None

    async def of_password(self, name: str, password: str, address: str) -> Identity:
        """Return the user *name*, who says *password* at *address*.

        Raises:
            NotIdentified: There is no such user, or it is another password.
            QuotaExceeded: There were too many such failures.
        """
        who = (f"user:{name}", side_of(address))
        user = self.identities.user_of_name.get(name)
        hashed = self.password_of(name)
        until = self._find_verified(name, password, hashed, who)
        if until is None:
            if self._lately.came_from(name, who[1]):  # It is another one, computed or not.
                self._failures.count(_there(who))
            async with self._passwords.turn_of(name):
                # Whoever was before it in the line may have said the same.
                until = self._find_verified(name, password, hashed, who)
                if until is None:
                    until = await self._verify_password(name, password, hashed, who)
        if user is None:
            raise NotIdentified(_WRONG_PASSWORD)
        return Identity(who[0], frozenset(user.roles), until=until, tenant=user.tenant)

    def _find_verified(
        self, name: str, password: str, hashed: str | None, who: tuple[str, str]
    ) -> float | None:
        """Return until when *password* counts as verified; None: it is not.

        Where it was said at this address before, nobody else who guesses keeps it out, but who
        guesses this user's at this very address: else guesses would be bound by nothing here.

        Raises:
            QuotaExceeded: There were too many failures.
        """
        found = self._lately.find(name, password, hashed)
        if found is None:
            return None
        self._failures.check(*((_there(who),) if who[1] in found.sides else who))
        found.note_side(who[1])
        return found.until

    async def _verify_password(
        self, name: str, password: str, hashed: str | None, who: tuple[str, str]
    ) -> float:
        """Return until when *password*, of *name*, counts as verified.

        Raises:
            As `of_password`.
        """
        identities, check = self.identities, partial(self._failures.check, *who)
        if not await self._passwords.verify(password, hashed, check) or hashed is None:
            self._failures.count(*who)
            self._count("password")
            raise NotIdentified(_WRONG_PASSWORD)
        until = time.time() + REMEMBERED
        if identities is self.identities:
            self._lately.remember(name, password, hashed, until).note_side(who[1])
        return until

    def of_digest(self, name: str, proves: Callable[[str], bool], address: str) -> Identity:
        """Return the user *name*, who sent a digest from *address*.

        Args:
            proves: Whether the digest is that of a password.

        Raises:
            NotIdentified: There is no such user, or it is of another password.
            QuotaExceeded: There were too many such failures.
        """
        who = (f"user:{name}", side_of(address))
        # Where a right one came from, nobody else who guesses keeps it out, as of passwords.
        is_known = self._lately_digested.came_from(name, who[1])
        self._failures.check(*((_there(who),) if is_known else who))
        user = self.identities.user_of_name.get(name)
        kept = user.digest if user is not None else None
        password = self._kept_password(name, kept)
        if password is None or not proves(password) or user is None or kept is None:
            self._failures.count(*who, *((_there(who),) if is_known else ()))
            self._count("digest")
            raise NotIdentified(_WRONG_PASSWORD)
        self._lately_digested.note(name, kept, time.time() + REMEMBERED, who[1])
        return Identity(who[0], frozenset(user.roles), tenant=user.tenant)

    def _kept_password(self, name: str, kept: str | None) -> str | None:
        """The password of the user *name*, of which *kept* is encrypted; of one who keeps none
        another, so that it takes as long. None: it cannot be decrypted here, which is the
        operator's to mend, and is not said to who asks."""
        sealed = kept or self._decoy
        if sealed is None:
            return ""
        try:
            return self._kept.decrypt(sealed)
        except Refused as refused:
            _log.error("identity.password-not-decrypted", user=name, why=refused.text)
            return None

    async def _of_http_digest(self, text: str, request: HttpRequest, address: str) -> Identity:
        """Return whose digest of *request* the parameters *text* are.

        Whether a nonce is good is said to who knows the password alone: to anybody else an old one
        and one of another gateway look as any other.

        Raises:
            NotIdentified: They prove nothing.
            Refused: ``RATE``, ``UNAVAILABLE``.
        """
        if self._nonces is None or self.count_nonce is None:
            raise NotIdentified(_NOT_TAKEN)
        if request.proved is not None and request.proved.text == text:
            return self._prove_again(request.proved)
        try:
            said = read_digest(text)
        except CredentialsUnreadable as unreadable:
            raise NotIdentified(str(unreadable)) from unreadable
        if not request.is_for(said.uri):
            raise NotIdentified("The credentials are of another request: their uri.")
        self.of_digest(said.user, partial(said.is_of, method=request.method), address)
        kept = self.identities.user_of_name[said.user].digest or ""
        request.stale = not (
            self._nonces.is_fresh(said.nonce, time.time())
            and await self.count_nonce(said.user, said.nonce.encode(), said.count)
        )
        if request.stale:
            raise NotIdentified("The nonce is old, or was used as often: answer the new one.")
        request.proved = ProvedDigest(text, said.user, kept)
        return self._prove_again(request.proved)

    def _prove_again(self, proved: ProvedDigest) -> Identity:
        """Return who *proved*, of a request that is looked at again, is now: its nonce has counted.

        Raises:
            NotIdentified: The user has another password now, or is gone.
        """
        user = self.identities.user_of_name.get(proved.user)
        if user is None or user.digest != proved.kept:
            raise NotIdentified(_WRONG_PASSWORD)
        return self._user(proved.user)

    def of_certificate(self, certificate: bytes) -> Identity | None:
        """Return whom a *certificate* (DER) proves, which TLS has verified; None where it has no
        subject that can be read."""
        return self.certificates.identity(certificate)

    def authorities_of(self, owner: str, tenant: str = "") -> frozenset[str]:
        """Return the names of the authorities that have certified *owner* in *tenant*."""
        return self.certificates.authorities_of(owner, tenant)

    def password_of(self, name: str) -> str | None:
        """Return the hash of the password of the user *name*; None where there is none."""
        user = self.identities.user_of_name.get(name)
        return user.password if user is not None else None

    def still_proves(self, owner: str, proof: str, tenant: str = "") -> bool:
        """Return True if *proof*, the hash of a key or of a password, is still one of *owner* in
        *tenant*."""
        name = owner.removeprefix(USER)
        user = self.identities.user_of_name.get(name)
        if user is not None and user.tenant != tenant:
            return False
        key = self.identities.key_of_hash.get(proof)
        if key is not None:
            return key.user == name and not is_expired(key.expires)
        return bool(proof) and self.password_of(name) == proof

    def identity_now(self, identity: Identity, proof: str) -> Identity:
        """Return *identity*, of a session, with what the file gives it now: its roles, and the
        rights of the key whose hash *proof* is. The roles that its token said stay; but they are
        those of the login, and no other token's that was shown since (`TokenRoles`)."""
        key = self.identities.key_of_hash.get(proof)
        return replace(
            identity,
            roles=identity.shown | self.roles_of(identity.owner, identity.tenant),
            rights=key.rights if key is not None else identity.rights,
            issuer="",
        )

    def roles_of(self, owner: str, tenant: str = "") -> frozenset[str]:
        """Return the roles that the file gives to *owner* in *tenant*."""
        user = self.identities.user_of_name.get(owner.removeprefix(USER))
        if user is None or user.tenant != tenant:
            return frozenset()
        return frozenset(user.roles)

    def has_issuer(self, issuer: str) -> bool:
        """Return True if tokens of *issuer* are taken."""
        return issuer in self._issuers

    def can_be_proved(self, name: str, tenant: str = "") -> bool:
        """Return True if somebody may still prove to be the user *name* of *tenant*: it is there,
        or an issuer, or a package, may speak of users of that tenant."""
        user = self.identities.user_of_name.get(name)
        if user is not None and user.tenant == tenant:
            return True
        issuers, verifiers = self.identities.issuers, self.identities.verifiers
        return any(row.tenant == tenant or row.tenant_claim is not None for row in issuers) or any(
            row.tenant == tenant for row in verifiers
        )

    def knows(self, owner: str) -> bool:
        """Return True if *owner* is a user of the file, or of the store."""
        return owner.removeprefix(USER) in self.identities.user_of_name

    async def _verify(self, text: str, address: str) -> Identity:
        scheme, _, value = text.partition(" ")
        if text.startswith(PREFIX):
            return self.of_key(text)
        if scheme.lower() == "bearer":
            value = value.strip()
            if value.startswith(PREFIX):
                return self.of_key(value)
            return await self._of_token(value)
        if scheme.lower() == "basic":
            name, password = _basic(value)
            return await self.of_password(name, password, address)
        raise NotIdentified(_NOT_TAKEN)

    def of_key(self, text: str) -> Identity:
        """Return whose API key *text* is.

        Raises:
            NotIdentified: There is no such key, or it has expired.
        """
        key: Key | None = self.identities.key_of_hash.get(hash_api_key(text))
        if key is None or is_expired(key.expires):
            self._count("key")
            raise NotIdentified("There is no such key, or it has expired.")
        until = time.time() + REMEMBERED
        if key.expires is not None:
            until = min(until, key.expires.timestamp())
        user = self._user(key.user)
        return Identity(user.owner, user.roles, key.rights, until, user.tenant)

    async def of_login(
        self,
        token: str,
        issuer: Issuer,
        nonce: str,
        ask_userinfo: Callable[[], Awaitable[Mapping[str, Any] | None]],
    ) -> Identity:
        """Return whom a *token* of identity proves, which *issuer* gave to a login with *nonce*.

        Args:
            ask_userinfo: What the issuer says of that user beside the token, where it can be had:
                asked where the token lacks a claim that the issuer's row names.

        Raises:
            NotIdentified: It proves nothing.
            KeysUnavailable: It cannot be verified now.
        """
        return await self._of_token(token, issuer, nonce, ask_userinfo)

    async def _of_token(
        self,
        text: str,
        expected: Issuer | None = None,
        nonce: str | None = None,
        ask_userinfo: Callable[[], Awaitable[Mapping[str, Any] | None]] | None = None,
    ) -> Identity:
        try:
            if not is_token(text):
                raise TokenRefused("it is no signed JWT")
            issuer = self._issuers.get(issuer_of(text))
            if issuer is None or issuer != (expected or issuer):
                raise TokenRefused("its issuer is not known here")
            said = await self._claims(text, issuer, nonce)
            if ask_userinfo is not None and lacking(said, issuer):
                userinfo = await ask_userinfo()
                said = said if userinfo is None else with_userinfo(said, userinfo, issuer)
            claims = read_claims(said, issuer)
            tenant = self._tenant_of(claims, issuer)
        except TokenRefused as refused:
            self._count("token")
            raise NotIdentified(refused.text) from refused
        owner = f"user:{claims.name}"
        roles = claims.roles | self.roles_of(owner, tenant)
        until = min(claims.until, time.time() + REMEMBERED)
        return Identity(
            owner,
            roles,
            until=until,
            tenant=tenant,
            issuer=issuer.issuer,
            shown=claims.roles,
            roles_days=issuer.roles_days,
            issued=claims.issued,
        )

    def _tenant_of(self, claims: TokenClaims, issuer: Issuer) -> str:
        """The tenant of a token's user: that of its issuer, or the one that its claim names.

        Raises:
            TokenRefused: There is no such tenant.
        """
        tenant = issuer.tenant if claims.tenant is None else claims.tenant
        if tenant and tenant not in self.identities.tenant_of_name:
            raise TokenRefused("its tenant is not known here")
        return tenant

    async def _claims(self, text: str, issuer: Issuer, nonce: str | None) -> Mapping[str, Any]:
        keys = self._keys[issuer]
        try:
            return verified_claims(text, issuer, await keys.get(), nonce=nonce)
        except UnknownKey:
            return verified_claims(text, issuer, await keys.get(newer=True), nonce=nonce)

    def _user(self, name: str) -> Identity:
        user = self.identities.user_of_name[name]
        return Identity(f"user:{name}", frozenset(user.roles), tenant=user.tenant)

    def check_signatures(self, address: str) -> None:
        """See that another signature of *address* may be verified.

        Raises:
            QuotaExceeded: It has sent too many that do not count.
        """
        self._failed_signatures.check(side_of(address))

    def count_signature(self, address: str | None) -> None:
        """Count a signature, verified elsewhere, that does not count: of *address*, where that is
        bound by `check_signatures`."""
        if address is not None:
            self._failed_signatures.count(side_of(address))
        self._count("signature")

    def _count(self, kind: str) -> None:
        self.failed[kind] = self.failed.get(kind, 0) + 1


async def _verified_by(
    verifier: CredentialVerifier, headers: Mapping[str, str], address: str
) -> VerifiedUser | None:
    """Ask a package, within `DEADLINE`.

    Raises:
        CredentialsRefused: The credentials prove nothing.
        Exception: It failed, or says a name that is none.
    """
    async with asyncio.timeout(DEADLINE):
        user = await verifier.verify(headers, address)
    if user is not None and not (user.name.strip() and user.name.isprintable()):
        raise ValueError("the package says a user without a printable name")
    return user


def _by_name(headers: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    """Headers by their names in lower case. One that comes twice is left out: whose it is cannot be
    told."""
    found: dict[str, str] = {}
    twice = set()
    for name, value in headers:
        text = str(name, "latin-1").lower()
        if text in found:
            twice.add(text)
        found[text] = str(value, "latin-1")
    return {name: value for name, value in found.items() if name not in twice}


def _there(who: tuple[str, str]) -> str:
    """What failures of a user at one address alone are counted by."""
    return "\n".join(who)


def _basic(value: str) -> tuple[str, str]:
    """The user and the password of RFC 7617."""
    if len(value) > MAX_LENGTH:
        raise NotIdentified("The credentials are too long.")
    try:
        text = base64.b64decode(value.strip(), validate=True).decode()
    except ValueError as error:
        raise NotIdentified("The credentials cannot be read.") from error
    name, colon, password = text.partition(":")
    if not colon:
        raise NotIdentified("The credentials cannot be read.")
    return name, password
