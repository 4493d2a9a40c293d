"""What is said where Spark does not start, or cannot."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from filters.spark.session import listed
from tests.filters.spark.conftest import require_spark_here

ROOT = Path(__file__).parents[3]
START = """
from filters.spark.session import SparkUnavailable, session
try:
    with session("local[1]"):
        print("started")
except SparkUnavailable as error:
    print(error)
"""
WITHOUT_NAME = ("unshare", "--user", "--map-user=12345", "--map-group=12345")
PASSWD = "dragoman:x:12345:12345::{home}:/bin/sh\n"


def start_without_name(home: Path, **environment: str) -> str:
    """What a program says that starts Spark as a user whose id has no name."""
    require_spark_here()
    command = (*WITHOUT_NAME, sys.executable, "-c", START)
    if not shutil.which("unshare") or subprocess.run((*WITHOUT_NAME, "true")).returncode:
        pytest.skip("needs a user namespace of its own (unshare --user)")
    inherited = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
    done = subprocess.run(
        command, cwd=ROOT, env=inherited | environment, capture_output=True, text=True, timeout=120
    )
    return done.stdout.strip()


@pytest.mark.nightly
@pytest.mark.slow
def test_a_user_id_without_a_name_is_told(tmp_path: Path) -> None:
    said = start_without_name(tmp_path)
    assert "user id 12345 has no name in /etc/passwd" in said
    assert "libnss_wrapper" in said and "\n" not in said


@pytest.mark.nightly
@pytest.mark.slow
def test_what_is_told_helps(tmp_path: Path) -> None:
    """As the message says, where the library is."""
    library = next(Path("/usr/lib").glob("*/libnss_wrapper.so"), None)
    if library is None:
        pytest.skip("needs libnss_wrapper.so (Debian: libnss-wrapper)")
    (tmp_path / "passwd").write_text(PASSWD.format(home=tmp_path))
    (tmp_path / "group").write_text("dragoman:x:12345:\n")
    said = start_without_name(
        tmp_path,
        LD_PRELOAD=str(library),
        NSS_WRAPPER_PASSWD=str(tmp_path / "passwd"),
        NSS_WRAPPER_GROUP=str(tmp_path / "group"),
    )
    assert said == "started"


@pytest.mark.slow
def test_what_java_said_is_told() -> None:
    """PySpark says only that Java ended."""
    require_spark_here()
    done = subprocess.run(
        (sys.executable, "-c", START),
        cwd=ROOT,
        env=os.environ | {"SPARK_SUBMIT_OPTS": "-Duser.home=nowhere"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "basedir must be absolute: nowhere" in done.stdout
    assert "JAVA_GATEWAY_EXITED" not in done.stdout


LISTS = [(["pyspark"], "pyspark"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]


@pytest.mark.parametrize(("names", "said"), LISTS)
def test_names_are_listed_as_in_a_sentence(names: list[str], said: str) -> None:
    assert listed(names) == said
