"""The gate: answers that nobody reads."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from gateway.http import ConnectionGate, HttpLimits
from gateway.security.networks import networks

LIMITS = HttpLimits(unread=100, unread_per_address=40, unread_in_all=200)


@dataclass(eq=False)
class Connection:
    unwritten: int = 0
    evicted: bool = field(default=False)

    def evict(self) -> None:
        self.evicted = True
        self.unwritten = 0


def kept(*connections: Connection) -> list[bool]:
    return [not connection.evicted for connection in connections]


def admitted(gate: ConnectionGate, address: str, octets: int) -> Connection:
    connection = Connection(octets)
    assert gate.admit(connection, address)
    gate.note_unread(connection)
    return connection


def test_one_stranger_has_a_share() -> None:
    gate = ConnectionGate(LIMITS)
    first, other = admitted(gate, "192.0.2.1", 30), admitted(gate, "192.0.2.2", 30)
    second = admitted(gate, "192.0.2.1", 20)
    assert kept(first, second, other) == [False, True, True]


def test_what_was_read_counts_no_more() -> None:
    gate = ConnectionGate(LIMITS)
    first = admitted(gate, "192.0.2.1", 30)
    first.unwritten = 0
    assert kept(first, admitted(gate, "192.0.2.1", 30)) == [True, True]


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 60), st.booleans()), min_size=1, max_size=60
    )
)
def test_all_together_are_bounded_and_who_leaves_least_stays(
    steps: list[tuple[int, int, bool]],
) -> None:
    gate = ConnectionGate(LIMITS, networks(("198.51.100.0/24",)))
    connections: list[tuple[str, Connection]] = []
    for host, octets, trusted in steps:
        address = f"198.51.100.{host}" if trusted else f"192.0.2.{host}"
        connections.append((address, admitted(gate, address, octets)))
        strangers: dict[str, int] = {}
        for each, connection in connections:
            if each.startswith("192"):
                strangers[each] = strangers.get(each, 0) + connection.unwritten
        assert max(strangers.values(), default=0) <= 40
        assert sum(strangers.values()) <= 100
        assert sum(connection.unwritten for _, connection in connections) <= 200
    for _, connection in connections:
        gate.leave(connection)
    assert gate.connections == 0 and gate._octets == 0
