"""How much a node does, and for whom."""

from gateway.discovery.limits import NodeLimits, RequestRates


def test_one_stranger_takes_nothing_from_others() -> None:
    limits = NodeLimits(strangers=20.0, of_stranger=4.0, of_stranger_at_once=10.0)
    at = 0.0
    rates = RequestRates(limits, lambda: at)
    assert sum(rates.allow_unsigned("urn:flooder") for _ in range(1000)) == 10
    assert sum(rates.allow_unsigned("urn:other") for _ in range(5)) == 5
    at = 1.0
    assert sum(rates.allow_unsigned("urn:flooder") for _ in range(1000)) == 4
    assert rates.allow_unsigned("urn:third")


def test_all_strangers_together_have_a_bound() -> None:
    rates = RequestRates(NodeLimits(strangers=20.0), lambda: 0.0)
    assert sum(rates.allow_unsigned(f"urn:{number}") for number in range(1000)) == 20
