"""``dragoman topics discover``."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.entities import (
    WAIT,
    FilesOptions,
    IssuerOption,
    NodeOption,
    ReachingOptions,
    TopicKeyOption,
    WaitOption,
    asked,
    check_entity,
    chosen,
    described,
    for_people,
    ourselves,
    read_keys,
)
from gateway.cli.options import (
    Form,
    OutputOption,
)
from gateway.cli.output import facts, json_line, line, note
from gateway.cli.topics.making import read_time

if TYPE_CHECKING:
    from gateway.client.discovery import Entity, Found, Offer


def discover(
    *,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to find; see below.")],
    created_after: Annotated[
        datetime | None, typer.Option(metavar="TIME", help="Made after this time (UTC).")
    ] = None,
    created_before: Annotated[
        datetime | None, typer.Option(metavar="TIME", help="Made before it.")
    ] = None,
    expires_after: Annotated[
        datetime | None, typer.Option(metavar="TIME", help="There until then, at least.")
    ] = None,
    expires_before: Annotated[
        datetime | None, typer.Option(metavar="TIME", help="Over by then.")
    ] = None,
    valid_at_least: Annotated[
        str | None, typer.Option(metavar="TIME", help="With a lifetime of 12h, 30d or more.")
    ] = None,
    valid_at_most: Annotated[
        str | None, typer.Option(metavar="TIME", help="With a lifetime of so much or less.")
    ] = None,
    creator: Annotated[
        str | None, typer.Option(metavar="ID", help="Of the entity with this id (e-...).")
    ] = None,
    most: Annotated[
        int | None, typer.Option(min=1, max=1000, metavar="N", help="End with N topics.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep each topic there, as ID.xml."),
    ] = None,
    node: NodeOption = None,
    issuer: IssuerOption = None,
    wait: WaitOption = WAIT,
    files: FilesOptions,
    topic_key: TopicKeyOption = None,
    reaching: ReachingOptions,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Find topics, and say whose they are; each is printed as it is found.

    Printed are topics alone whose signatures are right: that of their creator, and that of the
    node that made them. Where no node answers, creators are asked that listen. Of encrypted ones is
    printed whose they are, and all else where the key is ours, or in a file of --topic-key.

    \b
    Queries:
      harbour wind              with all these words
      text~[Ss]torm             with a text that the regular expression matches
      keyword=wind              with this keyword; also path=Weather/Europe
      property=station=16622    with this property
      creator=NAME or e-...     of this entity
      id=UUID                   this one
      sql:station > 16000       for whose properties the condition holds
      xpath:... xquery:...      for whose advertisement the expression holds

    \b
    Examples:
      dragoman topics discover "harbour wind"
      dragoman topics discover "text~[Ss]torm" --expires-after 2027-06-30 --most 10
      dragoman topics discover keyword=wind --issuer "Authority of the harbour" --output json
    """
    from filters.queries import Conditions
    from mediation.discovery import Purpose

    wanted = asked(query, "QUERY")
    conditions = Conditions(
        created_after=_utc(created_after),
        created_before=_utc(created_before),
        expires_after=_utc(expires_after),
        expires_before=_utc(expires_before),
        validity_at_least=read_time(valid_at_least, "--valid-at-least") if valid_at_least else None,
        validity_at_most=read_time(valid_at_most, "--valid-at-most") if valid_at_most else None,
        creator=None if creator is None else check_entity(creator, "--creator"),
    )
    keys = read_keys(topic_key)
    if save is not None:
        try:
            save.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise typer.BadParameter(f"{save} is no folder", param_hint="--save") from error

    async def run() -> None:
        count = 0
        async with ourselves(files, reaching) as entity:
            offers: tuple[Offer, ...] = ()
            if node or issuer:
                offers = await chosen(entity, Purpose.DISCOVER, node, issuer, 1.0)
            found = entity.discover(
                wanted, offers=offers, conditions=conditions, most=most, wait=wait
            )
            async with aclosing(found):
                async for one in found:
                    if (shown := _shown(one, entity, keys)) is None:
                        continue
                    if output is Form.TEXT and count:
                        line()
                    _print(shown, output)
                    if save is not None:
                        (save / f"{one.topic_id}.xml").write_bytes(one.octets)
                    count += 1
        if not count:
            note("No topic was found.")
        if found.more:
            note(_MORE if count else _CUT)

    asyncio.run(run())


_MORE = (
    "There are more than were answered, or not all was looked at: narrow the query, or ask for "
    "more with --most."
)
_CUT = "Not all was looked at in time: narrow the query."


def _shown(found: "Found", entity: "Entity", keys: tuple[bytes, ...]) -> dict[str, object] | None:
    """What is printed of a topic; None, and why is said, where it is not what it says."""
    from filters import Refused

    try:
        shown = described(found, entity.open(found, *keys))
        return {**dict(shown), "answered by": found.answered_by}
    except Refused as refused:
        note(f"dragoman: {found.topic_id}, of {found.answered_by}, is not believed: {refused.text}")
        return None


def _print(shown: dict[str, object], output: Form) -> None:
    if output is Form.JSON:
        json_line({name.replace(" ", "_"): value for name, value in shown.items()})
        return
    for text in facts(for_people(shown.items())):
        line(text)


def _utc(time: datetime | None) -> datetime | None:
    return None if time is None else time.replace(tzinfo=time.tzinfo or UTC)
