"""Starts a Spark session, on this machine or a cluster."""

import importlib.util
import os
import pwd
import re
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filters.extras import how_to_install

LOCAL = "local[*]"

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    # The default, INT96, has no zone: other readers take it for local time.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    # A worker process keeps the filter set that it has built; so it must live on.
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
}
_LOCAL_DEFAULTS = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


class SparkUnavailable(Exception):
    """Spark is missing, or cannot be started; the text says what to do, in one line."""


def require_spark() -> None:
    """Check that Spark can be started at all.

    Raises:
        SparkUnavailable: A package or Java is missing.
    """
    require_packages("pyspark", "pandas", "pyarrow")
    if _java() is None:
        home = os.environ.get("JAVA_HOME")
        raise _needs_java(f"there is none in {f'JAVA_HOME ({home})' if home else 'PATH'}")


def require_packages(*names: str) -> None:
    """Check that these packages of the extra ``spark`` are installed.

    Raises:
        SparkUnavailable: One is missing.
    """
    missing = [name for name in names if not _is_installed(name)]
    if missing:
        raise SparkUnavailable(
            f"this needs {listed(missing)}, which {'is' if len(missing) == 1 else 'are'} not"
            f" installed: {how_to_install('spark')}"
        )


@contextmanager
def session(
    master: str | None = None, *, app: str = "dragoman", conf: Mapping[str, str] | None = None
) -> Iterator[Any]:
    """A SparkSession, stopped at the end.

    Args:
        master: ``local[*]``, ``local[2]``, ``spark://host:7077``, ``k8s://https://host:443``. None
            is what ``spark-submit`` was told, else ``local[*]``.
        conf: Spark settings that replace ours.

    Raises:
        SparkUnavailable: A package or Java is missing, or the master does not answer.
    """
    require_spark()
    from pyspark.sql import SparkSession

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if master is None and not submitted:
        master = LOCAL
    local = master is not None and master.startswith("local")
    settings = dict(_DEFAULTS)
    if local:
        settings |= _LOCAL_DEFAULTS
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Elsewhere the interpreter may lie elsewhere: then the caller has set it.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app)
    if master is not None:
        builder = builder.master(master)
    for name, value in (settings | dict(conf or {})).items():
        builder = builder.config(name, value)
    with _log_of_java() as log, _own_interrupt():
        try:
            spark = builder.getOrCreate()
        except Exception as exc:
            raise _failure(master, exc, log) from exc
    if log:
        # Java goes on writing to what has no name now, and leaves nothing however it ends.
        Path(log).unlink()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        _stop(spark)


def _stop(spark: Any) -> None:
    """Stop *spark*, even if Ctrl-C came in the middle of what was being said to Java: what is wrong
    with the connection then must not take the interrupt's place. Java ends with this process."""
    from py4j.protocol import Py4JError

    with suppress(Py4JError), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # PySpark's, of an unclean end
        spark.stop()


def java_version(spark: Any) -> str:
    """The version of the Java machine that the driver of *spark* talks to."""
    return str(spark.sparkContext._jvm.java.lang.System.getProperty("java.version"))


def hadoop_version() -> str:
    """The version of Hadoop that pyspark brings, which its libraries have to have, too; VERSION
    where it cannot be told."""
    found = importlib.util.find_spec("pyspark")
    places = (found.submodule_search_locations if found else None) or []
    for place in places:
        for jar in Path(place, "jars").glob("hadoop-client-api-*.jar"):
            return jar.stem.removeprefix("hadoop-client-api-")
    return "VERSION"


def listed(names: Sequence[str]) -> str:
    """*names* as a sentence lists them: ``a``, ``a and b``, ``a, b and c``."""
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


def first_line(error: Exception) -> str:
    """Return the text of an error of Spark, without classes and traces, which do not help the user
    of a command."""
    lines = str(getattr(error, "java_exception", None) or error).strip().splitlines()
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)]
    if "Python worker" in lines[0] and raised:
        # Of a worker's traceback, the line that it ends with.
        return f"a worker failed: {raised[-1].strip()}"
    return re.sub(r"^[\w.$]+(?:Exception|Error): ", "", lines[0])


def _java() -> str | None:
    """The Java machine that Spark's scripts choose."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(f"{home}/bin/java" if home else "java")


def _needs_java(found: str) -> SparkUnavailable:
    return SparkUnavailable(
        f"Spark needs Java 17 or later, and {found}; on Debian, apt-get install"
        " default-jre-headless brings it"
    )


def _failure(master: str | None, error: Exception, log: str) -> SparkUnavailable:
    """Why Spark does not start. What Java said is in the file *log*, if it was started here; it is
    kept when a person has to read it."""
    said = Path(log).read_text(errors="replace") if log else ""
    if "UnsupportedClassVersionError" in said:
        known = _needs_java(f"{_java()} is older")
    elif "All masters are unresponsive" in said:
        known = SparkUnavailable(f"no master answers at {master}")
    elif not _user_has_name():
        known = SparkUnavailable(
            f"Spark does not start: user id {os.getuid()} has no name in /etc/passwd, and Java and"
            " Hadoop ask for it; add a line there, or preload libnss_wrapper.so with a passwd of"
            " your own (NSS_WRAPPER_PASSWD, NSS_WRAPPER_GROUP), as Spark's image does"
        )
    else:
        where = f" (see {log})" if log else ""
        why = _first_exception(said) or first_line(error)
        return SparkUnavailable(f"Spark does not start with {master}: {why}{where}")
    Path(log).unlink()
    return known


def _user_has_name() -> bool:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def _first_exception(log: str) -> str:
    """The first exception in a log of Java, without its class and what stands before it; empty
    where it has none. PySpark itself says only that Java ended."""
    found = re.search(r"^.*?[\w.$]+(?:Exception|Error): (.+)$", log, re.MULTILINE)
    return found[1].strip()[:300] if found else ""


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Keep what Ctrl-C does. Spark's own handler asks Java to end all jobs, in the middle of what
    is being said to it at that moment; stopping the session ends them too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _log_of_java() -> Iterator[str]:
    """Let a Java machine that is started in here write its log to a file, whose name this gives.

    It inherits our standard error, which is where a person reads what a command says. Where one
    runs already, the name is empty.
    """
    from pyspark import SparkContext

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        yield ""
        return
    log, name = tempfile.mkstemp(prefix="dragoman-spark-", suffix=".log")
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(log, 2)
    try:
        yield name
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(log)


def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
