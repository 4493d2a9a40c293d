"""``dragoman topics delegate`` and ``publish``: what rights to a topic are for."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.documents import read_document
from gateway.cli.entities import (
    CERTIFICATE,
    ENTITIES,
    KEY,
    NODES,
    CertificateOption,
    EntitiesOption,
    Files,
    KeyOption,
    NodesOption,
    read_own,
    read_trust,
)
from gateway.cli.errors import CommandFailed
from gateway.cli.options import GATEWAY, GatewayOption, SpecOption, read_spec, tls
from gateway.cli.output import facts, line, moment
from gateway.cli.topics.making import read_time
from mediation import Version

if TYPE_CHECKING:
    from mediation.discovery import Credentials, TopicAdvertisement, Verifier

_ENTITY = re.compile("e-[0-9a-f]{32}")
TopicArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="The topic, as `create` keeps it.")
]


def delegate(
    topic: TopicArgument,
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="Whom: an id, e-...")],
    file: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the right is kept; it must not be there.")
    ] = Path("delegation.xml"),
    right: Annotated[
        list[str] | None,
        typer.Option(metavar="RIGHT", help="subscribe or publish; repeatable. [subscribe]"),
    ] = None,
    lifetime: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="How long: 12h, 30d. [as long as the topic]"),
    ] = None,
    key: KeyOption = KEY,
    certificate: CertificateOption = CERTIFICATE,
    nodes: NodesOption = NODES,
) -> None:
    r"""Sign a right to a topic of ours, for another entity; nothing is sent.

    The other is given the file, and uses it: `dragoman listen --discover ... --delegation FILE`,
    `dragoman topics publish ... --delegation FILE`.

    \b
    Examples:
      dragoman topics delegate wind.xml e-6699b28b77881f9c41e834f55d107bd2 --for 30d
      dragoman topics delegate wind.xml e-6699b28b77881f9c41e834f55d107bd2 \
          --right subscribe --right publish --file for-the-museum.xml
    """
    from filters import Refused
    from gateway.client.discovery.entity import delegate as signed
    from mediation.discovery import Right, Verifier, check_kept

    if _ENTITY.fullmatch(entity) is None:
        text = f"{entity!r} is not the id of an entity, as `dragoman topics keys` prints it"
        raise typer.BadParameter(text, param_hint="ENTITY")
    try:
        rights = [Right(one) for one in right or ["subscribe"]]
    except ValueError as error:
        text = f"{error.args[0].split(' is not')[0]} is no right; there are subscribe, publish"
        raise typer.BadParameter(text, param_hint="--right") from error
    if file.exists():
        raise CommandFailed(f"{file}: exists; name another file with --file.")
    now = datetime.now(UTC)
    until = None if lifetime is None else now + read_time(lifetime, "--for")
    files = Files(key, certificate, nodes)
    own = read_own(files)
    octets = read_document(str(topic), str(topic))
    try:
        created = check_kept(octets, Verifier(read_trust(files, own)), own, now=now)
    except Refused as refused:
        raise CommandFailed(f"{topic}: {refused.text}") from refused
    made = signed(own, created.advertisement, entity, *rights, until=until)
    with file.open("xb") as opened:
        opened.write(made)
    about = created.advertisement
    ends = about.expires if until is None else min(until, about.expires)
    said = {
        "topic": about.topic_id,
        "for": entity,
        "rights": sorted(one.value for one in rights),
        "until": moment(ends.isoformat()),
        "file": file,
    }
    for text in facts(said.items()):
        line(text)


def publish(
    context: typer.Context,
    topic: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The topic, as `create` or `discover --save` keeps it."
        ),
    ],
    files: Annotated[list[str], typer.Argument(metavar="EVENT...", help="XML; - is one, too.")],
    delegation: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The right to a topic of another."),
    ] = None,
    key: KeyOption = KEY,
    certificate: CertificateOption = CERTIFICATE,
    nodes: NodesOption = NODES,
    entities: EntitiesOption = ENTITIES,
    gateway: GatewayOption = GATEWAY,
    spec: SpecOption = Version.WSN_1_3.value,
) -> None:
    r"""Publish XML documents on a topic that was advertised, each as one event, with the proof
    that we may.

    \b
    Examples:
      echo '<knots>12</knots>' | dragoman topics publish wind.xml -
      dragoman topics publish 7d3f0c52-91ab-4e0e-8f5d-2a6b1c9e4d70.xml event.xml \
          --delegation for-the-museum.xml
    """
    from gateway.client import speaking
    from gateway.client.discovery import Entity
    from mediation.discovery import Creator, Role, Verifier

    version = read_spec(spec)
    whose = Files(key, certificate, nodes, entities)
    own = read_own(whose)
    trust = read_trust(whose, own)
    about = _topic_in(topic, Verifier(trust), own)
    right = None if delegation is None else read_document(str(delegation), str(delegation))
    events = [(name, read_document(name, name)) for name in files]

    async def run() -> None:
        async with speaking(gateway, version, tls=tls(context)) as client:
            us = Entity(client, own, trust, Creator(own.identifier(Role.ENTITY)))
            for name, octets in events:
                await us.publish(about, octets, delegation=right)
                await client.finish()
                shown = "standard input" if name == "-" else name
                line(f"published {shown} to {about.topic_id}")

    asyncio.run(run())


def _topic_in(path: Path, verifier: "Verifier", own: "Credentials") -> "TopicAdvertisement":
    """The topic of a file, in whichever of the two forms.

    Raises:
        CommandFailed: It is none that is believed, or one that we cannot read.
    """
    from filters import Refused
    from mediation.discovery import (
        SignedTopicAdvertisement,
        TopicAdvertisement,
        check_advertisement,
        check_kept,
        read,
    )

    octets, now = read_document(str(path), str(path)), datetime.now(UTC)
    try:
        if isinstance(read(octets).value, SignedTopicAdvertisement):
            found = check_advertisement(octets, verifier, now=now).advertisement
            if isinstance(found, TopicAdvertisement):
                return found
            raise CommandFailed(f"{path}: the advertisement is encrypted")
        return check_kept(octets, verifier, own, now=now).advertisement
    except Refused as refused:
        raise CommandFailed(f"{path}: {refused.text}") from refused
