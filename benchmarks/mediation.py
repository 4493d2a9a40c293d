"""Measures what the mediation of one notification costs, in every pair of dialects.

Question: how long does it take to read a publication of 1.2 KiB, translate it and write it for a
consumer, in processor time of one core, beside lxml that parses the same octets and writes them
again? Both in turn, in one run. The messages are those of one publisher: each has an id and values
of its own, and the same envelope as the others.

    .venv/bin/python -m benchmarks.mediation [--rounds 15] [--from NAME] [--to NAME] [--whole]

With ``--whole`` each envelope is read as that of somebody who has not sent any before.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import cycle
from statistics import median

from lxml import etree

from benchmarks.machine import describe, pin
from filters import parse_clark
from filters.documents import DEFAULT_LIMITS
from mediation.cloudevents import notification_of, read_message
from mediation.detect import read
from mediation.matrix import (
    NOTIFIED,
    PUBLISHING,
    Dialect,
    Publication,
    write_batch,
    write_publication,
)
from mediation.model.messages import Notification
from mediation.model.requests import Arrival, Publish
from mediation.rendering import SoapShape, delivery_id, prepare, render

OCTETS = 1229
"""The length of the whole message: 1.2 KiB."""
SAME, ANY, RATIO = 60.0, 90.0, 4.0
"""The aims: at most microseconds in one dialect, and between any two; times bare lxml."""
CALLS = 200
"""Messages of one round."""
MESSAGES = 50
"""Messages that are unlike each other; they come in turn."""
UNUSUAL_LIMITS = replace(DEFAULT_LIMITS, octets=DEFAULT_LIMITS.octets - 1)
"""Narrower than the usual limits: what is known of an envelope was accepted under those, and is not
used where others hold, so that each message is read as a whole."""
_GATEWAY = "http://gateway.example.org/soap"
_TIME = datetime(2026, 1, 31, 10, tzinfo=UTC)
_ARRIVAL = Arrival("publisher", _TIME, "urn:uuid:fresh", url_topic=parse_clark("storms"))


@dataclass(frozen=True)
class Measured:
    """Microseconds a message of the mediation, and of bare lxml, the median of the rounds."""

    origin: Dialect
    target: Dialect
    cost: float
    bare: float
    smallest: float
    largest: float

    @property
    def ratio(self) -> float:
        return self.cost / self.bare


def event(filling: int, turn: int = 0) -> Notification:
    """An event, with so many characters in its last element; those of each turn have an id and
    values of their own."""
    readings = "".join(
        f'<o:reading at="{number}"><o:speed unit="knots">{10 + number + turn}</o:speed></o:reading>'
        for number in range(4)
    )
    payload = (
        f'<o:readings xmlns:o="http://ocean.example.org/ns">{readings}'
        f"<o:text>{'x' * filling}</o:text></o:readings>"
    )
    return Notification(
        f"urn:uuid:6e2d0f0b-5d0a-41c1-a912-366748368{turn:03}",
        "publisher",
        payload.encode(),
        _TIME,
        parse_clark("storms"),
        "http://ocean.example.org/ns/readings",
    )


def publications(origin: Dialect) -> list[Publication]:
    """Publications of `OCTETS`, or a little more where there is more around the payload."""
    empty = write_publication(origin, event(0), _GATEWAY)
    filling = max(0, OCTETS - len(empty.octets))
    return [write_publication(origin, event(filling, turn), _GATEWAY) for turn in range(MESSAGES)]


def reading(
    origin: Dialect, messages: list[Publication], *, whole: bool = False
) -> Callable[[], Notification]:
    """What reads the next of *messages* as the gateway does; *whole*: without what is known of its
    publisher's envelopes."""
    if not origin.in_soap:
        posted = cycle(
            [
                ([(n.lower().encode(), v.encode()) for n, v in message.headers], message.octets)
                for message in messages
            ]
        )

        def read_event() -> Notification:
            headers, octets = next(posted)
            (one,) = read_message(headers, octets)
            return notification_of(one, publisher="publisher", time=_TIME)

        return read_event

    envelopes = cycle([message.octets for message in messages])
    limits = UNUSUAL_LIMITS if whole else DEFAULT_LIMITS

    def read_envelope() -> Notification:
        request = read(next(envelopes), _ARRIVAL, limits=limits).request
        assert isinstance(request, Publish)
        return request.notifications[0]

    return read_envelope


def mediating(
    origin: Dialect, target: Dialect, messages: list[Publication], *, whole: bool = False
) -> Callable[[], bytes]:
    """What turns the next of *messages* into what a consumer is sent; *whole* as in `reading`."""
    read_one = reading(origin, messages, whole=whole)
    subscription = replace(target.subscription("http://consumer.example.org/events"), id="one")
    recipient = prepare(subscription)
    shape = target.shape()
    if target.delivery.batched and isinstance(shape, SoapShape):
        batched = shape

        def mediate_batch() -> bytes:
            notification = read_one()
            message_id = delivery_id(notification, subscription.id)
            return write_batch(batched, recipient, notification, message_id)

        return mediate_batch

    def mediate() -> bytes:
        notification = read_one()
        rendering = render(notification, recipient.shape, _GATEWAY)
        return rendering.fill(recipient, delivery_id(notification, subscription.id))

    return mediate


def bare(messages: list[Publication]) -> Callable[[], bytes]:
    """Lxml alone; of messages that are no XML, documents of their length."""
    documents = cycle(
        [
            message.octets
            if message.octets.startswith(b"<")
            else _document(len(message.octets), turn)
            for turn, message in enumerate(messages)
        ]
    )

    def parse_and_write() -> bytes:
        return etree.tostring(etree.fromstring(next(documents)))

    return parse_and_write


def _document(octets: int, turn: int) -> bytes:
    return event(max(0, octets - len(event(0).payload)), turn).payload


def timed(call: Callable[[], object]) -> float:
    """Microseconds of processor time for one call, over a round of them: others do not count."""
    begin = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - begin) / CALLS * 1e6


def measure(origin: Dialect, target: Dialect, rounds: int, *, whole: bool = False) -> Measured:
    """Both in turn, so that what else the machine does meets both."""
    messages = publications(origin)
    mediate, alone = mediating(origin, target, messages, whole=whole), bare(messages)
    timed(mediate), timed(alone)
    costs, bares = [], []
    for _ in range(rounds):
        costs.append(timed(mediate))
        bares.append(timed(alone))
    return Measured(origin, target, median(costs), median(bares), min(costs), max(costs))


def pairs(origin: str | None, target: str | None) -> Iterator[tuple[Dialect, Dialect]]:
    """The pairs to measure. What is fetched is rendered as what is sent, so it is left out."""
    for one in PUBLISHING:
        for other in NOTIFIED:
            wanted = origin in (None, one.name) and target in (None, other.name)
            if wanted and other.fetching is None:
                yield one, other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--from", dest="origin", choices=[one.name for one in PUBLISHING])
    sent = [one.name for one in NOTIFIED if one.fetching is None]
    parser.add_argument("--to", dest="target", choices=sent)
    parser.add_argument("--whole", action="store_true")
    options = parser.parse_args()
    pin(0)
    print(describe())
    found = [
        measure(*pair, options.rounds, whole=options.whole)
        for pair in pairs(options.origin, options.target)
    ]
    print("| from | to | us a message | bare lxml | ratio |")
    print("|---|---|---|---|---|")
    for one in found:
        spread = f"{one.cost:.1f} ({one.smallest:.1f} to {one.largest:.1f})"
        print(
            f"| `{one.origin.name}` | `{one.target.name}` | {spread} | {one.bare:.1f} "
            f"| {one.ratio:.1f} |"
        )
    same = [one for one in found if one.origin is one.target]
    for name, chosen, aim in (("one dialect", same, SAME), ("any pair", found, ANY)):
        if chosen:
            worst = max(chosen, key=lambda one: one.cost)
            print(
                f"{name}: median {median(one.cost for one in chosen):.1f} us, worst "
                f"{worst.cost:.1f} us ({worst.origin.name} to {worst.target.name}), "
                f"aim {aim:.0f}"
            )
    if found:
        worst = max(found, key=lambda one: one.ratio)
        print(
            f"ratio: median {median(one.ratio for one in found):.2f}, worst {worst.ratio:.2f} "
            f"({worst.origin.name} to {worst.target.name}), aim {RATIO:.0f}"
        )


if __name__ == "__main__":
    main()
