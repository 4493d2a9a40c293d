"""Subscribing to events of a gateway itself, and reading them."""

from lxml import etree

from mediation.names import DRAGOMAN_SYSTEM
from tests.rigs.consumers import Consumer
from tests.rigs.envelopes import FULL, Speaker, topic_expression
from tests.rigs.processes import GatewayProcess
from tests.rigs.waiting import until

SPEAKER = Speaker()
EVERY = topic_expression("sys:*//.", FULL, f'xmlns:sys="{DRAGOMAN_SYSTEM}"')


async def listen_to_system_events(
    gateway: GatewayProcess, consumer: str, *others: GatewayProcess
) -> None:
    """Subscribe *consumer* to all events of the gateways; on return the *others* know of it."""
    answer = await gateway.ask(SPEAKER.wsn_subscribe(consumer, filter=EVERY, raw=True))
    assert answer.status == 200, answer.body
    known = (await gateway.metrics())["subscriptions"]

    async def all_know() -> bool:
        return all([(await one.metrics())["subscriptions"] >= known for one in others])

    await until(all_know)


async def next_system_event(consumer: Consumer) -> tuple[str, str]:
    """The kind of the next event, and the subscription that it is about."""
    kind, fields = system_event((await consumer.next()).body)
    return kind, fields.get("subscription", "")


def system_event(body: bytes) -> tuple[str, dict[str, str]]:
    """The kind and the fields of the event in *body*."""
    [found] = etree.fromstring(body).iter(f"{{{DRAGOMAN_SYSTEM}}}Event")
    fields = {etree.QName(one).localname: one.text or "" for one in found}
    return str(found.get("kind")), fields
