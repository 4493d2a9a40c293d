"""A gateway and a consumer, which the tests of one foreign program share."""

from tests.gateway.conftest import _migrated_once, consumer, gateway

__all__ = ["_migrated_once", "consumer", "gateway"]
