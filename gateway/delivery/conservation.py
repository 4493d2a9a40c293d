"""The conservation law: what matched is delivered, waiting, in flight or accounted for."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gateway.delivery.settlement import COUNTS, Settlement
from gateway.observing.samples import Sample, counter, gauge
from gateway.store import Totals
from gateway.store.totals import Letters


@dataclass(frozen=True, slots=True)
class Conservation:
    """The conservation law, read at one moment. All are numbers of deliveries."""

    totals: Totals
    waiting: int
    in_flight: int
    letters: Letters

    @property
    def dead_letters(self) -> int:
        """Dead letters that are kept."""
        return self.letters.kept

    @property
    def error(self) -> int:
        """Matched - (delivered + waiting + in flight + dead + expired + cancelled); where that is
        0, buried - (kept + purged)."""
        left = self.totals.matched - self.totals.settled() - self.waiting - self.in_flight
        return left or self.letters.error

    def metrics(self) -> Iterator[Sample]:
        """The sides of the law."""
        for name in ("matched", "delivered", "dead", "expired", "cancelled", "skipped"):
            yield counter(name, f"Deliveries {name}.", getattr(self.totals, name))
        yield counter("dead_letters_purged", "Dead letters forgotten.", self.letters.purged)
        yield gauge("waiting", "Deliveries that wait.", self.waiting)
        yield gauge("in_flight", "Deliveries under way.", self.in_flight)
        yield gauge("dead_letters", "Dead letters kept.", self.dead_letters)
        yield gauge(
            "dead_letters_bytes",
            "Bytes that count for the bounds of dead letters.",
            self.letters.octets,
        )
        yield gauge(
            "conservation_error", "What the conservation law leaves over; 0 at rest.", self.error
        )


def add_up(
    settlements: Iterable[Settlement], durable: Totals, held: int, letters: Letters, in_flight: int
) -> Conservation:
    """The law of all *settlements* together, over one store."""
    sums, live = replace(durable), 0
    for settlement in settlements:
        live += settlement.live
        for name in COUNTS:
            setattr(sums, name, getattr(sums, name) + getattr(settlement.uncommitted, name))
    return Conservation(sums, held + live - in_flight, in_flight, letters)
