"""Bars of parts, as SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#bbbbbb", "#aa3377")
"""Colours that the colour-blind can tell apart (P. Tol)."""
WIDTH, LEFT, RIGHT = 760, 170, 70
BAR, GAP, TOP = 22, 10, 56


@dataclass(frozen=True)
class Bar:
    """A bar, and its parts, in milliseconds."""

    name: str
    parts: Mapping[str, float]

    @property
    def whole(self) -> float:
        return sum(self.parts.values())


def chart(title: str, bars: Sequence[Bar], *, shares: bool) -> str:
    """Draw *bars* as an SVG document.

    Args:
        shares: Each is as long as the others; else the longest fills the width.
    """
    names = list(dict.fromkeys(name for bar in bars for name in bar.parts))
    room, longest = WIDTH - LEFT - RIGHT, max(bar.whole for bar in bars)
    height = TOP + len(bars) * (BAR + GAP) + GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="18" font-size="14">{escape(title)}</text>',
    ]
    at = 8.0
    for number, name in enumerate(names):
        lines.append(f'<rect x="{at:.0f}" y="30" width="12" height="12" fill="{_colour(number)}"/>')
        lines.append(f'<text x="{at + 16:.0f}" y="40">{escape(name)}</text>')
        at += 32 + 7 * len(name)
    for row, bar in enumerate(bars):
        y = TOP + row * (BAR + GAP)
        lines.append(
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(bar.name)}</text>'
        )
        x, scale = float(LEFT), room / ((bar.whole if shares else longest) or 1.0)
        for number, name in enumerate(names):
            part = max(0.0, bar.parts.get(name, 0.0)) * scale
            if part > 0:
                lines.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{part:.1f}" height="{BAR}" '
                    f'fill="{_colour(number)}"/>'
                )
            x += part
        lines.append(f'<text x="{x + 6:.1f}" y="{y + 15}">{bar.whole:.1f} ms</text>')
    return "\n".join((*lines, "</svg>\n"))


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]
