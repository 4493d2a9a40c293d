"""Grafana's dashboard: it asks for what there is, in PromQL, and its panels have their places."""

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm.paths import CHART
from tests.rigs.documented_metrics import asked_by, documented, series

DASHBOARD = json.loads((CHART / "files" / "dashboard.json").read_text())
PROMTOOL = shutil.which("promtool")
COLUMNS = 24
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"|by \(([^)]*)\)")
OF_PROMETHEUS = {"instance", "job", "le"}


def panels() -> list[dict[str, Any]]:
    return [one for one in DASHBOARD["panels"] if one["type"] != "row"]


def expressions() -> Iterator[str]:
    yield from (target["expr"] for panel in panels() for target in panel["targets"])
    yield from (one["expr"] for one in DASHBOARD["annotations"]["list"])


def test_panels_ask_for_what_there_is() -> None:
    known = series()
    labels = OF_PROMETHEUS.union(*(labels for _, labels in documented().values()))
    for expression in expressions():
        asked = asked_by(expression)
        assert asked and asked <= known, expression
        for one, several in _LABEL.findall(expression):
            named = {name.strip() for name in several.split(",")} if several else {one}
            assert named <= labels, expression
    [instances] = [one for one in DASHBOARD["templating"]["list"] if one["name"] == "instance"]
    assert asked_by(instances["query"]["query"]) <= known


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool: package prometheus")
def test_expressions_are_promql(tmp_path: Path) -> None:
    rules = [
        {"record": f"x:{number}", "expr": one.replace("$__rate_interval", "5m").replace("$instance", ".+")}
        for number, one in enumerate(expressions())
    ]  # fmt: skip
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    command = [str(PROMTOOL), "check", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_have_their_places() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    assert all(place["x"] >= 0 and place["x"] + place["w"] <= COLUMNS for place in places)
    for one, other in itertools.combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
    assert all(panel["title"] and panel["description"] for panel in panels())


def test_it_works_with_any_data_source() -> None:
    found = re.findall(r'"uid": "([^"]+)"', json.dumps(DASHBOARD))
    assert set(found) == {"dragoman", "${datasource}"}
