"""What operators are told of destinations: why each is sent to, and what it is shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.delivery import ProbationLimits, Probations
from gateway.delivery.destinations.failures import FailureCounts
from gateway.delivery.destinations.probation import Name
from gateway.delivery.outbox import OutboxDestination
from gateway.egress import AddressPolicy, AddressRefused, Consumer, ConsumerOptions, parse_target
from gateway.model.host_decisions import Decision, HostDecision, HostDecisions
from gateway.web.destinations import Destinations, host_of


def destinations(tmp_path: Path) -> Destinations:
    secret = tmp_path / "secret"
    secret.write_text("hush")
    rows = [
        Consumer(
            address="https://bank.example",
            owner="user:bank",
            credential={"kind": "bearer", "name": "bank-token", "secret_file": secret},
        )
    ]
    probations = Probations(limits=ProbationLimits())
    list(probations.agree(("https", "took.example", 443)))
    for name in (("https", "new.example", 443), ("http", "fd00::1", 8080)):
        probations.admit(OutboxDestination(name), "anonymous:192.0.2.1", 0.0)
    failures = FailureCounts()
    for host in ("took", "bank", "never", "bad", "new"):
        failures.note(f"https://{host}.example:443", "answered 500", 1.0)
    decisions = HostDecisions()
    decisions.replace(
        [
            HostDecision("chosen.example", Decision.APPROVED, "user:ada", 1.7e9),
            HostDecision("victim.example", Decision.FORBIDDEN, "user:ada", 1.7e9),
        ]
    )
    probations.note_refusal("no.example", "it answered 404")
    policy = AddressPolicy(
        forbid=["bad.example", "10.6.6.0/24"], allow=["10.0.0.0/8"], decisions=decisions
    )
    return Destinations(failures, probations, ConsumerOptions(rows), policy, decisions)


def test_the_agreement_of_each(tmp_path: Path) -> None:
    listed = {one.failures.destination: one for one in destinations(tmp_path).listed(100)}
    assert {name: one.agreement.value for name, one in listed.items()} == {
        "https://took.example:443": "agreed",
        "https://bank.example:443": "owned",
        "https://never.example:443": "unknown",
        "https://bad.example:443": "forbidden",
        "https://new.example:443": "probation",
        "http://[fd00::1]:8080": "probation",
        "chosen.example": "agreed",
        "victim.example": "forbidden",
        "no.example": "refused",
    }
    assert listed["victim.example"].why == "forbidden by user:ada at 2023-11-14 22:13:20Z"
    assert listed["no.example"].why == "it answered 404"
    assert listed["https://bank.example:443"].credentials == ("bank-token",)
    assert not listed["https://took.example:443"].credentials
    assert len(list(destinations(tmp_path).listed(3))) == 3


@pytest.mark.parametrize(
    ("address", "forbidden"),
    [
        ("https://bad.example/x", True),
        ("http://10.6.6.7/", True),
        ("http://10.6.7.7/", False),
        ("https://good.example/", False),
    ],
)
def test_a_host_that_is_forbidden(tmp_path: Path, address: str, forbidden: bool) -> None:
    policy = destinations(tmp_path).policy
    if forbidden:
        with pytest.raises(AddressRefused) as refused:
            policy.check_named(parse_target(address))
        assert refused.value.allowed_by == "egress_forbidden"
    else:
        policy.check_named(parse_target(address))


@pytest.mark.parametrize(
    ("named", "host"),
    [
        ("Consumer.Example", "consumer.example"),
        ("https://consumer.example:8443", "consumer.example"),
        ("http://[fd00::1]:8080", "fd00::1"),
        ("fd00::1", "fd00::1"),
        ("10.0.0.1", "10.0.0.1"),
    ],
)
def test_the_host_that_an_operator_names(named: str, host: str) -> None:
    assert host_of(named) == host


@pytest.mark.parametrize(
    "named", ["", "mailbox://", "*.example", "a b", "10.0.0.0/8", "u@h.example"]
)
def test_what_is_no_host_is_not_decided_about(named: str) -> None:
    with pytest.raises(AddressRefused):
        host_of(named)


class Counted(Probations):
    """Counts the destinations that it was asked for."""

    looked_at = 0

    def on_probation(self) -> Iterator[Name]:
        for name in super().on_probation():
            self.looked_at += 1
            yield name


def test_of_many_on_probation_no_more_are_looked_at_than_are_listed() -> None:
    """Strangers make them, and one request of an operator must not hold the gateway up."""
    probations, failures = Counted(limits=ProbationLimits()), FailureCounts()
    for number in range(500):
        name = ("https", f"host-{number}.example", 443)
        probations.admit(OutboxDestination(name), "anonymous:192.0.2.1", 0.0)
        failures.note(f"https://never-{number}.example:443", "answered 500", 1.0)
    found = Destinations(failures, probations, ConsumerOptions(), AddressPolicy())
    assert len(list(found.listed(520))) == 520
    assert probations.looked_at == 20


def test_a_name_that_is_counted_by_its_address_too_is_listed_once() -> None:
    probations, name = Probations(limits=ProbationLimits()), ("https", "new.example", 443)
    destination = OutboxDestination(name)
    probations.admit(destination, "anonymous:192.0.2.1", 0.0)
    assert probations.gate(name, lambda: 0.0, destination)("10.0.0.1")
    found = Destinations(FailureCounts(), probations, ConsumerOptions(), AddressPolicy())
    assert [one.failures.destination for one in found.listed(10)] == ["https://new.example:443"]
