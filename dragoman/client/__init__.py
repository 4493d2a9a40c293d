"""Clients for every specification, which speak to a broker, a producer or a consumer.

::

    async with WsnClient("http://127.0.0.1:8080") as client:
        await client.publish("<speed>120</speed>", topic="storms")
        async for event in client.listen(topic="storms"):
            print(event.topic, event.payload)

To speak another specification, take the client of its name: the methods are the same.
`dragoman.sync` has the same clients for programs without asyncio. What speaks is imported when the
first client is made, so that ``import dragoman.client`` is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.client.base import Client
from dragoman.client.consumer import Consumer
from dragoman.client.dialects import (
    CloudEventsClient,
    DsubClient,
    GridEventsClient,
    OnvifClient,
    WseClient,
    WsManagementClient,
    WsMessengerClient,
    WsnClient,
)
from dragoman.client.listening import Listening
from dragoman.client.subscriptions import Subscription
from dragoman.events import Event

if TYPE_CHECKING:
    from gateway.client.errors import GatewayError, UnsupportedOperation

__all__ = [
    "Client",
    "CloudEventsClient",
    "Consumer",
    "DsubClient",
    "Event",
    "GatewayError",
    "GridEventsClient",
    "Listening",
    "OnvifClient",
    "Subscription",
    "UnsupportedOperation",
    "WsManagementClient",
    "WsMessengerClient",
    "WseClient",
    "WsnClient",
]


def __getattr__(name: str) -> Any:
    if name not in ("GatewayError", "UnsupportedOperation"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("gateway.client.errors"), name)
