"""A small S3 server (moto's, a program of its own), and what Spark needs to speak to one."""

import http.client
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.rigs.ports import free_ports

DEADLINE = 60.0
_CACHE = Path.home() / ".cache" / "dragoman"
LIBRARIES = Path(os.environ.get("DRAGOMAN_S3A") or _CACHE / "spark-s3a")
"""Hadoop's library for S3, with Amazon's."""
SERVER = shutil.which("moto_server") or _CACHE / "moto" / "bin" / "moto_server"


def needs_s3() -> None:
    """Skip the module that says this where there is no server, or Hadoop's library is missing."""
    if not Path(SERVER).exists():
        pytest.skip(
            f"needs an S3 server: python3 -m venv {_CACHE}/moto; "
            f"{_CACHE}/moto/bin/pip install 'moto[s3,server]'",
            allow_module_level=True,
        )
    if not list(LIBRARIES.glob("hadoop-aws-*.jar")):
        pytest.skip(
            "needs Hadoop's library: mvn -q -f tests/gateway/cli/s3a dependency:copy-dependencies "
            f"-DexcludeTransitive -DoutputDirectory={LIBRARIES}",
            allow_module_level=True,
        )


@contextmanager
def s3_server(folder: Path, bucket: str) -> Iterator[dict[str, str]]:
    """A server with an empty *bucket*, its log in *folder*; the settings of Spark for it."""
    (port,) = free_ports(1)
    with (folder / "s3.log").open("wb") as log:
        server = subprocess.Popen(
            [str(SERVER), "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log
        )
    try:
        _make(bucket, port)
        yield {
            # As spark.jars, 660 MB would be copied at each start.
            "spark.driver.extraClassPath": f"{LIBRARIES}/*",
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "key",
            "spark.hadoop.fs.s3a.secret.key": "secret",
        }
    finally:
        server.kill()
        server.wait()


def _make(bucket: str, port: int) -> None:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        with suppress(ConnectionError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
            connection.request("PUT", f"/{bucket}")
            assert connection.getresponse().status == 200
            connection.close()
            return
        time.sleep(0.1)
    raise TimeoutError
