"""The client library: publish to a gateway, subscribe to it, and receive, with no deployment.

::

    async with Client("http://127.0.0.1:8080") as client, Consumer() as consumer:
        async with subscribed(client, consumer.address, topic="storms"):
            await client.publish(b"<speed>120</speed>", topic="storms")
            message = await consumer.receive()
            print(message.notifications[0].payload)

A name is imported from its module when it is first asked for: most programs need few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.client.administration import Administration, Changed, Letters, Record
    from gateway.client.calling import Answer, base_url, endpoint_url, shown
    from gateway.client.consumer import Consumer, ReceivedMessage
    from gateway.client.consumer import ReceivedMessage as Arrived
    from gateway.client.credentials import Credentials
    from gateway.client.errors import GatewayError, UnsupportedOperation
    from gateway.client.events import AnyClient, EventClient, speaking
    from gateway.client.grid_events import GridClient
    from gateway.client.messaging import Client, Exchange, Subscription
    from gateway.client.pulling import PulledMailbox
    from gateway.client.renewal import RenewedSubscription, subscribed
    from gateway.client.renewal import RenewedSubscription as Held

_MODULES = {
    "gateway.client.administration": ("Administration", "Changed", "Letters", "Record"),
    "gateway.client.calling": ("Answer", "base_url", "endpoint_url", "shown"),
    "gateway.client.consumer": ("Consumer", "ReceivedMessage"),
    "gateway.client.credentials": ("Credentials",),
    "gateway.client.errors": ("GatewayError", "UnsupportedOperation"),
    "gateway.client.events": ("AnyClient", "EventClient", "speaking"),
    "gateway.client.grid_events": ("GridClient",),
    "gateway.client.messaging": ("Client", "Exchange", "Subscription"),
    "gateway.client.pulling": ("PulledMailbox",),
    "gateway.client.renewal": ("RenewedSubscription", "subscribed"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
_FORMER = {"Arrived": "ReceivedMessage", "Held": "RenewedSubscription"}
"""Former names, which stay."""

__all__ = [
    "Administration",
    "Answer",
    "AnyClient",
    "Arrived",
    "Changed",
    "Client",
    "Consumer",
    "Credentials",
    "EventClient",
    "Exchange",
    "GatewayError",
    "GridClient",
    "Held",
    "Letters",
    "PulledMailbox",
    "ReceivedMessage",
    "Record",
    "RenewedSubscription",
    "Subscription",
    "UnsupportedOperation",
    "base_url",
    "endpoint_url",
    "shown",
    "speaking",
    "subscribed",
]


def __getattr__(name: str) -> Any:
    name = _FORMER.get(name, name)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "aiohttp":
            raise
        from filters.extras import how_to_install

        text = "speaking to a gateway needs aiohttp (the extra client), which is not installed: "
        raise ModuleNotFoundError(text + how_to_install("client"), name="aiohttp") from error
