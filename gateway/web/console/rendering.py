"""Renders the console's templates."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from gateway.web.console.fields import link_of
from gateway.web.console.sparklines import sparkline
from gateway.web.console.tables import OF_IDENTITIES, TABLES, value_of

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent
FIRST = 5
"""Tables that operators look at most: they stand beside the overview."""
_MOMENT = re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z\b")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@lru_cache
def _environment() -> "Environment":
    # Imported with the first page: it takes 70 ms, for which no start has to wait.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "time": time_of,
        "size": size_of,
        "number": number_of,
        "duration": duration_of,
        "coded": coded,
        "timed": timed,
        "at": value_of,
    }
    made.globals |= {"navigation": navigation, "sparkline": sparkline, "link_of": link_of}
    return made


def navigation(acts: bool, logs_in: bool) -> list[list[tuple[str, str]]]:
    """The groups of the navigation: of each page its name in addresses, and its title.

    Args:
        acts: Whether anything can be changed: some pages are of no use otherwise.
        logs_in: Whether there are identities.
    """
    everything = TABLES.values()
    tables = [(one.name, one.title) for one in everything if one not in OF_IDENTITIES]
    identities = [(one.name, one.title) for one in OF_IDENTITIES]
    tools = [("viewer", "Message Viewer"), ("try", "Try it"), ("brokers", "Other brokers")]
    groups = [
        [("", "Overview"), ("topology", "Topology"), ("tap", "Live"), *tables[:FIRST]],
        tables[FIRST:],
        *([identities] if logs_in else ()),
    ]
    return [*groups, tools] if acts else groups


class Rendering:
    """What all pages have in common.

    Args:
        acts: Whether buttons are shown.
        headers: Those of every page.
        logs_in: Whether people log in, so that they can log out.
    """

    def __init__(self, *, acts: bool, headers: Mapping[str, str], logs_in: bool = False) -> None:
        self.acts = acts
        self._logs_in = logs_in
        self._headers = headers

    async def page(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Render a page. Not on the event loop: a list of a thousand rows takes 100 ms, and the
        first page has the template compiled."""
        text = await asyncio.to_thread(self._render, template, values)
        return HTMLResponse(text, status, headers=dict(self._headers))

    def _render(self, template: str, values: Mapping[str, Any]) -> str:
        return (
            _environment()
            .get_template(template)
            .render(acts=self.acts, logs_in=self._logs_in, **values)
        )


def time_of(text: str | None) -> Markup | str:
    """A moment, ISO 8601, in UTC; a script shows it in the reader's zone."""
    if not text:
        return ""
    moment = datetime.fromisoformat(text).astimezone(UTC)
    return Markup('<time datetime="{}">{:%Y-%m-%d %H:%M:%S} UTC</time>').format(text, moment)


def timed(text: str) -> Markup:
    """*text*, in which moments of UTC are as `time_of` has them."""
    shown, end = Markup(), 0
    for found in _MOMENT.finditer(text):
        try:
            moment = time_of(found[0].replace(" ", "T"))
        except ValueError:  # It only looks like one.
            continue
        shown += escape(text[end : found.start()]) + moment
        end = found.end()
    return shown + escape(text[end:])


def size_of(count: int | None) -> str:
    """A number of bytes, for people."""
    if count is None:
        return ""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 10 else f"{size:.1f} {_UNITS[unit]}"


def number_of(value: float | Sequence[object] | None) -> str:
    """A number with its thousands apart; at most three digits of what is not whole."""
    if value is None:
        return ""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,.0f}"


def duration_of(seconds: float | None) -> str:
    """A duration, in milliseconds where it is short."""
    if seconds is None:
        return "-"
    return f"{number_of(seconds * 1000)} ms" if seconds < 1 else f"{number_of(seconds)} s"


def coded(text: str) -> Markup:
    """*text*, with what stands between two grave accents as code."""
    parts = [escape(part) for part in text.split("`")]
    shown = [f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts)]
    return Markup("").join(Markup(part) for part in shown)
