"""Subscriptions as rows."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from filters import Expression, Filter, View
from gateway.interning import shared
from gateway.model.moments import moment_of
from gateway.store import replicas, waiting_deliveries
from gateway.store.references import (
    read_reference,
    read_spec,
    spec_values,
    write_reference,
)
from gateway.store.schema import subscriptions
from gateway.store.statements import number
from mediation.model.calling import Calling
from mediation.model.delivery_modes import PUSH, DeliveryMode, Mode, Oversize
from mediation.model.messages import CatchingUp, Lease, Packaging, Policy, Rights, Subscription
from mediation.model.versions import DataForm


def insert(connection: Connection, subscription: Subscription, identity: str | None = None) -> bool:
    """Keep a new subscription; whether it is kept: not so where another has its *identity*."""
    values = _values(subscription) | {"acknowledged": 0, "identity": identity}
    statement = _INSERTS[connection.dialect.name](subscriptions).values(**values)
    if identity is not None:
        statement = statement.on_conflict_do_nothing(index_elements=["identity"])
    if connection.execute(statement.returning(subscriptions.c.key)).first() is None:
        return False
    _tell(connection, subscription.key)
    return True


def identified(connection: Connection, identity: str) -> Subscription | None:
    """Find the one subscription with this *identity*."""
    query = select(subscriptions).where(subscriptions.c.identity == identity)
    found = connection.execute(query).first()
    return None if found is None else _read(found._mapping)


_INSERTS: Mapping[str, Callable[..., Any]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}


def update(connection: Connection, subscription: Subscription, former: Subscription) -> bool:
    """Keep what of a subscription's lease and policy is another than in *former*, so that what
    another replica changes stays; whether there still is such a subscription."""
    values, old = _values(subscription), _values(former)
    changed = {name: values[name] for name in _MUTABLE if values[name] != old[name]}
    if not changed:
        changed = {name: values[name] for name in _MUTABLE[:1]}
    found = connection.execute(
        subscriptions.update().where(subscriptions.c.key == subscription.key).values(changed)
    )
    if found.rowcount:
        _tell(connection, subscription.key)
    return bool(found.rowcount)


_MUTABLE = ("policy", "expires", "as_duration")


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a deletion: whether the subscription was still ``there``, and whether some of
    its waiting deliveries are ``left`` for `waiting_deliveries.drop`."""

    there: bool
    left: bool = False


def delete(connection: Connection, subscription: Subscription, *, expired: bool) -> Deleted:
    """Forget a subscription; also its waiting deliveries, as expired or as cancelled, if they are
    few."""
    found = connection.execute(
        subscriptions.delete().where(subscriptions.c.key == subscription.key)
    )
    if not found.rowcount:
        return Deleted(there=False)
    _tell(connection, subscription.key)
    return Deleted(True, not waiting_deliveries.drop(connection, subscription.id, expired=expired))


def _tell(connection: Connection, key: str) -> None:
    """Let other replicas know, where there are any."""
    if number(connection):
        replicas.changed(connection, key)


@dataclass(frozen=True, slots=True)
class Learnt:
    """Changes by other replicas: subscriptions that are there, and keys of those that have ended;
    ``all`` says that ``there`` are all subscriptions."""

    version: int
    there: list[Subscription]
    gone: list[str]
    added: tuple[replicas.Added, ...]
    all: bool = False


def learn(connection: Connection, known: int | None) -> Learnt:
    """Changes since version *known*; everything where that is None, or too long ago."""
    if known is not None:
        changes = replicas.changes_since(connection, known)
        if changes.keys is not None:
            there = load(connection, changes.keys) if changes.keys else []
            gone = set(changes.keys) - {one.key for one in there}
            return Learnt(changes.version, there, sorted(gone), changes.added)
    version = replicas.version(connection)  # Read first: changes during the load are learnt twice.
    return Learnt(version, load(connection), [], (), all=True)


def load(connection: Connection, keys: Collection[str] | None = None) -> list[Subscription]:
    """All subscriptions, or those of *keys*. Equal parts are one object each."""
    query = select(subscriptions)
    if keys is not None:
        query = query.where(subscriptions.c.key.in_(list(keys)))
    return [_read(row._mapping) for row in connection.execute(query)]


def _values(subscription: Subscription) -> dict[str, object]:
    lease, policy = subscription.lease, subscription.policy
    return {
        "key": subscription.key,
        "id": subscription.id,
        "owner": subscription.owner,
        **spec_values(subscription.spec),
        "consumer": write_reference(subscription.consumer),
        "end_to": write_reference(subscription.end_to) if subscription.end_to else None,
        "filter": _write_filter(subscription.filter),
        "policy": json.dumps(
            {
                "raw": policy.raw,
                "paused": policy.paused,
                "ordered": policy.ordered,
                "dialect": policy.dialect,
                "packaging": policy.packaging.value,
                "data": policy.data.value,
                "rate": policy.rate,
                "secret": subscription.secret,
                **_write_delivery(policy.delivery),
                **_write_calling(policy.calling),
                **_write_rights(policy.rights),
                **({"channel": policy.channel} if policy.channel else {}),
                **({"hold_while_paused": True} if policy.hold_while_paused else {}),
                **({"catching_up": policy.catching_up.value} if policy.catching_up.value else {}),
                **({"order_key": policy.order_key} if policy.order_key else {}),
            }
        ),
        "manager": subscription.manager,
        "created": lease.created.timestamp(),
        "expires": lease.expires.timestamp() if lease.expires else None,
        "as_duration": lease.as_duration,
    }


def _read(row: Any) -> Subscription:
    policy = json.loads(row["policy"])
    expires = row["expires"]
    return Subscription(
        key=row["key"],
        id=row["id"],
        owner=shared(row["owner"]),
        spec=shared(read_spec(row)),
        consumer=read_reference(row["consumer"]),
        lease=Lease(
            moment_of(row["created"]),
            None if expires is None else moment_of(expires),
            bool(row["as_duration"]),
        ),
        filter=shared(_read_filter(row["filter"])),
        end_to=read_reference(row["end_to"]) if row["end_to"] else None,
        policy=shared(
            Policy(
                policy["raw"],
                policy["paused"],
                policy["ordered"],
                policy["dialect"],
                Packaging(policy.get("packaging", "none")),  # Older rows lack it, and the next.
                DataForm(policy.get("data", "xml")),
                _read_delivery(policy.get("delivery")),
                policy.get("rate", 0),
                _read_calling(policy.get("calling")),
                _read_rights(policy.get("rights")),
                policy.get("channel", ""),
                policy.get("hold_while_paused", False),
                CatchingUp(policy.get("catching_up", "")),
                policy.get("order_key", ""),
            )
        ),
        manager=row["manager"],
        secret=policy.get("secret", ""),
    )


def _write_delivery(delivery: DeliveryMode) -> dict[str, object]:
    """The delivery mode as a part of the policy; nothing for the usual one."""
    if delivery == PUSH:
        return {}
    values = {field.name: getattr(delivery, field.name) for field in fields(delivery)}
    return {"delivery": values | {"mode": delivery.mode.value, "oversize": delivery.oversize.value}}


def _read_delivery(values: Any) -> DeliveryMode:
    if not values:
        return PUSH
    mode, oversize = Mode(values["mode"]), Oversize(values["oversize"])
    return shared(DeliveryMode(**{**values, "mode": mode, "oversize": oversize}))


def _write_calling(calling: Calling | None) -> dict[str, object]:
    """The part of the policy that says how a consumer is called; empty for one that asked by no
    call."""
    return {} if calling is None else {"calling": asdict(calling)}


def _read_calling(values: Any) -> Calling | None:
    return shared(Calling(**values)) if values else None


def _write_filter(filter_: Filter) -> str:
    return json.dumps(
        {
            name: [
                [one.text, one.dialect, one.namespaces, one.view] for one in getattr(filter_, name)
            ]
            for name in ("topics", "contents", "others")
        }
    )


def _read_filter(text: str) -> Filter:
    value = json.loads(text)
    return Filter(
        *(
            tuple(
                Expression(
                    text, dialect, tuple((prefix, uri) for prefix, uri in namespaces), View(view)
                )
                for text, dialect, namespaces, view in value[name]
            )
            for name in ("topics", "contents", "others")
        )
    )


def _write_rights(rights: Rights | None) -> dict[str, object]:
    """The right to a topic as a part of the policy; nothing for one that needs none."""
    if rights is None:
        return {}
    lent = () if rights.delegation is None else (rights.delegation,)
    return {"rights": [rights.topic, rights.until.timestamp(), *lent]}


def _read_rights(value: Any) -> Rights | None:
    return None if value is None else Rights(value[0], moment_of(value[1]), *value[2:])
