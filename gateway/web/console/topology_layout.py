"""Places the parts of a topology in a picture: publishers, topics, the messaging system and hosts
of subscribers in four columns, with the flows between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log1p
from typing import Any
from urllib.parse import urlencode

WIDTH = 1180
COLUMNS = {"publishers": (0, 200), "topics": (290, 230), "broker": (610, 170), "hosts": (900, 280)}
"""To each column where it begins, and how wide it is."""
HEIGHT, GAP, TOP = 40, 10, 30
CHARACTER, OF_NOTE = 6.9, 5.8
"""The width of a character of a name, and of a note under it."""
THINNEST, THICKEST = 1.0, 7.0
PLACES = (0.5, 0.35, 0.65, 0.22, 0.78)
"""Parts of a flow at which its rate may be written, the best first."""
LABEL_WIDTH, LABEL_HEIGHT = 48, 12


@dataclass(frozen=True, slots=True)
class Box:
    """A part, with two lines of text.

    Attributes:
        link: The page of what it stands for; empty: there is none.
        title: All of its name.
        bad: Something fails there.
    """

    x: float
    y: float
    width: float
    height: float
    text: str
    note: str
    title: str
    link: str = ""
    bad: bool = False

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class Line:
    """A flow: a path of SVG, its rate, and the place where that is written."""

    start: tuple[float, float]
    end: tuple[float, float]
    path: str
    width: float
    title: str
    rate: str
    label: tuple[float, float] | None = None

    def at(self, part: float) -> tuple[float, float]:
        """The place at a *part* of the curve: a Bezier curve whose ends are level."""
        (x1, y1), (x2, y2) = self.start, self.end
        x = x1 + (x2 - x1) * (1.5 * part - 1.5 * part**2 + part**3)
        y = y1 + (y2 - y1) * (3 * part**2 - 2 * part**3)
        return round(x), round(y) - 3


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and lines within a height."""

    height: float
    boxes: Sequence[Box]
    lines: Sequence[Line]


def draw_topology(now: Mapping[str, Any]) -> Picture:
    """Place what ``GET /api/v1/topology`` answers."""
    publishers = _column("publishers", [_publisher(one) for one in now["publishers"]])
    topics = _column("topics", [*map(_topic, now["topics"]), *_more_topics(now)])
    hosts = _column("hosts", [*map(_host, now["consumers"]), *_more_hosts(now)])
    bottom = max((one.y + one.height for one in (*publishers, *topics, *hosts)), default=TOP)
    broker = _broker(now, bottom)
    height = max(bottom, broker.y + broker.height) + GAP
    lines = _lines(now, publishers, topics, broker, hosts)
    return Picture(height, [*publishers, *topics, broker, *hosts], lines)


def _column(name: str, parts: Sequence[Mapping[str, Any]]) -> list[Box]:
    x, width = COLUMNS[name]
    return [
        Box(
            x,
            TOP + place * (HEIGHT + GAP),
            width,
            HEIGHT,
            **{
                **part,
                "text": _fits(part["title"], width),
                "note": _fits(part["note"], width, OF_NOTE),
            },
        )
        for place, part in enumerate(parts)
    ]


def _publisher(one: Mapping[str, Any]) -> Mapping[str, Any]:
    more = f" and {one['more']:,} more" if one["more"] else ""
    link = "/console/topology?" + urlencode({"spec": one["dialect"]})
    return {"title": one["dialect"], "note": ", ".join(one["publishers"]) + more, "link": link}


def _topic(one: Mapping[str, Any]) -> Mapping[str, Any]:
    if not one["topic"]:
        return {"title": "(no topic)", "note": ""}
    link = "/console/subscriptions?" + urlencode({"topic": one["topic"]})
    return {"title": one["topic"], "note": "", "link": link}


def _more_topics(now: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    number = now["more_topics"]["number"]
    return [{"title": f"and {number:,} more", "note": "", "link": "/console/topics"}] * bool(number)


def _host(one: Mapping[str, Any]) -> Mapping[str, Any]:
    number = one["subscriptions"]
    said = [f"{number:,} subscription{'s' * (number != 1)}"]
    said += [f"{one[what]:,} {what}" for what in ("failing", "waiting") if one[what]]
    link = "/console/subscriptions?" + urlencode({"consumer": one["consumers"]})
    note = ", ".join(said)
    return {"title": one["host"], "note": note, "link": link, "bad": bool(one["failing"])}


def _more_hosts(now: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    number = now["more_consumers"]["number"]
    said = {"title": f"and {number:,} more", "note": "", "link": "/console/subscriptions"}
    return [said] * bool(number)


def _broker(now: Mapping[str, Any], bottom: float) -> Box:
    """The messaging system, in the middle of its column."""
    broker, queues = now["broker"], now["queues"]
    x, width = COLUMNS["broker"]
    y = max(TOP, (TOP + bottom - HEIGHT * 1.5) / 2)
    number = len(queues)
    queued = f"{number} queue{'s' * (number != 1)}, " if queues else ""
    note = f"{queued}{now['unsettled']:,} under way"
    bad = broker["connected"] is False or bool(broker["blocked"])
    name = broker["adapter"]
    title = f"{name}: {', '.join(queues)}" if queues else name
    return Box(x, y, width, HEIGHT * 1.5, name, note, title, "/console", bad)


def _lines(
    now: Mapping[str, Any],
    publishers: Sequence[Box],
    topics: Sequence[Box],
    broker: Box,
    hosts: Sequence[Box],
) -> list[Line]:
    """The flows, each with its rate."""
    dialects = {one["dialect"]: box for one, box in zip(now["publishers"], publishers, strict=True)}
    names = [one["topic"] for one in now["topics"]] + [None] * bool(now["more_topics"]["number"])
    of_topic = dict(zip(names, topics, strict=True))
    topic_rates = [one["rate"] for one in (*now["topics"], now["more_topics"])]
    host_rates = [one["rate"] for one in (*now["consumers"], now["more_consumers"])]
    most = max([*topic_rates, *host_rates, 0.001])
    lines = []
    for flow in now["flows"]:
        topic = flow["topic"]
        lines.append(_line(dialects[flow["dialect"]], of_topic[topic], flow["rate"], most))
    # Where all are named, there is no last box for the last rate.
    for box, rate in zip(topics, topic_rates, strict=False):
        lines.append(_line(box, broker, rate, most))
    for box, rate in zip(hosts, host_rates, strict=False):
        lines.append(_line(broker, box, rate, most))
    return _label(lines)


def _label(lines: Sequence[Line]) -> list[Line]:
    """*lines* with their rates where these do not cover each other; one for which there is no such
    place has none, but says it when it is pointed at."""
    labelled, taken = [], list[tuple[float, float]]()
    for line in lines:
        free = (
            (x, y)
            for x, y in map(line.at, PLACES)
            if all(abs(x - a) > LABEL_WIDTH or abs(y - b) > LABEL_HEIGHT for a, b in taken)
        )
        place = next(free, None) if line.rate else None
        if place is not None:
            taken.append(place)
        labelled.append(replace(line, label=place))
    return labelled


def _line(from_: Box, to: Box, rate: float, most: float) -> Line:
    x1, y1, x2, y2 = from_.x + from_.width, from_.middle, to.x, to.middle
    half = (x2 - x1) / 2
    path = f"M{x1:.0f} {y1:.0f}C{x1 + half:.0f} {y1:.0f} {x2 - half:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    width = THINNEST + (THICKEST - THINNEST) * min(1.0, log1p(rate) / log1p(most))
    said = _per_second(rate)
    title = f"{from_.title} to {to.title}: {said or 'nothing'}"
    return Line((x1, y1), (x2, y2), path, round(width, 1), title, said)


def _per_second(rate: float) -> str:
    """*rate* for people; slow ones by the minute."""
    if rate < 1:
        return f"{rate * 60:.1f}/min" if rate else ""
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s"


def _fits(text: str, width: float, character: float = CHARACTER) -> str:
    """*text* without its middle, where it is too long for a box."""
    most = int((width - 16) / character)
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"
