"""A gateway and a consumer, which the tests of one foreign program share."""

from tests.gateway.conftest import _copy_stores, consumer, gateway

__all__ = ["_copy_stores", "consumer", "gateway"]
