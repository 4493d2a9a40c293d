"""``dragoman audit``: the file of who changed what, and who was refused."""

import csv
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.errors import CommandFailed
from gateway.cli.options import Form, OutputOption
from gateway.cli.output import json_line, line, moment, table
from gateway.security.audit_chain import AuditUnusable, read_records, verify

audit = group("audit", "Show, verify and export the audit log.")
audit.callback()(help_alone)
COLUMNS = (
    "number", "time", "who", "from", "did", "what", "result", "again", "lost", "until", "last",
)  # fmt: skip

FileOption = Annotated[
    Path | None,
    typer.Option("--file", metavar="FILE", help="The audit log. [that of the settings]"),
]


def _file(given: Path | None) -> Path:
    if given is not None:
        return given
    from gateway.settings.settings import read_settings

    settings = read_settings()
    return settings.audit or settings.data / "audit.jsonl"


def verify_log(
    file: FileOption = None,
    last: Annotated[
        str | None,
        typer.Option("--last", metavar="HASH", help="A hash that was kept: it must be there."),
    ] = None,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Say whether the log is as it was written, and the hash of its last record.

    Keep that hash elsewhere: who can write the file could write all of it anew. The exit code is 0
    if it is whole, else 1.

    \b
    Examples:
      dragoman audit verify
      dragoman audit verify --last 6f1c...
    """
    path = _file(file)
    try:
        number, found = verify(path)
        if last is not None and all(record.get("hash") != last for record in read_records(path)):
            raise AuditUnusable(path, "no record has that hash: it was written anew, or cut")
    except AuditUnusable as error:
        raise CommandFailed(error.text) from error
    if output is Form.JSON:
        json_line({"records": number, "last": found})
    else:
        line(f"{path}: {number} records, whole. The last has the hash {found}")


def tail_log(
    file: FileOption = None,
    number: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many.")] = 20,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Show the last records.

    \b
    Examples:
      dragoman audit tail -n 50
    """
    records = _records(file)[-number:]
    if output is Form.JSON:
        for record in records:
            json_line(record)
        return
    columns = ("time", "who", "from", "did", "what", "result")
    cells = [[moment(record.get("time")), *map(record.get, columns[1:])] for record in records]
    for text in table(columns, cells):
        line(text)


def export_log(file: FileOption = None, output: OutputOption = Form.TEXT) -> None:
    r"""Print all records as CSV, or with --output json as lines of JSON.

    \b
    Examples:
      dragoman audit export > audit.csv
    """
    records = _records(file)
    if output is Form.JSON:
        for record in records:
            json_line(record)
        return
    writer = csv.DictWriter(sys.stdout, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({name: _plain(value) for name, value in record.items()})


def _plain(value: object) -> object:
    """A value that no spreadsheet takes for a formula."""
    is_formula = isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{value}" if is_formula else value


def _records(file: Path | None) -> list[dict[str, Any]]:
    try:
        return list(read_records(_file(file)))
    except AuditUnusable as error:
        raise CommandFailed(error.text) from error


add(audit, verify_log, "verify")
add(audit, tail_log, "tail")
add(audit, export_log, "export")
