"""Clients for every specification, which speak to a broker, a producer or a consumer.

What a name needs is imported when it is first used: ``import dragoman.client`` is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.client import Client, Consumer, GatewayError, subscribed

_HOMES = {
    "Client": "gateway.client",
    "Consumer": "gateway.client",
    "GatewayError": "gateway.client.errors",
    "subscribed": "gateway.client",
}
__all__ = ["Client", "Consumer", "GatewayError", "subscribed"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
