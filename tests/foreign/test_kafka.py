"""A stream from Kafka through Spark's connector: each match once, whatever was killed when."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.filters.spark.conftest import connect_port, require_spark_here, spark
from tests.rigs.kafka import kafka_broker, needs_kafka
from tests.rigs.waiting import until

needs_kafka()
require_spark_here()
__all__ = ["connect_port", "spark"]
DEADLINE = 300.0
ALWAYS, UNTIL_READ = 'processingTime="0 seconds"', "availableNow=True"


def start(broker: str, folder: Path, first: int, count: int, trigger: str) -> Any:
    program = [sys.executable, "-m", "tests.foreign.kafka_stream", broker, str(folder)]
    return subprocess.Popen(
        [*program, str(first), str(count), trigger], cwd=ROOT, start_new_session=True
    )


def kill_when(process: Any, made: Path) -> None:
    """Kill it, its Java and its workers once the file *made* is there."""
    try:
        asyncio.run(until(lambda: process.poll() is not None or made.exists(), DEADLINE))
        assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.nightly
@pytest.mark.slow
def test_each_match_once(spark: Any, tmp_path: Path) -> None:
    """Killed once when the sink has a batch that the checkpoint may not have yet, once within a
    batch; storms are published before, between and after. A minute."""
    matched, checkpoint = tmp_path / "matched", tmp_path / "checkpoint"
    with kafka_broker(tmp_path) as broker:
        first = start(broker, tmp_path, 0, 60, ALWAYS)
        kill_when(first, matched / "_spark_metadata" / "2")
        second = start(broker, tmp_path, 60, 60, ALWAYS)
        kill_when(second, checkpoint / "offsets" / "6")
        last = start(broker, tmp_path, 120, 60, UNTIL_READ)
        assert last.wait(DEADLINE) == 0
    rows = spark.read.parquet(str(matched)).collect()
    storms = sorted(int(row.payload.partition("<speed>")[2].partition("<")[0]) for row in rows)
    assert storms == list(range(101, 180))
    assert len({(row.topic, row.partition, row.offset) for row in rows}) == len(storms)
    assert {tuple(row.filters) for row in rows} == {("fast",)}
