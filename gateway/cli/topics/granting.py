"""``dragoman topics delegate``, ``hand-on`` and ``publish``: what others are given of a topic, and
what rights to it are for."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.documents import read_document
from gateway.cli.entities import (
    WAIT,
    FilesOptions,
    OwnFilesOptions,
    ReachingOptions,
    TopicKeyOption,
    WaitOption,
    check_entity,
    ourselves,
    read_keys,
    read_own,
    read_trust,
)
from gateway.cli.errors import CommandFailed
from gateway.cli.options import GATEWAY, GatewayOption, SpecOption, connecting, read_spec
from gateway.cli.output import facts, line, moment, note
from gateway.cli.topics.making import find_keeper, read_time, revocations_of, take_up
from mediation.model.versions import Version

if TYPE_CHECKING:
    from mediation.discovery import Credentials, TopicAdvertisement, Verifier

TopicArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="The topic, as `create` keeps it.")
]


def delegate(
    *,
    topic: TopicArgument,
    entity: Annotated[
        str,
        typer.Argument(
            metavar="ENTITY",
            help="Whom: an id, e-...; or the certificate of an authority: all that it certified.",
        ),
    ],
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
    files: OwnFilesOptions,
) -> None:
    r"""Sign a right to a topic of ours, for another entity; nothing is sent.

    The other is given the file, and uses it: `dragoman listen --discover ... --delegation FILE`,
    `dragoman topics publish ... --delegation FILE`.

    \b
    Examples:
      dragoman topics delegate wind.xml e-6699b28b77881f9c41e834f55d107bd2 --for 30d
      dragoman topics delegate wind.xml e-6699b28b77881f9c41e834f55d107bd2 \
          --right subscribe --right publish --file for-the-museum.xml
      dragoman topics delegate wind.xml museums-ca.pem --file for-museums.xml
    """
    from filters import Refused
    from gateway.client.discovery.entity import delegate as signed
    from mediation.discovery import Right, Verifier, check_kept

    entity = _grantee(entity)
    try:
        rights = [Right(one) for one in right or ["subscribe"]]
    except ValueError as error:
        text = f"{error.args[0].split(' is not')[0]} is no right; there are subscribe, publish"
        raise typer.BadParameter(text, param_hint="--right") from error
    if file.exists():
        raise CommandFailed(f"{file}: exists; name another file with --file.")
    now = datetime.now(UTC)
    until = None if lifetime is None else now + read_time(lifetime, "--for")
    own = read_own(files)
    octets = read_document(str(topic), str(topic))
    try:
        created = check_kept(octets, Verifier(read_trust(files, own)), own, now=now)
    except Refused as refused:
        raise CommandFailed(f"{topic}: {refused.text}") from refused
    made = signed(own, created.advertisement, entity, *rights, until=until)
    with file.open("xb") as decrypted_advertisement:
        decrypted_advertisement.write(made)
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


def _grantee(text: str) -> str:
    from mediation.discovery import authority_of, read_authorities

    if not Path(text).is_file():
        return check_entity(text, "ENTITY")
    try:
        return authority_of(read_authorities(read_document(text, text))[0])
    except ValueError as error:
        raise CommandFailed(f"{text}: no certificate in PEM") from error


def revoke(
    *,
    topic: TopicArgument,
    delegations: Annotated[
        list[str],
        typer.Argument(metavar="DELEGATION...", help="A file, as `delegate` keeps it, or an id."),
    ],
    wait: WaitOption = WAIT,
    files: OwnFilesOptions,
    reaching: ReachingOptions,
) -> None:
    r"""Take rights to a topic of ours back before they end: gateways end the subscriptions that
    rest on them, and take no publication by them. What they took before is still delivered.

    The signed revocations are kept beside the topic, in the folder FILE.revoked: `advertise` makes
    them known again, to nodes that were away. The command fails where no node keeps the topic.

    \b
    Examples:
      dragoman topics revoke wind.xml delegation.xml
      dragoman topics revoke wind.xml dlg-5c0a1c9e-6f7d-4b43-9d62-0f6d7e1a2b3c
    """
    from filters import Refused
    from gateway.client.discovery.entity import revocable

    octets = read_document(str(topic), str(topic))
    given = [one if _DELEGATION.fullmatch(one) else read_document(one, one) for one in delegations]

    async def run() -> None:
        async with ourselves(files, reaching) as entity:
            about = take_up(entity, topic, octets).advertisement
            try:
                ids = [revocable(about, one)[0] for one in given]
            except Refused as refused:
                raise CommandFailed(refused.text) from refused
            kept = revocations_of(topic)
            kept.mkdir(exist_ok=True)
            for id_, one in zip(ids, given, strict=True):
                (kept / f"{id_}.xml").write_bytes(await entity.revoke(about, one))
                line(f"revoked {id_}")
            # A node answers what comes later later: it has the revocations.
            keeper = await find_keeper(entity, about.topic_id, wait)
        if keeper is None:
            raise CommandFailed(
                f"No node says that it keeps {about.topic_id}: advertise it, and ask longer with "
                "--wait."
            )
        note(f"{keeper} keeps {about.topic_id}, and obeys.")

    asyncio.run(run())


_DELEGATION = re.compile(r"dlg-[A-Za-z0-9._-]{1,76}")


def hand_on(
    *,
    topic: TopicArgument,
    reader: Annotated[
        Path, typer.Argument(metavar="CERTIFICATE", help="Whom: the certificate of an entity.")
    ],
    file: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the key is kept; it must not be there.")
    ] = Path("topic-key.xml"),
    files: OwnFilesOptions,
) -> None:
    r"""Encrypt the key of an encrypted topic of ours for another entity, which can then read what
    the topic is about; nothing is sent. Rights to its events are another matter: `delegate`.

    The other is given the file, and uses it: `dragoman topics discover id=... --topic-key FILE`,
    `dragoman listen --discover id=... --topic-key FILE --delegation FILE`.

    
    Example:
      dragoman topics hand-on wind.xml museum.pem --file for-the-museum.xml
    """
    from filters import Refused
    from mediation.discovery import (
        EncryptedAdvertisement,
        Role,
        Verifier,
        check_kept,
        identifier_of,
        read_advertisement,
        read_authorities,
    )
    from mediation.discovery import hand_on as handed_on

    if file.exists():
        raise CommandFailed(f"{file}: exists; name another file with --file.")
    own, octets = read_own(files), read_document(str(topic), str(topic))
    try:
        verifier = Verifier(read_trust(files, own))
        about = check_kept(octets, verifier, own, now=datetime.now(UTC)).advertisement
        outside = read_advertisement(octets).value
    except Refused as refused:
        raise CommandFailed(f"{topic}: {refused.text}") from refused
    if not isinstance(outside, EncryptedAdvertisement):
        raise CommandFailed(f"{topic}: the advertisement is not encrypted: everybody can read it")
    pem = read_document(str(reader), str(reader))
    try:
        other = read_authorities(pem)[0]
        whom = identifier_of(other, Role.ENTITY)
        made = handed_on(outside.data, own.identifier(Role.ENTITY), own, whom, other)
    except ValueError as error:
        text = f"{reader}: no certificate in PEM of an RSA key that enciphers keys"
        raise CommandFailed(text) from error
    with file.open("xb") as decrypted_advertisement:
        decrypted_advertisement.write(made)
    for text in facts({"topic": about.topic_id, "for": whom, "file": file}.items()):
        line(text)


def publish(
    *,
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
    whose: FilesOptions,
    topic_key: TopicKeyOption = None,
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
    own = read_own(whose)
    trust = read_trust(whose, own)
    about = _topic_in(topic, Verifier(trust), own, read_keys(topic_key))
    right = None if delegation is None else read_document(str(delegation), str(delegation))
    events = [(name, read_document(name, name)) for name in files]

    async def run() -> None:
        async with speaking(gateway, version, **connecting(context)) as client:
            us = Entity(client, own, trust, Creator(own.identifier(Role.ENTITY)))
            for name, octets in events:
                await us.publish(about, octets, delegation=right)
                await client.finish()
                shown = "standard input" if name == "-" else name
                line(f"published {shown} to {about.topic_id}")

    asyncio.run(run())


def _topic_in(
    path: Path, verifier: "Verifier", own: "Credentials", keys: tuple[bytes, ...]
) -> "TopicAdvertisement":
    """The topic of a file, in whichever of the two forms.

    Raises:
        CommandFailed: It is none that is believed, or one that we cannot read.
    """
    from filters import Refused
    from gateway.client.discovery.search_results import decrypted_advertisement
    from mediation.discovery import (
        SignedTopicAdvertisement,
        check_advertisement,
        check_kept,
        read,
    )

    octets, now = read_document(str(path), str(path)), datetime.now(UTC)
    try:
        if isinstance(read(octets).value, SignedTopicAdvertisement):
            checked = check_advertisement(octets, verifier, now=now).advertisement
            found = decrypted_advertisement(checked, own, verifier, keys)
            if found is None:
                text = "the advertisement is encrypted: its creator hands on the key (--topic-key)"
                raise CommandFailed(f"{path}: {text}")
            return found
        return check_kept(octets, verifier, own, now=now).advertisement
    except Refused as refused:
        raise CommandFailed(f"{path}: {refused.text}") from refused
