"""The picture of a topology."""

import itertools
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.web.console.topology_layout import COLUMNS, WIDTH, draw_topology
from gateway.web.views.topology import TopologyView

RATES = st.floats(0, 1e6)
REST = st.builds(lambda number, rate: {"number": number, "rate": rate}, st.integers(0, 9999), RATES)


@st.composite
def topologies(draw: st.DrawFn) -> Mapping[str, Any]:
    """What the administration may answer."""
    dialects = draw(st.lists(st.text(min_size=1, max_size=60), unique=True, max_size=6))
    topics = draw(st.lists(st.text(max_size=80), unique=True, max_size=6))
    more = draw(REST)
    into = [*topics, *([None] if more["number"] else [])]
    return {
        "publishers": [
            {"dialect": one, "rate": 1.0, "publishers": ["10.0.0.1"], "more": 3} for one in dialects
        ],
        "topics": [{"topic": one, "rate": draw(RATES)} for one in topics],
        "more_topics": more,
        "flows": [
            {"dialect": one, "topic": topic, "rate": draw(RATES)}
            for one in dialects
            for topic in into
        ],
        "broker": {"adapter": "amqp", "connected": draw(st.booleans()), "blocked": None},
        "queues": ["a.00", "a.01"],
        "unsettled": 3,
        "consumers": [
            {"host": host, "consumers": "http://h/*", "subscriptions": 2, "failing": 1,
             "waiting": 0, "rate": draw(RATES)}
            for host in draw(st.lists(st.text(max_size=90), max_size=6))
        ],
        "more_consumers": draw(REST),
    }  # fmt: skip


@given(topologies())
def test_everything_has_a_place(now: Mapping[str, Any]) -> None:
    """Within the picture, apart from all others, with text that fits."""
    picture = draw_topology(now)
    places = [(one.x, one.y) for one in picture.boxes]
    assert len(places) == len(set(places))
    assert len(picture.boxes) == (
        1 + len(now["publishers"]) + len(now["topics"]) + len(now["consumers"])
        + bool(now["more_topics"]["number"]) + bool(now["more_consumers"]["number"])
    )  # fmt: skip
    for box in picture.boxes:
        assert 0 <= box.x <= box.x + box.width <= WIDTH
        assert 0 < box.y <= box.y + box.height <= picture.height
        assert len(box.text) * 6.9 <= box.width and len(box.note) * 5.8 <= box.width
    assert len(picture.lines) == len(now["flows"]) + len(picture.boxes) - 1 - len(now["publishers"])
    assert all(1 <= one.width <= 7 for one in picture.lines)
    labels = [one.label for one in picture.lines if one.label]
    for (x, y), (a, b) in itertools.combinations(labels, 2):
        assert abs(x - a) > 48 or abs(y - b) > 12
    assert all(0 <= x <= WIDTH and 0 < y < picture.height for x, y in labels)


def test_the_example() -> None:
    """What is many is summed up, what fails is marked, what leads somewhere leads to its list."""
    example: Any = TopologyView.model_config["json_schema_extra"]
    picture = draw_topology(example["example"])
    texts = {box.text: box for box in picture.boxes}
    assert "and 9,970 more" in texts and "and 118 more" in texts
    assert texts["http://line3.plant:80"].bad
    assert texts["http://line3.plant:80"].note == "6 subscriptions, 1 failing, 31 waiting"
    assert texts["storms/coast"].link == "/console/subscriptions?topic=storms%2Fcoast"
    assert texts["wsn-1.3"].link == "/console/topology?spec=wsn-1.3"
    assert texts["amqp"].note == "2 queues, 3 under way"
    assert {one.rate for one in picture.lines} >= {"12/s", "72/s", "24.0/min"}
    assert list(COLUMNS) == ["publishers", "topics", "broker", "hosts"]
