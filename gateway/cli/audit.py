"""``dragoman audit``: the file of who changed what, and who was refused."""

import base64
import csv
import hashlib
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.errors import CommandFailed
from gateway.cli.options import Form, OutputOption
from gateway.cli.output import json_line, line, moment, table
from gateway.model.hosts import host_and_port
from gateway.security.audit_chain import AuditUnusable, read_records, verify

audit = group("audit", "Show, verify and export the audit log.")
audit.callback()(help_alone)
COLUMNS = (
    "number", "time", "who", "from", "did", "what", "result", "request", "again", "lost", "until",
    "last",
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


class Format(StrEnum):
    """The format of an export."""

    CSV = "csv"
    ATNA = "atna"


def export_log(
    file: FileOption = None,
    output: OutputOption = Form.TEXT,
    format_: Annotated[
        Format,
        typer.Option(
            "--format",
            help="csv, or atna: a message of DICOM and IHE a line, as repositories read.",
        ),
    ] = Format.CSV,
) -> None:
    r"""Print all records as CSV, or with --output json as lines of JSON.

    \b
    Examples:
      dragoman audit export > audit.csv
      dragoman audit export --format atna > audit.xml
    """
    records = _records(file)
    if format_ is Format.ATNA:
        _export_messages(records)
        return
    if output is Form.JSON:
        for record in records:
            json_line(record)
        return
    writer = csv.DictWriter(sys.stdout, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({name: _plain(value) for name, value in record.items()})


def show_receipt(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="That of the record.")],
    file: FileOption = None,
) -> None:
    r"""Print the receipt that a record has, as it was signed.

    \b
    Examples:
      dragoman audit receipt 812 > receipt.xml
    """
    record, receipt, digest = None, b"", ""
    for one in _records(file):
        if one.get("number") == number:
            record = one
            if not isinstance(one.get("receipt"), str):
                raise CommandFailed(f"record {number} has no receipt")
            receipt = base64.b64decode(one["receipt"])
            digest = hashlib.sha256(receipt).hexdigest()
        elif record is not None and one.get("late") == digest:
            text = f"record {number} was written too late, and its receipt was not given: "
            raise CommandFailed(f"{text}record {one.get('number')} says so")
    if record is None:
        raise CommandFailed(f"record {number} is not in the log")
    sys.stdout.buffer.write(receipt)


def check_receipt(
    receipt: Annotated[Path, typer.Argument(metavar="RECEIPT", help="The file of the receipt.")],
    signers: Annotated[
        Path,
        typer.Option("--signers", metavar="PEM", help="Certificates of who may have signed it."),
    ],
    message: Annotated[
        Path | None,
        typer.Option("--message", metavar="FILE", help="What was sent: it must be of that."),
    ] = None,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Say who signed a receipt, when, and of what. The exit code is 0 if it holds, else 1.

    \b
    Examples:
      dragoman audit check-receipt receipt.xml --signers gateway.pem --message sent.xml
    """
    from mediation.receipts import MAX_OCTETS, ReceiptInvalid, verify_receipt
    from mediation.ws_security import read_trust

    try:
        trust = read_trust(signers.read_bytes())
        with receipt.open("rb") as opened:
            found = verify_receipt(opened.read(MAX_OCTETS + 1), trust)
        if message is not None:
            found.check_message(message.read_bytes())
    except OSError as error:
        raise CommandFailed(f"{error.filename} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise CommandFailed(f"{signers} cannot be used: {error}") from error
    except ReceiptInvalid as error:
        raise CommandFailed(f"{receipt}: {error.text}") from error
    said = {
        "signer": found.signer,
        "time": found.time.isoformat(),
        "messages": list(found.messages),
        "sha-256": base64.b64encode(found.digest).decode(),
        "acknowledged": dict(found.acknowledged),
    }
    if output is Form.JSON:
        json_line(said)
        return
    line(f"{receipt}: signed by {found.signer} at {found.time.isoformat()}")
    for one in found.messages:
        line(f"  message {one}")
    for sequence, numbers in found.acknowledged.items():
        line(f"  sequence {sequence}: {numbers}")
    if message is not None:
        line(f"  It is of {message}: the digests are equal")


def _export_messages(records: list[dict[str, Any]]) -> None:
    from gateway.atna.messages import Site, write_message
    from gateway.settings.settings import read_settings

    settings = read_settings()
    atna = settings.atna
    here = f"{settings.web_scheme}://{host_and_port(settings.host, settings.port)}"
    endpoint = f"{(settings.public_url or here).rstrip('/')}/soap"
    source, name = ("dragoman", "") if atna is None else (atna.source, atna.site)
    for record in records:
        line(write_message(record, Site(source, name, endpoint)).decode())


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
add(audit, show_receipt, "receipt")
add(audit, check_receipt, "check-receipt")
