"""Messages by the tenants that they are of, on each store."""

from dataclasses import replace
from functools import partial
from itertools import permutations

from gateway.store import HeldRow, Store, messages, waiting_deliveries
from mediation.names import PUBLISHER
from mediation.tenants import as_its_tenant_knows_it, tenant_of_event, topic_in
from tests.gateway.store.test_owner_bytes import with_subscription
from tests.rigs.dispatching import notification
from tests.rigs.stores import on_each_store

TENANTS = ("", "acme", "acme-2")
OTHERS = (f"{PUBLISHER.upper()}TENANT:ACME:x", f"{PUBLISHER}tenant", "urn:%_")
"""Sources that a program may write: of no tenant, however much they look like one."""


@on_each_store
async def test_each_tenant_has_what_is_its_own(store: Store) -> None:
    """Of messages with one id, in whatever order they came."""
    await with_subscription(store, "somebody", "s")
    for number, order in enumerate(permutations(TENANTS)):
        sent = [
            as_its_tenant_knows_it(
                replace(notification(str(number)), topic=topic_in(tenant, None), payload=b"<own/>")
            )
            for tenant in order
        ] + [replace(notification(str(number)), source=source) for source in OTHERS]
        work = [
            (one, HeldRow("s", 10 * number + position, one.octets, 0.0))
            for position, one in enumerate(sent)
        ]
        await store.submit(partial(waiting_deliveries.hold, work=work))
        id_ = sent[0].id
        for tenant in TENANTS:
            find = partial(messages.with_id, id=id_, tenant=tenant)
            found = await store.submit(find)
            assert found is not None and tenant_of_event(found) == tenant, (order, tenant)
            waiting = partial(messages.waiting_of, ids=[id_], limit=99, tenant=tenant)
            sources = {one.source for one in await store.submit(waiting)}
            assert sources == {one.source for one in sent if tenant_of_event(one) == tenant}
