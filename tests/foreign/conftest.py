"""A gateway and a consumer, which the tests of one foreign program share."""

from tests.gateway.conftest import _make_stores_quickly, consumer, gateway

__all__ = ["_make_stores_quickly", "consumer", "gateway"]
