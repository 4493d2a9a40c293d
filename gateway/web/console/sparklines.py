"""Pictures of numbers, as SVG that needs no script and no style of its own."""

from collections.abc import Sequence

from markupsafe import Markup

WIDTH, HEIGHT = 240, 40


def sparkline(values: Sequence[float | None], title: str) -> Markup:
    """Draw *values* as a line, the oldest at the left; where there is none, there is a gap.

    Args:
        title: What a reader of the page is told who does not see it.
    """
    most = max((value for value in values if value is not None), default=0.0) or 1.0
    across = WIDTH / max(len(values) - 1, 1)
    drawn, pen_down = [], False
    for place, value in enumerate(values):
        if value is not None:
            height = HEIGHT - 1 - value / most * (HEIGHT - 2)
            # Of a value between two gaps a round end of the line is seen.
            start = f"M{place * across:.1f} {height:.1f}h.01"
            drawn.append(f"L{place * across:.1f} {height:.1f}" if pen_down else start)
        pen_down = value is not None
    return Markup(
        '<svg class="sparkline" role="img" viewBox="0 0 {} {}" preserveAspectRatio="none">'
        '<title>{}</title><path d="{}"/></svg>'
    ).format(WIDTH, HEIGHT, title, " ".join(drawn))
