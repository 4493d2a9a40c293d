"""Metrics of SOAP.TCP that both sides of it count."""

from collections.abc import Mapping

from gateway.observing.samples import Sample, counter, gauges


def connection_sample(opened_by: Mapping[str, int]) -> Sample:
    """Connections, by who opened them: ``peers`` or ``us``."""
    by_label: dict[tuple[str, ...], float] = {(who,): number for who, number in opened_by.items()}
    return gauges("soap_tcp_connections", "Connections of SOAP.TCP.", ("opened_by",), by_label)


def fault_sample(number: int) -> Sample:
    """Faults about messages that nobody waits for an answer to."""
    return counter(
        "soap_tcp_faults",
        "Faults about one-way messages by SOAP.TCP: only the log was told.",
        number,
    )
