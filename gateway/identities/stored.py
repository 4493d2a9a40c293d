"""Users, keys and rules that administrators keep in the store: in force at once here, and within a
second in all gateways of the store.

What the file of identities has is changed there alone.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from filters import Reason, Refused
from gateway.identities.file import IdentitiesFile
from gateway.identities.in_force import (
    IdentitiesInForce,
    problem_beside,
    put_in_force,
    read_stored,
)
from gateway.model.stored_identities import MOST, IdentityKind, StoredIdentity, born_in_file
from gateway.security.api_key_hashes import api_key_id, hash_api_key, new_api_key
from gateway.security.identities import Identities, Key, RightName, RightsRow, User, key_file
from gateway.security.password_cipher import PasswordCipher
from gateway.security.passwords import hash_password
from gateway.store import Store, StoreUnavailable
from gateway.store import identities as rows

T = TypeVar("T")
LEARN = 0.5
"""Seconds from one look at what other gateways of the store have changed to the next."""
_log = structlog.get_logger("dragoman.identity")


class StoredIdentities:
    """What the store keeps, beside the *file*.

    Args:
        use: Has the gateway go by the identities from now on.
        shared: Whether other gateways use the store.

    Attributes:
        in_force: What is in force now.
    """

    def __init__(
        self,
        store: Store,
        file: IdentitiesFile,
        use: Callable[[Identities], Awaitable[None]],
        *,
        shared: bool,
    ) -> None:
        self._store = store
        self._file = file
        self._use = use
        self._shared = shared
        self._version = -1
        self._is_behind = False
        self._turn = asyncio.Lock()
        self._told: frozenset[StoredIdentity] = frozenset()
        self.in_force = IdentitiesInForce(file.identities, file.identities)

    async def run(self) -> None:
        """Learn what other gateways change, until this one stops."""
        while True:
            await asyncio.sleep(LEARN)
            if self._shared or self._is_behind:
                try:
                    await self.learn()
                except StoreUnavailable:
                    continue  # What is known holds; the store says in the log that it is gone.

    async def learn(self) -> None:
        """Go by what the store has.

        Raises:
            StoreUnavailable: It cannot be read.
        """
        async with self._turn:
            version = await self._store.submit(rows.version)
            if version != self._version:
                stored, version = await self._store.submit(rows.load)
                await self._put_in_force(stored)
                self._version = version  # Behind it: who is cancelled in between learns it again.
            self._is_behind = False

    async def follow_file(self) -> None:
        """Go by what the file says now."""
        async with self._turn:
            await self._put_in_force(self.in_force.stored)

    async def _put_in_force(self, stored: Sequence[StoredIdentity]) -> None:
        found = await asyncio.to_thread(put_in_force, self._file.identities, stored, self.in_force)
        self.in_force = found
        await self._use(found.identities)
        for one, why in found.unusable.items():
            if one not in self._told:
                _log.warning("identity.set-aside", kind=one.kind.value, id=one.id, why=why)
        self._told = frozenset(found.unusable)

    async def keep_user(
        self,
        name: str,
        by: str,
        *,
        password: str | None = None,
        digest: bool = False,
        roles: Sequence[str] | None = None,
        tenant: str | None = None,
    ) -> None:
        """Keep a user, or give one that there is what is not None.

        Args:
            digest: The *password* may be proved by a digest, too, for which it is kept encrypted.

        Raises:
            Refused: It is one of the file, it cannot be meant, or there are too many.
            StoreUnavailable: It was not kept.
        """
        if name in self._file.identities.user_of_name:
            raise Refused(Reason.NOT_ALLOWED, _in_file(f"The user {name}"))
        changed: dict[str, object] = {}
        if password is not None:
            changed["password"] = await asyncio.to_thread(hash_password, password)
            cipher = PasswordCipher(key_file(self._file.path))
            changed["digest"] = (
                await asyncio.to_thread(cipher.encrypt, password) if digest else None
            )
        if roles is not None:
            changed["roles"] = list(roles)
        if tenant is not None:
            changed["tenant"] = tenant
        file = self._file.identities

        def operation(connection: Connection) -> None:
            former = rows.find(connection, IdentityKind.USER, name)
            user = User(name=name) if former is None else _read(former, User)
            user = user.model_copy(update=changed)
            if problem := problem_beside(user, file):
                raise Refused(Reason.MESSAGE_INVALID, f"The user {problem}.")
            born = secrets.token_hex(8) if former is None else former.born
            if former is None:
                _check_number(connection, IdentityKind.USER)
                rows.remove_keys(connection, name)  # They are of another one of this name.
            rows.write(connection, _row(IdentityKind.USER, name, user, by, born))

        await self._change(operation)

    async def remove_user(self, name: str) -> None:
        """Remove a user, with the keys of it that the store keeps.

        Raises:
            Refused: There is none, or it is one of the file.
            StoreUnavailable: It was not removed.
        """
        in_file = name in self._file.identities.user_of_name
        if await self._remove(IdentityKind.USER, name):
            return
        if in_file:  # The store might have had one, too, that is set aside.
            raise Refused(Reason.NOT_ALLOWED, _in_file(f"The user {name}"))
        raise Refused(Reason.RESOURCE_UNKNOWN, f"There is no user {name}.")

    async def add_key(
        self,
        user: str,
        by: str,
        may: Sequence[RightName] = (),
        expires: datetime | None = None,
        *,
        tenant: str | None = None,
    ) -> tuple[str, str]:
        """Add a key of *user*, who may be one of the file; the key, which is not kept, and its id.

        Args:
            tenant: That the user must belong to; None: any.

        Raises:
            Refused: There is no such user in *tenant*, or there are too many keys.
            StoreUnavailable: It was not kept.
        """
        key = new_api_key()
        row = Key(user=user, hash=hash_api_key(key), may=list(may) or None, expires=expires)
        in_file = self._file.identities.user_of_name.get(user)

        def operation(connection: Connection) -> None:
            found = in_file
            born = "" if found is None else born_in_file(found.tenant)
            if found is None and (one := rows.find(connection, IdentityKind.USER, user)):
                found, born = _read(one, User), one.born
            if found is None or tenant not in (None, found.tenant):
                where = "" if tenant is None else f" in the tenant {tenant or 'default'}"
                raise Refused(Reason.RESOURCE_UNKNOWN, f"There is no user {user}{where}.")
            _check_number(connection, IdentityKind.KEY)
            rows.write(connection, _row(IdentityKind.KEY, api_key_id(row.hash), row, by, born))

        await self._change(operation)
        return key, api_key_id(row.hash)

    async def rotate_key(self, key_id: str, by: str, hours: float) -> tuple[str, str]:
        """Add a key like the one with *key_id*, which is taken for *hours* more; the new key, and
        its id.

        Raises:
            Refused: There is none, or it is one of the file; there are too many.
            StoreUnavailable: It was not kept.
        """
        self._check_key(key_id)
        key = new_api_key()
        hashed = hash_api_key(key)
        until = datetime.now(UTC) + timedelta(hours=hours)

        def operation(connection: Connection) -> None:
            former = rows.find(connection, IdentityKind.KEY, key_id)
            if former is None:
                raise Refused(Reason.RESOURCE_UNKNOWN, f"There is no key {key_id}.")
            old = _read(former, Key)
            _check_number(connection, IdentityKind.KEY)
            new = old.model_copy(update={"hash": hashed})
            ends = until if old.expires is None else min(until, old.expires)
            for id_, row in (
                (api_key_id(hashed), new),
                (key_id, old.model_copy(update={"expires": ends})),
            ):
                rows.write(connection, _row(IdentityKind.KEY, id_, row, by, former.born))

        await self._change(operation)
        return key, api_key_id(hashed)

    async def remove_key(self, key_id: str) -> None:
        """Remove a key.

        Raises:
            Refused: There is none, or it is one of the file.
            StoreUnavailable: It was not removed.
        """
        self._check_key(key_id)
        if not await self._remove(IdentityKind.KEY, key_id):
            raise Refused(Reason.RESOURCE_UNKNOWN, f"There is no key {key_id}.")

    async def add_rule(self, rule: RightsRow, by: str) -> str:
        """Add a *rule*, and return its id.

        Raises:
            Refused: It cannot be meant, or there are too many.
            StoreUnavailable: It was not kept.
        """
        if problem := problem_beside(rule, self._file.identities):
            raise Refused(Reason.MESSAGE_INVALID, f"The rule {problem}.")
        rule_id = secrets.token_hex(6)

        def operation(connection: Connection) -> None:
            _check_number(connection, IdentityKind.RULE)
            rows.write(connection, _row(IdentityKind.RULE, rule_id, rule, by))

        await self._change(operation)
        return rule_id

    async def remove_rule(self, rule_id: str) -> None:
        """Remove a rule.

        Raises:
            Refused: The store keeps none with this id.
            StoreUnavailable: It was not removed.
        """
        if not await self._remove(IdentityKind.RULE, rule_id):
            text = f"The store has no rule {rule_id}; those of the file are changed there."
            raise Refused(Reason.RESOURCE_UNKNOWN, text)

    def _check_key(self, key_id: str) -> None:
        if any(api_key_id(key.hash) == key_id for key in self._file.identities.keys):
            raise Refused(Reason.NOT_ALLOWED, _in_file(f"The key {key_id}"))

    async def _remove(self, kind: IdentityKind, id_: str) -> bool:
        """Remove something; whether it was there."""
        return await self._change(partial(rows.remove, kind=kind, id_=id_))

    async def _change(self, operation: Callable[[Connection], T]) -> T:
        """Change the store by *operation*, and go by that."""
        self._is_behind = True  # Until it is in force, whatever comes in between.
        done = await self._store.submit(operation, locks=(rows.LOCK,))
        await self.learn()
        return done


def _in_file(what: str) -> str:
    return f"{what} is in the file of identities: it is changed there alone."


def _row(
    kind: IdentityKind, id_: str, row: User | Key | RightsRow, by: str, born: str = ""
) -> StoredIdentity:
    user = row.user if isinstance(row, Key) else ""
    text = row.model_dump_json(exclude_defaults=True)
    return StoredIdentity(kind, id_, user, born, text, by, time.time())


Kept = TypeVar("Kept", User, Key)


def _read(one: StoredIdentity, kind: type[Kept]) -> Kept:
    """Read what is to be changed.

    Raises:
        Refused: A newer gateway has kept it.
    """
    try:
        row = read_stored(one)
    except ValueError as error:
        raise Refused(Reason.NOT_ALLOWED, f"It cannot be changed here: {error}.") from None
    assert isinstance(row, kind)
    return row


def _check_number(connection: Connection, kind: IdentityKind) -> None:
    if rows.count(connection, kind) >= MOST:
        text = f"There are {MOST} of them in the store already: remove some."
        raise Refused(Reason.QUOTA, text)
