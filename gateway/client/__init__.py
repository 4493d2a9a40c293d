"""The client library: publish to a gateway, subscribe to it, and receive, with no deployment.

::

    async with Client("http://127.0.0.1:8080") as client, Consumer() as consumer:
        async with subscribed(client, consumer.address, topic="storms"):
            await client.publish(b"<speed>120</speed>", topic="storms")
            arrived = await consumer.receive()
            print(arrived.notifications[0].payload)
"""

from gateway.client.administration import Administration, Record
from gateway.client.calling import Answer, base_url, shown
from gateway.client.consumer import Arrived, Consumer
from gateway.client.errors import GatewayError
from gateway.client.keeping import Held, subscribed
from gateway.client.messaging import Client, Exchange, Subscription
from gateway.client.pulling import PulledMailbox

__all__ = [
    "Administration",
    "Answer",
    "Arrived",
    "Client",
    "Consumer",
    "Exchange",
    "GatewayError",
    "Held",
    "PulledMailbox",
    "Record",
    "Subscription",
    "base_url",
    "shown",
    "subscribed",
]
