"""A broker of Apache Kafka, one node without ZooKeeper, and Spark's connector to it."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.rigs.ports import free_ports

DEADLINE = 120.0
_CACHE = Path.home() / ".cache" / "dragoman"
BROKER = Path(os.environ.get("DRAGOMAN_KAFKA") or _CACHE / "kafka")
CONNECTOR = Path(os.environ.get("DRAGOMAN_SPARK_KAFKA") or _CACHE / "spark-kafka")
_COPY = "dependency:copy-dependencies -DoutputDirectory="
_JAVA = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{BROKER}/*")
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={logs}
num.partitions=2
offsets.topic.replication.factor=1
"""
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"


def needs_kafka() -> None:
    """Skip the module that says this where there is no Java, no broker or no connector."""
    wanted = {
        "kafka_2.13-*.jar": (BROKER, f"tests/foreign/kafka {_COPY}{BROKER}"),
        "spark-sql-kafka-*.jar": (
            CONNECTOR, f"tests/foreign/spark_kafka {_COPY}{CONNECTOR} -DexcludeTransitive",
        ),
    }  # fmt: skip
    if shutil.which("java") is None:
        pytest.skip("needs java (openjdk-17-jre-headless)", allow_module_level=True)
    for jar, (folder, how) in wanted.items():
        if not list(folder.glob(jar)):
            pytest.skip(f"needs Apache Kafka: mvn -q -f {how}", allow_module_level=True)


def connector() -> str:
    """What ``spark.jars`` is, to have the connector."""
    return ",".join(map(str, sorted(CONNECTOR.glob("*.jar"))))


@contextmanager
def kafka_broker(folder: Path) -> Iterator[str]:
    """A broker with its data in *folder*; its address."""
    port, controller = free_ports(2)
    settings = folder / "server.properties"
    settings.write_text(_SETTINGS.format(port=port, controller=controller, logs=folder / "logs"))
    storage = [*_JAVA, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings)]
    subprocess.run(storage, check=True, capture_output=True, timeout=DEADLINE)
    log = folder / "broker.log"
    with log.open("wb") as output:
        broker = subprocess.Popen(
            [*_JAVA, "kafka.Kafka", str(settings)], stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + DEADLINE
        while "Kafka Server started" not in log.read_text():
            assert broker.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        broker.kill()
        broker.wait()
