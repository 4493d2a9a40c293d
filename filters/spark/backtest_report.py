"""The report of a backtest."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html import escape

from filters.spark.backtest import Hour, Result, Sample, Total
from filters.spark.charts import bar_chart, shortened
from filters.spark.page import facts, page, plural, section, table

MOST_HOURS = 72
"""Beyond these, counts are by day."""
MOST_FILTERS = 100
MAX_SAMPLE = 4000
"""Characters of a sample's payload that are shown."""


def html(result: Result, asked: Sequence[tuple[str, str]]) -> str:
    """The report; *asked* says what was asked for, as names and values."""
    many = len(result.totals) > 1
    said = (
        f"<p>{result.messages:,} of {result.rows:,} notifications in"
        f" {plural(result.files, 'file')} match{'es' * (result.messages == 1)}"
        f"{' at least one filter' if many else ''}: {result.octets:,} bytes of payload.</p>"
    )
    unit, rows = over_time(result.hours)
    sections = [
        section("What was asked", facts(asked)),
        section(
            f"Messages by {unit}",
            bar_chart([(label, float(messages)) for label, messages, _ in rows]),
            note="By the time that the notification carries, in UTC; each once."
            f" {unit.title()}s without any are left out.",
        ),
    ]
    if many:
        sections.append(_filters(result.totals))
    if result.samples:
        sections.append(section("The first ones", *map(_sample, result.samples)))
    if result.damaged:
        sections.append(_damage(result))
    return page("Backtest", said, sections)


def over_time(hours: Sequence[Hour]) -> tuple[str, list[tuple[str, int, int]]]:
    """Label, messages and octets of each hour, or of each day where there are many hours."""
    if not hours:
        return "hour", []
    if hours[-1].start - hours[0].start < timedelta(hours=MOST_HOURS):
        return "hour", [(f"{h.start:%Y-%m-%d %H:00Z}", h.messages, h.octets) for h in hours]
    days: dict[str, tuple[int, int]] = {}
    for hour in hours:
        label = f"{hour.start:%Y-%m-%d}"
        messages, octets = days.get(label, (0, 0))
        days[label] = (messages + hour.messages, octets + hour.octets)
    return "day", [(label, *sums) for label, sums in days.items()]


def busiest(totals: Sequence[Total]) -> list[Total]:
    """Return the totals that match something, the one with the most messages first."""
    return sorted((one for one in totals if one.messages), key=lambda one: -one.messages)


def _sample(sample: Sample) -> str:
    what = (sample.id, f"{sample.time:%Y-%m-%d %H:%M:%SZ}", sample.topic or "default topic")
    payload = escape(shortened(sample.payload, MAX_SAMPLE))
    return f"<p>{escape(', '.join(what))}</p><pre>{payload}</pre>"


def _filters(totals: Sequence[Total]) -> str:
    found = busiest(totals)
    rows = [
        (one.id, f"{one.messages:,}", f"{one.octets:,}", _time(one.first), _time(one.last))
        for one in found[:MOST_FILTERS]
    ]
    shown = f" The {MOST_FILTERS} busiest are shown." if len(found) > MOST_FILTERS else ""
    return section(
        "Messages by filter",
        table(("filter", "messages", "bytes", "first", "last"), rows),
        note=f"{len(found):,} of {len(totals):,} filters match something.{shown}",
    )


def _damage(result: Result) -> str:
    rows = [(file, reason, f"{read:,}") for file, read, reason in result.damage]
    return section(
        "Damaged files",
        table(("file", "what is wrong", "rows before it"), rows, left=2),
        note=f"Not readable to the end: {plural(result.damaged, 'file')}. What stands before the"
        " damage was matched.",
    )


def _time(time: datetime | None) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}" if time else ""
