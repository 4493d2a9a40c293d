"""A gateway and a consumer, which the tests of one foreign program share."""

from tests.gateway.conftest import consumer, gateway

__all__ = ["consumer", "gateway"]
