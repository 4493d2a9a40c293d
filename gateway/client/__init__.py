"""The client library: publish to a gateway, subscribe to it, and receive, with no deployment.

::

    async with Client("http://127.0.0.1:8080") as client, Consumer() as consumer:
        async with subscribed(client, consumer.address, topic="storms"):
            await client.publish(b"<speed>120</speed>", topic="storms")
            message = await consumer.receive()
            print(message.notifications[0].payload)
"""

from filters.extras import how_to_install

try:
    import aiohttp as _aiohttp  # noqa: F401 (its absence is said once, here)
except ModuleNotFoundError as error:
    if error.name != "aiohttp":
        raise
    raise ModuleNotFoundError(
        "speaking to a gateway needs aiohttp (the extra client), which is not installed: "
        + how_to_install("client"),
        name="aiohttp",
    ) from error

from gateway.client.administration import Administration, Changed, Letters, Record
from gateway.client.calling import Answer, base_url, endpoint_url, shown
from gateway.client.consumer import Consumer, ReceivedMessage
from gateway.client.credentials import Credentials
from gateway.client.errors import GatewayError
from gateway.client.events import AnyClient, EventClient, speaking
from gateway.client.grid_events import GridClient
from gateway.client.messaging import Client, Exchange, Subscription
from gateway.client.pulling import PulledMailbox
from gateway.client.renewal import RenewedSubscription, subscribed

Arrived = ReceivedMessage
Held = RenewedSubscription
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
    "base_url",
    "endpoint_url",
    "shown",
    "speaking",
    "subscribed",
]
