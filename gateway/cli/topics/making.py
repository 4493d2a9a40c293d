"""``dragoman topics create``, ``advertise`` and ``withdraw``: topics of one's own."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from gateway.cli.documents import read_document
from gateway.cli.entities import (
    WAIT,
    FilesOptions,
    InstitutionOption,
    IssuerOption,
    NameOption,
    NodeOption,
    OwnFilesOptions,
    ReachingOptions,
    WaitOption,
    chosen,
    for_people,
    ourselves,
    place_of,
)
from gateway.cli.errors import CommandFailed
from gateway.cli.options import (
    Form,
    OutputOption,
)
from gateway.cli.output import facts, json_line, line, note
from gateway.cli.receiving import until_stopped

if TYPE_CHECKING:
    from gateway.client.discovery import Entity
    from mediation.discovery import Created, EventSigners, Property, Schema, Synopsis

_AGO = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
TopicFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Where the topic is kept; it must not be there.")
]


def create(
    *,
    file: TopicFile,
    text: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="What it is about; repeatable.")
    ] = None,
    keyword: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="A keyword; repeatable.")
    ] = None,
    path: Annotated[
        list[str] | None,
        typer.Option(metavar="A/B", help="Where it is found in a hierarchy; repeatable."),
    ] = None,
    property_: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            metavar="NAME=VALUE",
            help="A property; NAME:long=VALUE is a number (also double, boolean); repeatable.",
        ),
    ] = None,
    document: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="An XML document that describes it; repeatable."),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What its events look like: XML Schema or JSON Schema."),
    ] = None,
    signed_by: Annotated[
        str | None,
        typer.Option(
            metavar="WHO",
            help="Who must sign its events: creator; or publishers, whoever publishes one by a "
            "delegation. [nobody]",
        ),
    ] = None,
    synopsis: Annotated[
        str,
        typer.Option(
            metavar="TYPE:PLACEHOLDER",
            help="What its events are told by; the node puts a UUID into it. path:{URI}A/B, "
            "integer, tags:a=1,b=2, properties:NAME=VALUE,..., xml:FILE.",
        ),
    ] = "path:",
    lifetime: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="How long it lives: 40s, 90m, 12h, 30d. [as the node lets]"
        ),
    ] = None,
    encrypted: Annotated[
        bool, typer.Option("--encrypted", help="Let nobody read what it is about.")
    ] = False,
    name: NameOption = None,
    institution: InstitutionOption = None,
    node: NodeOption = None,
    issuer: IssuerOption = None,
    wait: WaitOption = 1.0,
    files: OwnFilesOptions,
    reaching: ReachingOptions,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Have a topic discovery node make a topic that is provably ours, and keep it in a file.

    Nobody knows the topic before it is advertised. Of several nodes the one that answers first is
    asked, unless --node or --issuer choose.

    \b
    Examples:
      dragoman topics create wind.xml --text "Wind at the harbour" --keyword wind
      dragoman topics create wind.xml --text "Wind" --property station:long=16622 \
          --synopsis "path:{http://harbour.example.net}Harbour/Wind" --lifetime 30d
      dragoman topics create wind.xml --text "Wind" --synopsis tags:kind=wind --issuer "Harbour"
    """
    from mediation.discovery import Descriptors, Purpose

    if file.exists():
        raise CommandFailed(f"{file}: exists; name another file.")
    described = Descriptors(
        tuple(path or ()),
        tuple(text or ()),
        tuple(keyword or ()),
        tuple(_property(one, "--property") for one in property_ or ()),
        tuple(_document(one) for one in document or ()),
        None if schema is None else _schema(schema),
        None if signed_by is None else _signers(signed_by, encrypted=encrypted),
    )
    if described == Descriptors():
        wanted = "--text, --keyword, --path, --property or --document"
        raise typer.BadParameter("say what the topic is about", param_hint=wanted)
    placeholder = _placeholder(synopsis)
    life = None if lifetime is None else read_time(lifetime, "--lifetime")

    async def run() -> "Created":
        async with ourselves(files, reaching, name=name, institution=institution) as entity:
            offers = await chosen(entity, Purpose.CREATE, node, issuer, wait, institution)
            return await entity.create_topic(
                described, placeholder, lifetime=life, encrypted=encrypted, offers=offers
            )

    made = asyncio.run(run())
    with file.open("xb") as opened:
        opened.write(made.signed)
    topic = made.advertisement
    said: dict[str, object] = {
        "id": str(topic.topic_id),
        "node": topic.node,
        "mark": place_of(topic),
        "expires": topic.expires.isoformat(),
        "file": str(file),
    }
    if output is Form.JSON:
        json_line(said)
        return
    for each in facts(for_people(said.items())):
        line(each)
    note(f"Nobody knows it yet: dragoman topics advertise {file}")


def advertise(
    *,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Topics, as `create` keeps them.")
    ],
    stay: Annotated[
        bool,
        typer.Option("--stay", help="Go on: advertise them again in time, until Ctrl-C."),
    ] = False,
    answer: Annotated[
        bool,
        typer.Option("--answer", help="Stay, and answer for them where no node answers."),
    ] = False,
    wait: WaitOption = WAIT,
    own: FilesOptions,
    reaching: ReachingOptions,
) -> None:
    r"""Make topics known to all nodes, and say which node keeps them.

    With a topic go the revocations that `revoke` keeps beside it.
    Nodes that were away learn of them when they are advertised again: by hand, or every sixth of
    their lifetime with --stay. With --answer, which stays, too, those of --entities are answered
    who ask for such topics where no node answers. The command fails where no node keeps a topic (it
    was withdrawn, has expired, or no node takes it), unless it stays.

    \b
    Examples:
      dragoman topics advertise wind.xml
      dragoman topics advertise wind.xml tide.xml --stay --answer
    """
    stay = stay or answer

    async def run() -> None:
        kept = [(file, _octets(file)) for file in files]
        async with ourselves(own, reaching, answers=answer) as entity:
            created = [(file, take_up(entity, file, octets)) for file, octets in kept]
            for file, topic in created:
                await entity.advertise(topic)
                for each in sorted(revocations_of(file).glob("*.xml")):
                    await _publish_again(entity, each)
                id_ = topic.advertisement.topic_id
                line(f"advertised {id_} ({file})")
            homeless = []
            for _, topic in created:
                id_ = topic.advertisement.topic_id
                keeper = await find_keeper(entity, id_, wait)
                note(f"{keeper} keeps {id_}" if keeper else f"No node says that it keeps {id_}.")
                homeless += [] if keeper else [str(id_)]
            if homeless and not stay:
                raise CommandFailed(
                    f"No node keeps {', '.join(homeless)}: withdrawn, expired, or not taken by "
                    "any node; see a node's log, or ask longer with --wait."
                )
            if stay:
                note("They are advertised again in time; Ctrl-C ends.")
                await asyncio.Event().wait()

    asyncio.run(until_stopped(run()))


def revocations_of(topic: Path) -> Path:
    """The folder in which `revoke` keeps what takes rights to the topic of a file back."""
    return topic.with_name(f"{topic.name}.revoked")


async def _publish_again(entity: "Entity", file: Path) -> None:
    from filters import Refused

    try:
        await entity.publish_revocation(_octets(file))
    except Refused as refused:
        raise CommandFailed(f"{file}: {refused.text}") from refused


async def find_keeper(entity: "Entity", topic_id: UUID, wait: float) -> str | None:
    """A node that says that it keeps a topic; None: none does."""
    from gateway.client.discovery import read_query

    found = entity.discover(read_query(f"id={topic_id}"), most=1, wait=wait, creators=False)
    async with aclosing(found):
        async for one in found:
            return one.answered_by
    return None


def withdraw(
    *,
    topics: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC...", help="A file, as `create` keeps it, or an id."),
    ],
    wait: WaitOption = WAIT,
    own: OwnFilesOptions,
    reaching: ReachingOptions,
) -> None:
    r"""Take topics of ours back before they expire: nodes answer with them no more. Nodes are asked
    afterwards; the command fails where one still keeps a topic, as it does one of another.

    \b
    Examples:
      dragoman topics withdraw wind.xml
      dragoman topics withdraw 7d3f0c52-91ab-4e0e-8f5d-2a6b1c9e4d70
    """
    wanted = [(name, _id(name)) for name in topics]

    async def run() -> None:
        kept = [(name, id_, b"" if id_ else _octets(Path(name))) for name, id_ in wanted]
        async with ourselves(own, reaching) as entity:
            ids = [
                id_ or take_up(entity, Path(name), octets).advertisement.topic_id
                for name, id_, octets in kept
            ]
            for topic_id in ids:
                await entity.withdraw(topic_id)
            keepers = await asyncio.gather(*(find_keeper(entity, one, wait) for one in ids))
        for topic_id, keeper in zip(ids, keepers, strict=True):
            if keeper is None:
                line(f"withdrawn {topic_id}")
        still = [
            f"{keeper} still keeps {topic_id}"
            for topic_id, keeper in zip(ids, keepers, strict=True)
            if keeper is not None
        ]
        if still:
            raise CommandFailed(f"{'; '.join(still)}: only who made a topic can withdraw it")

    asyncio.run(run())


def _id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _octets(path: Path) -> bytes:
    return read_document(str(path), str(path))


def take_up(entity: "Entity", file: Path, octets: bytes) -> "Created":
    """The topic of ours that *file* keeps.

    Raises:
        CommandFailed: It is none.
    """
    from filters import Refused

    try:
        return entity.take_up(octets)
    except Refused as refused:
        raise CommandFailed(f"{file}: {refused.text}") from refused


def read_time(text: str, option: str) -> timedelta:
    """Read a time such as ``40s``, ``90m``, ``12h``, ``30d``.

    Raises:
        typer.BadParameter: It is none.
    """
    found = _AGO.fullmatch(text)
    if found is None:
        raise typer.BadParameter(
            f"{text!r} is not a time, as 40s, 90m, 12h and 30d are", param_hint=option
        )
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _property(text: str, option: str) -> "Property":
    from mediation.discovery import Property, PropertyType

    name, equals, value = text.partition("=")
    name, _, kind = name.strip().partition(":")
    try:
        made = Property(name, value, PropertyType(kind or "string"))
        made.typed  # noqa: B018 - to see whether it can be read
    except ValueError:
        made = None
    if made is None or not (name and equals):
        text = f"{text!r} is no property, as unit=m/s and station:long=16622 are"
        raise typer.BadParameter(text, param_hint=option)
    return made


def _document(path: Path) -> bytes:
    from filters import Refused, parse_document
    from mediation.discovery import canonical_document

    octets = _octets(path)
    try:
        parse_document(octets)
        return canonical_document(octets)
    except Refused as refused:
        raise CommandFailed(f"{path}: {refused.text}") from refused


def _signers(text: str, *, encrypted: bool) -> "EventSigners":
    from mediation.discovery import EventSigners

    if encrypted:
        wrong = "gateways cannot read what an encrypted topic asks for"
        raise typer.BadParameter(wrong, param_hint="--signed-by")
    try:
        return EventSigners(text)
    except ValueError as error:
        wrong = f"{text!r} is neither creator nor publishers"
        raise typer.BadParameter(wrong, param_hint="--signed-by") from error


def _schema(path: Path) -> "Schema":
    from filters import Refused
    from mediation.discovery import read_schema

    try:
        return read_schema(_octets(path))
    except Refused as refused:
        raise CommandFailed(f"{path}: {refused.text}") from refused


def _placeholder(text: str) -> "Synopsis":
    from filters import Refused
    from mediation.discovery import Synopsis, SynopsisType, check_placeholder

    kind, _, rest = text.partition(":")
    properties: Sequence[Property] = ()
    namespace, octets = None, None
    if kind == "path" and rest.startswith("{") and not rest.startswith("{uuid}"):
        namespace, _, rest = rest[1:].partition("}")
    elif kind == "properties":
        pairs = rest.split(",") if rest else []
        properties, rest = [_property(one, "--synopsis") for one in pairs], ""
    elif kind == "xml":
        octets, rest = _document(Path(rest)), ""
    try:
        made = Synopsis(SynopsisType(kind), rest, namespace, tuple(properties), octets)
        check_placeholder(made)
    except Refused as refused:
        raise typer.BadParameter(refused.text, param_hint="--synopsis") from refused
    except ValueError as error:
        kinds = ", ".join(one.value for one in SynopsisType)
        wrong = f"{kind!r} is no type of synopsis; there are {kinds}"
        raise typer.BadParameter(wrong, param_hint="--synopsis") from error
    return made
