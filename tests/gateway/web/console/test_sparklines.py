"""Pictures of numbers."""

import math
import re

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from gateway.web.console.sparklines import HEIGHT, WIDTH, sparkline

VALUES = st.lists(st.none() | st.floats(min_value=0, max_value=1e9), max_size=80)


@given(VALUES)
def test_a_line_stays_in_its_picture_and_has_gaps_where_values_are_missing(
    values: list[float | None],
) -> None:
    picture = etree.fromstring(str(sparkline(values, "Accepted & <more>")))
    assert picture.findtext("title") == "Accepted & <more>"
    path = picture.find("path")
    assert path is not None
    drawn = path.get("d") or ""
    points = re.findall(r"([ML])([0-9.]+) ([0-9.]+)", drawn)
    assert len(points) == sum(value is not None for value in values)
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for _, x, y in points)
    known = [value is not None for value in values]
    runs = sum(now and not before for before, now in zip([False, *known], known, strict=False))
    assert [letter for letter, _, _ in points].count("M") == runs


def test_the_highest_is_at_the_top_and_nothing_at_the_bottom() -> None:
    path = sparkline([0.0, 4.0], "")
    [(_, low), (_, high)] = re.findall(r"[ML]([0-9.]+) ([0-9.]+)", str(path))
    assert math.isclose(float(low), HEIGHT - 1) and math.isclose(float(high), 1)
