"""Charts are SVG that says what was measured, whatever was measured."""

from pathlib import Path

import pytest
from lxml import etree

from filters.spark.benchmark import write_figures
from filters.spark.charts import WIDE, Block, Series, bar_chart, flame, line_chart, number_text
from filters.spark.page import page, write


def drawn(markup: str) -> etree._Element:
    return etree.fromstring(f"<figure>{markup}</figure>".encode())


def test_a_line_chart_places_points_on_logarithmic_axes() -> None:
    series = [
        Series("a < b", [(10, 1), (100, 10), (1000, 100)], [(0.5, 2), (5, 20), (50, 200)]),
        Series("ideal", [(10, 1), (1000, 1)], ideal=True),
    ]
    chart = drawn(line_chart(series, x="N", y="us", log_x=True, log_y=True))
    marks = chart.findall(".//circle")
    across, down = ([float(mark.get(axis, "")) for mark in marks] for axis in ("cx", "cy"))
    assert across[1] - across[0] == pytest.approx(across[2] - across[1], abs=0.2)
    assert down[0] - down[1] == pytest.approx(down[1] - down[2], abs=0.2)
    assert marks[0].findtext("title") == "a < b: 10, 1"
    assert len(chart.findall(".//line[@class='spread c0']")) == 3
    assert len(chart.findall(".//polyline[@class='ideal']")) == 1
    assert [span.xpath("string()") for span in chart.findall(".//span")] == ["a < b", "ideal"]


def test_an_axis_of_what_was_measured() -> None:
    chart = drawn(
        line_chart([Series("a", [(1, 1.0), (2, 1.9), (8, 6.0)])], x="cores", y="times", own_x=True)
    )
    ticks = [text.text for text in chart.findall(".//text[@class='tick'][@text-anchor='middle']")]
    assert ticks == ["1", "2", "8"]


@pytest.mark.parametrize(
    "points", [[], [(1, 0)], [(1, 1)], [(1, 5), (1, 5)], [(0, 3), (2, 1e9)]], ids=str
)
def test_odd_measurements_are_no_error(points: list[tuple[float, float]]) -> None:
    for log in (False, True):
        chart = line_chart([Series("a", points)], x="N", y="us", log_x=log, log_y=log)
        assert "nan" not in chart and "inf" not in chart
        drawn(chart)


def test_bars_of_many_rows_are_added_up() -> None:
    bars = drawn(bar_chart([(f"hour {n}", 1.0 + n) for n in range(100)], most=40))
    texts = [span.text for span in bars.findall(".//span") if span.text]
    assert texts[:2] == ["hour 0 to hour 2", "6"]
    assert texts[-2:] == ["hour 99", "100"]
    widths = [float(bar.get("style", "")[6:-1]) for bar in bars.findall(".//i")]
    assert len(widths) == 34 and max(widths) == widths[-2] == 100.0
    assert widths[0] == pytest.approx(100 * 6 / (97 + 98 + 99), abs=0.1)
    drawn(bar_chart([("none", 0.0)]))
    drawn(bar_chart([]))


def test_a_flame_is_as_wide_as_the_time() -> None:
    inner = {"b<1>": Block("b<1>", 30.0, {"c": Block("c", 30.0)}), "d": Block("d", 10.0)}
    chart = drawn(flame(Block("a", 40.0, inner), unit="ms"))
    widths = {
        str(group.findtext("title")).split(":")[0]: float(group.find("rect").get("width", ""))  # type: ignore[union-attr]
        for group in chart.findall(".//g")
    }
    assert widths["a"] == pytest.approx(WIDE - 9)
    assert widths["b<1>"] == widths["c"] == pytest.approx((WIDE - 8) * 0.75 - 1)
    assert chart.findtext(".//g/title") == "a: 40 ms, 100.0%"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1234567, "1,234,567"), (3.14159, "3.14"), (0.00123, "0.00123"), (250.0, "250")],
)
def test_numbers_for_people(value: float, text: str) -> None:
    assert number_text(value) == text


def test_a_full_disk_is_said_with_the_file(tmp_path: Path) -> None:
    """``/dev/full`` takes nothing."""
    for name in ("report.html", "figures.parquet"):
        (tmp_path / name).symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left on device: .*report\.html"):
        write(page("A report", "", []), tmp_path / "report.html")
    pytest.importorskip("pyarrow")
    with pytest.raises(OSError, match=r"No space left on device: .*figures\.parquet"):
        write_figures([{"kind": "match"}], tmp_path / "figures.parquet")
