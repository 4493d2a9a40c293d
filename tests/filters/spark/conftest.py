"""One Spark for all tests here, and archives to match."""

import importlib.util
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from filters.archive import FileWriter, Row, directory
from filters.spark.session import session
from filters.topics import parse_clark
from tests.rigs.ports import free_ports

START = datetime(2026, 11, 20, 22, 30, tzinfo=UTC)
SMALL = {
    # A short life: the quick compiler and the plain collector, no code generated for each query, few
    # partitions.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


def require_spark_here() -> None:
    for name in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed (the extra spark)")
    if shutil.which("java") is None:
        pytest.skip("there is no java in PATH")


@pytest.fixture(scope="session")
def connect_port() -> int:
    """The port of Spark Connect's server, which is a plug-in of the one Spark."""
    (port,) = free_ports(1)
    return port


@pytest.fixture(scope="session")
def spark(connect_port: int) -> Iterator[Any]:
    require_spark_here()
    conf = dict(SMALL)
    if importlib.util.find_spec("grpc") is not None:
        conf["spark.plugins"] = "org.apache.spark.sql.connect.SparkConnectPlugin"
        conf["spark.connect.grpc.binding.address"] = "127.0.0.1"
        conf["spark.connect.grpc.binding.port"] = str(connect_port)
    with session("local[2]", conf=conf) as running:
        yield running


def write(archive: Path, rows: list[Row], name: str) -> Path:
    """Write one file of an archive: *rows*, all of one day and one root of topics."""
    scratch = archive / "_unfinished"
    scratch.mkdir(parents=True, exist_ok=True)
    first = rows[0]
    topic = parse_clark(first.topic) if first.topic else None
    target = directory(topic, first.time) / name
    writer = FileWriter(archive, target, scratch)
    for row in rows:
        writer.append(row)
    writer.close()
    return archive / target


def storm(number: int, topic: str | None = "storms/coast") -> Row:
    """A notification of a storm, one every ten minutes, faster and faster."""
    return Row(
        f"n-{number}",
        START + timedelta(minutes=10 * number),
        f"<storm><speed>{number}</speed><place>Bergen ø</place></storm>",
        topic,
        "urn:example:storm",
        None,
        {"severity": str(number % 3)},
    )


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Forty notifications in four files, of both formats, on two roots of topics and two days."""
    folder = tmp_path / "an archive"
    write(folder, [storm(n) for n in range(8)], "w-1-1.parquet")
    write(folder, [storm(n) for n in range(9, 20)], "w-1-2.jsonl.gz")
    write(folder, [storm(n, None) for n in range(20, 30)], "w-2-1.parquet")
    write(folder, [storm(n, "{urn:t}tides") for n in range(30, 41)], "w-2-2.jsonl.gz")
    return folder


def check_report(text: str) -> etree._Element:
    """A report is one well-formed document that fetches nothing and runs nothing."""
    root = etree.fromstring(text.encode())
    for element in root.iter(etree.Element):
        assert element.tag not in ("script", "link", "img", "iframe", "object", "image")
        assert not {"href", "src", "data", "onload"} & set(element.attrib)
    assert "url(" not in text and "@import" not in text
    return root
