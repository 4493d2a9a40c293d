"""``dragoman outbox``."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.errors import CommandFailed
from gateway.cli.options import Form, OutputOption
from gateway.cli.output import counted, facts, json_line, line, note, payload_text, table

if TYPE_CHECKING:
    from gateway.client.outbox.administration import StoredMessage, StoredMessages

outbox = group("outbox", "List, show, retry and drop messages of a program's outbox and inbox.")
outbox.callback()(help_alone)

ASKED_WRONGLY = 2
StoreArgument = Annotated[
    str, typer.Argument(metavar="STORE_URL", help="Its database: sqlite:///shop.db.")
]
NumberArguments = Annotated[
    list[str] | None, typer.Argument(metavar="NUMBER", help="As `list` shows them: inbox/7.")
]
AllOption = Annotated[bool, typer.Option("--all", help="All dead letters.")]


@contextmanager
def _stored(url: str) -> "Iterator[StoredMessages]":
    from sqlalchemy.exc import SQLAlchemyError

    from gateway.client.outbox.administration import StoredMessages
    from gateway.reliability.storage import StorageUnavailable

    try:
        messages = StoredMessages(url)
        try:
            yield messages
        finally:
            messages.close()
    except LookupError as error:
        raise CommandFailed(str(error.args[0])) from error
    except (SQLAlchemyError, StorageUnavailable) as error:
        text = str(getattr(error, "orig", None) or error).partition("\n")[0]
        raise CommandFailed(f"the database cannot be read: {text}") from error


def list_(
    *,
    store: StoreArgument,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="waiting, dead or done; all but done.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Messages of each box at most.")] = 100,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""List the messages that wait and the dead letters, with their reasons.

    \b
    Examples:
      dragoman outbox list sqlite:///shop.db
      dragoman outbox list postgresql://app@db/shop --state dead --output json
    """
    with _stored(store) as messages:
        found = messages.list_all(state, limit)
    if output is Form.JSON:
        for each in found:
            json_line(_record(each))
        return
    if not found:
        note("no messages")
        return
    names = ("number", "topic", "key", "state", "attempts", "since", "id", "error")
    rows = [
        (
            each.number, each.topic, each.key, each.state, each.attempts, _moment(each.created_at),
            each.id, each.error or "",
        )
        for each in found
    ]  # fmt: skip
    for text in table(names, rows):
        line(text)


def show(
    *,
    store: StoreArgument,
    number: Annotated[str, typer.Argument(metavar="NUMBER", help="As `list` shows it: inbox/7.")],
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Show a message with its attributes and its body.

    \b
    Examples:
      dragoman outbox show sqlite:///warehouse.db inbox/7
    """
    with _stored(store) as messages:
        found = messages.show(number)
    record = _record(found)
    record["attributes"] = found.attributes
    if output is Form.JSON:
        json_line({**record, "body": found.body.decode(errors="replace")})
        return
    for text in facts((name, value) for name, value in record.items() if value not in (None, "")):
        line(text)
    line()
    line(payload_text(found.body))


def retry(*, store: StoreArgument, numbers: NumberArguments = None, all: AllOption = False) -> None:
    r"""Give dead letters a new start, in their places: their attempts are counted anew.

    \b
    Examples:
      dragoman outbox retry sqlite:///warehouse.db inbox/7
      dragoman outbox retry sqlite:///warehouse.db --all
    """
    chosen = _chosen(numbers, all)
    with _stored(store) as messages:
        note(f"{counted(messages.retry(chosen), 'message')} will be tried again")


def drop(*, store: StoreArgument, numbers: NumberArguments = None, all: AllOption = False) -> None:
    r"""Drop dead letters, or messages that wait; an inbox still knows their ids.

    \b
    Examples:
      dragoman outbox drop sqlite:///warehouse.db inbox/7
      dragoman outbox drop sqlite:///warehouse.db --all
    """
    chosen = _chosen(numbers, all)
    with _stored(store) as messages:
        note(f"{counted(messages.drop(chosen), 'message')} dropped")


def _chosen(numbers: list[str] | None, every: bool) -> list[str] | None:
    if bool(numbers) == every:
        raise CommandFailed("say which messages, or --all for all dead letters", ASKED_WRONGLY)
    return numbers or None


def _record(message: "StoredMessage") -> dict[str, Any]:
    record = asdict(message)
    del record["body"], record["attributes"]
    for name in ("created_at", "due_at"):
        record[name] = _moment(record[name])
    return record


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


add(outbox, list_, "list")
add(outbox, show)
add(outbox, retry)
add(outbox, drop)
