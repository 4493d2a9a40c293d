"""An adapter of RabbitMQ that runs, and what a broker refuses one."""

import contextlib
import uuid
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import pika

from adapters import Adapter, Interest, load
from filters import Step, Topic
from mediation.model.messages import Notification
from tests.rigs.adapters import started
from tests.rigs.brokers import PASSWORD, RabbitMQ


def running(
    url: str, name: str, *interests: Interest, **settings: str
) -> AbstractAsyncContextManager[Adapter]:
    """One with queues and an exchange of *name*, as `started`."""
    adapter = load(url, data=Path("nowhere"), settings={"name": name, "exchange": name, **settings})
    return started(adapter, *interests)


def environment_of(url: str, name: str | None = None, *settings: str) -> dict[str, str]:
    """What makes a gateway stand in front of *url*, with queues of its own."""
    name = name or f"test-{uuid.uuid4().hex[:12]}"
    query = "&".join([f"name={name}", f"exchange={name}", *settings])
    return {"DRAGOMAN_ADAPTER": f"{url}?{query}"}


@dataclass(frozen=True, slots=True)
class Refusing:
    """What a RabbitMQ refuses a user for good, who makes what is called like him. ``octets``: a message that is larger;
    ``exchanges``: one that may only be read, one that is internal, one that is missing."""

    user: str
    url: str
    octets: int
    exchanges: tuple[str, ...]

    def on(self, notification: Notification, exchange: str) -> Notification:
        """Return *notification* on a topic that is at *exchange*."""
        topic = Topic((Step(f"urn:{exchange}", "orders"), Step(None, "new")))
        return replace(notification, topic=topic)


@contextlib.contextmanager
def refusing(node: RabbitMQ, name: str, octets: int = 3 * 2**20) -> Iterator[Refusing]:
    """Have *node* refuse some of what a gateway of *name* publishes."""
    read = f"read.{name}"
    with contextlib.closing(pika.BlockingConnection(pika.URLParameters(node.url))) as program:
        program.channel().exchange_declare(read, "topic", durable=True)
    user, by, users = f'<<"{name}">>', '<<"test">>', "rabbit_auth_backend_internal"
    rights = f'<<"^{name}">>, <<"^({name}|amq.rabbitmq|missing)">>, <<".*">>'
    # In one call: each starts an Erlang, for more than a second of processor time.
    node.control(
        "eval",
        f"application:set_env(rabbit, max_message_size, {octets}),"
        f'{users}:add_user({user}, <<"{PASSWORD}">>, {by}),'
        f'{users}:set_permissions({user}, <<"/">>, {rights}, {by}).',
    )
    try:
        exchanges = read, "amq.rabbitmq.trace", f"missing.{name}"
        yield Refusing(name, node.at(node.port, user=name), octets, exchanges)
    finally:
        node.control(
            "eval",
            f"{users}:delete_user({user}, {by}), application:unset_env(rabbit, max_message_size).",
        )
