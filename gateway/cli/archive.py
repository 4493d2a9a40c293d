"""``dragoman archive``."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from filters.spark.backtest import require_files
from filters.spark.compaction import compact as run_compaction
from filters.spark.message_files import (
    NO_PAYLOAD,
    NOT_A_TIME,
    NOT_A_TOPIC,
    NOT_JSON,
    NOT_XML,
    Fault,
    import_messages,
    require_messages,
)
from filters.spark.paths import is_within
from filters.spark.session import require_spark, session
from filters.spark.xml_rows import check_row_tag
from filters.topics import parse_clark
from gateway.cli.commands import add, group, help_alone
from gateway.cli.errors import CommandFailed
from gateway.cli.options import Form, OutputOption, read_namespaces
from gateway.cli.output import counted, json_line, line, note
from gateway.cli.spark import ConfOption, MasterOption, failures, read_conf

archive = group("archive", "Compact archives of notifications, and make them of files.")
archive.callback()(help_alone)

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="The archive to add to: a folder, or a URL.")
]


def compact(
    source: Annotated[
        str, typer.Argument(metavar="ARCHIVE", help="What `serve --archive` wrote, or its URL.")
    ],
    target: Target,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the files whose rows the target has.")
    ] = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Write the many small files of an archive as few large ones to another archive.

    Each time, what is new is added, but for the hour that is not over. With --remove, the files
    that were written go, so that a gateway writes to a disk of its own and all that is older lies
    where the target is. Damaged files are named, read as far as they can be, and stay. Needs the
    extra spark, and Java.

    \b
    Examples:
      dragoman archive compact /var/lib/dragoman/archive /mnt/archive
      dragoman archive compact --remove /var/lib/dragoman/archive s3a://bucket/archive
    """
    settings = read_conf(conf)
    if is_within(target, source):
        raise typer.BadParameter(
            f"{target} is {source}, or in it; compact to another folder", param_hint="TARGET"
        )
    with failures():
        require_files(source)
    with _spark(master, settings) as spark:
        done = run_compaction(spark, source, target, remove=remove)
    for file, rows, damage in done.damage:
        note(f"damaged: {file}, after {rows:,} rows: {damage}")
    if output is Form.JSON:
        values = {"files": done.files, "rows": done.rows, "removed": done.removed}
        damaged = [file for file, _, _ in done.damage]
        json_line({**values, "left": done.left, "damaged": damaged})
    else:
        gone = f", {counted(done.removed, 'file')} removed" if remove else ""
        line(f"{counted(done.rows, 'notification')} of {counted(done.files, 'file')} written{gone}")
        if done.left:
            are = "is" if done.left == 1 else "are"
            line(f"{counted(done.left, 'file')} of the hour that is not over {are} left")
    if done.is_unreadable:
        raise CommandFailed(f"{source}: nothing could be read in {counted(done.files, 'file')}")


def import_(
    files: Annotated[
        str,
        typer.Argument(
            metavar="FILE|FOLDER", help="JSON lines, Parquet or XML, or a folder of them, or a URL."
        ),
    ],
    target: Target,
    topic: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="Of messages that have none: storms, {urn:w}storms."),
    ] = None,
    row_tag: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Each element of this name in XML files is a message: w:event."
        ),
    ] = None,
    ns: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX=URI", help="A prefix that is declared above --row-tag; repeatable."
        ),
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Add messages of files to an archive, as if a gateway had taken them.

    JSON lines and Parquet have a column payload or xml; id, time, topic, action, producer and
    properties are taken where they are there. A message without a time has its file's. Those that a
    gateway would not take are left out; they are counted by what is wrong, and so are topics and
    times that cannot be read, each with an example. Needs the extra spark, and Java.

    \b
    Examples:
      dragoman archive import events.jsonl.gz /mnt/archive
      dragoman archive import --topic storms --row-tag event export.xml /mnt/archive
      dragoman archive import s3a://bucket/events s3a://bucket/archive
    """
    settings = read_conf(conf)
    namespaces = read_namespaces(ns)
    _check(topic, row_tag)
    with failures():
        require_messages(files, row_tag=row_tag)
    with _spark(master, settings) as spark:
        done = import_messages(
            *(spark, files, target), topic=topic, row_tag=row_tag, namespaces=namespaces
        )
    for fault in done.faults:
        note(_said(fault, topic))
    if output is Form.JSON:
        faults = [asdict(fault) for fault in done.faults]
        json_line({"rows": done.rows, "left_out": done.left_out, "faults": faults})
    else:
        line(f"{counted(done.rows, 'message')} written, {done.left_out:,} left out")


def _check(topic: str | None, row_tag: str | None) -> None:
    """See that ``--topic`` and ``--row-tag`` can be used, before Spark is started for them.

    Raises:
        typer.BadParameter: One cannot.
    """
    try:
        if topic is not None:
            parse_clark(topic)
    except ValueError as error:
        raise typer.BadParameter(f"{topic!r}: {error}", param_hint="--topic") from error
    try:
        if row_tag is not None:
            check_row_tag(row_tag)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--row-tag") from error


def _said(fault: Fault, topic: str | None) -> str:
    """*fault* in words; messages without a topic get *topic*."""
    what = {
        NOT_JSON: "left out: {} that cannot be read as JSON",
        NO_PAYLOAD: "left out: {} without payload or xml",
        NOT_XML: "left out: {} that cannot be read as XML or have more than 2 MiB",
        NOT_A_TOPIC: f"{{}} with a topic that cannot be read; they get {topic or 'none'}",
        NOT_A_TIME: "{} with a time that cannot be read; they get that of their file",
    }[fault.kind]
    noun = "line" if fault.kind == NOT_JSON else "message"
    return f"{what.format(counted(fault.count, noun))}, such as {fault.example}"


@contextmanager
def _spark(master: str | None, settings: dict[str, str]) -> Iterator[Any]:
    with failures():
        require_spark()
        note("Starting Spark ...")
        with session(master, app="dragoman archive", conf=settings) as spark:
            yield spark


add(archive, compact)
add(archive, import_, "import")
