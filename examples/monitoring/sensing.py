"""What this machine says of itself (Linux, proc(5)), and the type of events of its network."""

from dataclasses import dataclass
from pathlib import Path

from gateway.client.grid_events import TYPES, Event

NAMESPACE = "http://example.org/monitoring"


@TYPES.register(NAMESPACE, "NetworkEvent")
@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkEvent(Event):
    """Octets of all interfaces since the machine started."""

    octets_received: int = 0
    octets_sent: int = 0


class Processor:
    """How busy the processors are, between one look and the next."""

    def __init__(self) -> None:
        self._busy, self._all = self._look()

    def look(self) -> float:
        """The share that was busy, 0 to 1."""
        busy, all_ = self._look()
        share = (busy - self._busy) / max(1, all_ - self._all)
        self._busy, self._all = busy, all_
        return min(1.0, max(0.0, share))

    def _look(self) -> tuple[int, int]:
        first = Path("/proc/stat").read_text().partition("\n")[0]
        times = [int(one) for one in first.split()[1:9]]
        return sum(times) - times[3] - times[4], sum(times)


def memory_used() -> int:
    """KiB."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines if len(line.split()) > 1}
    return sizes["MemTotal"] - sizes.get("MemAvailable", sizes["MemFree"])


def network() -> tuple[int, int]:
    """Octets that were received, and sent."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    counts = [line.partition(":")[2].split() for line in lines]
    return sum(int(one[0]) for one in counts), sum(int(one[8]) for one in counts)
