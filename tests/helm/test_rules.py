"""Prometheus' rules: each alert rings when it should, asks for what there is, and has its section."""

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from tests.helm.paths import CHART, ROOT
from tests.rigs.documented_metrics import asked_by, documented, series

RULES = CHART / "files" / "rules.yaml"
TESTS = ROOT / "tests" / "helm" / "rules.test.yaml"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool: package prometheus")


def alerts() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def promtool(*arguments: str) -> None:
    done = subprocess.run([str(PROMTOOL), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_the_rules_are_rules() -> None:
    promtool("check", "rules", str(RULES))


@needs_promtool
def test_alerts_ring_when_they_should_and_not_else() -> None:
    promtool("test", "rules", str(TESTS))


def test_each_alert_is_tried_both_ways() -> None:
    tried: dict[str, list[bool]] = {}
    for test in yaml.safe_load(TESTS.read_text())["tests"]:
        [one] = test["alert_rule_test"]
        tried.setdefault(one["alertname"], []).append(bool(one["exp_alerts"]))
    assert tried == {rule["alert"]: [True, False] for rule in alerts()}


def test_alerts_ask_for_what_there_is() -> None:
    known = series()
    assert {name for name, (type_, _) in documented().items() if type_ == "histogram"}
    for rule in alerts():
        asked = asked_by(rule["expr"])
        assert asked and asked <= known, rule["alert"]


def test_each_alert_has_its_section_and_no_other_is_there() -> None:
    page = (ROOT / "docs" / "alerts.md").read_text()
    sections = {name.lower() for name in re.findall(r"^## (\w+)$", page, re.MULTILINE)}
    named = {rule["annotations"]["runbook"].partition("#")[2] for rule in alerts()}
    assert sections == named == {rule["alert"].lower() for rule in alerts()}
    for rule in alerts():
        said = f"## {rule['alert']}\n\n*{rule['labels']['severity']}*. "
        assert said in page, rule["alert"]
        assert rule["annotations"]["runbook"].startswith("docs/alerts.md#")
