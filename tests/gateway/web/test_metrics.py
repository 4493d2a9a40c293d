"""The metrics are those of their page, of the same types and labels, and cost a message nothing."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from gateway.observing.samples import Sample, gauge, gauges
from gateway.web.metrics import FORMER_NAMES, Metrics
from tests.conftest import ROOT
from tests.rigs.consumers import Consumers
from tests.rigs.documented_metrics import documented
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running

_MAKERS = {name: name.removesuffix("s") for name in ("counters", "gauges", "histograms")}
_MAKERS |= {name: name for name in ("counter", "gauge", "histogram")}
HISTOGRAMS = ("commit", "match", "first_attempt", "delivery")


def written() -> Iterator[tuple[str, str]]:
    """The names that stand in the sources, also of rooms that are not there, with their types."""
    for path in (ROOT / "gateway").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in _MAKERS
                and isinstance(node.args[0], ast.Constant)
                and isinstance(node.args[0].value, str)
            ):
                yield f"dragoman_{node.args[0].value}", _MAKERS[node.func.id]


async def test_every_family_is_on_the_page_and_no_other(tmp_path: Path) -> None:
    page, in_sources = documented(), dict(written())
    archive = tmp_path / "archive"
    async with running(tmp_path / "data", soap_tcp_port=0, wsrm="offered", archive=archive) as run:
        samples = await run.gateway.serving.site.metrics.samples()
        text = (await run.admin("GET", "/metrics")).body.decode()
    former = set(FORMER_NAMES.values())
    here = {
        f"dragoman_{one.name}": (one.type.value, frozenset(one.labels))
        for one in samples
        if one.name not in former
    }
    process = {
        family.name: (family.type, frozenset[str]())
        for family in text_string_to_metric_families(text)
        if family.name.startswith("process_")
    }
    assert len(process) == 6
    names = set(here) | set(process) | set(in_sources)
    assert {"not documented": names - set(page), "not there": set(page) - names} == {
        "not documented": set(),
        "not there": set(),
    }
    assert {name: page[name] for name in (*here, *process)} == {**here, **process}
    assert {name: page[name][0] for name in in_sources} == in_sources


async def test_tenants_that_ask_often_share_the_samples_of_a_moment() -> None:
    """Each time all subscriptions are looked at, and tenants are many."""
    looked = 0

    def source() -> Iterator[Sample]:
        nonlocal looked
        looked += 1
        yield gauges("tenant_bytes", "Bytes.", ("tenant",), {("acme",): 1, ("umbrella",): 2})
        yield gauge("bytes", "Bytes.", 3)

    async def counted() -> list[Sample]:
        return []

    metrics = Metrics([source], counted)
    for _ in range(3):
        for tenant, number in (("acme", 1), ("umbrella", 2)):
            told = (await metrics.text(tenant)).decode().splitlines()
            assert told[2:] == [f'dragoman_tenant_bytes{{tenant="{tenant}"}} {number}.0']
    assert looked == 1
    await metrics.text()
    assert looked == 2


async def test_names_are_of_bytes_and_seconds(tmp_path: Path) -> None:
    for name in documented():
        assert not re.search(r"octets|millis|_ms\b|minutes|kilo|mega", name), name


async def test_the_way_of_an_event_is_timed(tmp_path: Path) -> None:
    speaker = Speaker()
    async with running(tmp_path) as run, Consumers() as consumer:
        for _ in range(2):
            await run.subscribe(speaker, speaker.wse_subscribe(consumer.fresh()))
        await run.publish("<a/>")
        await run.quiet()
        text = (await run.admin("GET", "/metrics")).body.decode()
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    counts = [found[f"dragoman_{name}_seconds_count"] for name in HISTOGRAMS]
    assert counts == [1, 1, 2, 2]
    sums = [found[f"dragoman_{name}_seconds_sum"] for name in HISTOGRAMS]
    assert all(0 <= seconds < 60 for seconds in sums)
    assert sums[2] <= sums[3]
    assert found["dragoman_build_info"] == 1
