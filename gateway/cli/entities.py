"""What commands of topic discovery share: who we are, whom we believe, and how topics are shown.

Imported when a command needs it: cryptography takes a while.
"""

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.documents import read_document
from gateway.cli.errors import CommandFailed
from gateway.cli.option_groups import OptionGroup
from gateway.cli.options import (
    GATEWAY,
    Connecting,
    GatewayOption,
    SpecOption,
    connecting,
    read_spec,
)
from gateway.cli.output import moment
from gateway.cli.receiving import listener, mailbox, on_soap_tcp
from gateway.client import GatewayError, speaking
from mediation.model.versions import Version
from mediation.specifications import SPECIFICATIONS

if TYPE_CHECKING:
    from gateway.client.discovery import Entity, Found, Offer
    from mediation.discovery import (
        Anchors,
        Credentials,
        Purpose,
        Query,
        TopicAdvertisement,
        Trust,
    )

KEY, CERTIFICATE = Path("entity.key"), Path("entity.pem")
NODES, ENTITIES = Path("nodes.pem"), Path("entities.pem")
KeyOption = Annotated[
    Path, typer.Option("--key", metavar="FILE", help="Our key, as `topics keys` makes it.")
]
CertificateOption = Annotated[
    Path, typer.Option("--certificate", metavar="FILE", help="Our certificate.")
]
NodesOption = Annotated[
    Path,
    typer.Option(
        "--nodes", metavar="FILE", help="Certificates of nodes that we believe, or of authorities."
    ),
]
EntitiesOption = Annotated[
    Path,
    typer.Option(
        "--entities",
        metavar="FILE",
        help="Certificates of entities that we believe, or of authorities. Ourselves we believe.",
    ),
]
NodeOption = Annotated[
    list[str] | None,
    typer.Option("--node", metavar="ID", help="Ask this node (tdn-...) alone; repeatable."),
]
IssuerOption = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Ask nodes alone whose authority has this in its name."),
]
PullOption = Annotated[
    bool, typer.Option("--pull", help="Fetch answers from a mailbox at the gateway.")
]
WaitOption = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, max=30, help="How long answers are waited for.")
]
NameOption = Annotated[str | None, typer.Option(metavar="NAME", help="What we call ourselves.")]
InstitutionOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="The institution that we are of.")
]
TopicKeyOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--topic-key",
        metavar="FILE",
        help="The key of an encrypted topic of another, as its creator hands it on; repeatable.",
    ),
]
WAIT = 2.0
_ENTITY = re.compile("e-[0-9a-f]{32}")
_TIMES = ("created", "expires")


@dataclass(frozen=True, slots=True)
class Files:
    """The files that say who we are, and whom we believe."""

    key: KeyOption = KEY
    certificate: CertificateOption = CERTIFICATE
    nodes: NodesOption = NODES
    entities: EntitiesOption = ENTITIES


FilesOptions = Annotated[Files, OptionGroup(Files)]
OwnFilesOptions = Annotated[Files, OptionGroup(Files, without=("entities",))]
"""Without --entities, for commands that ask no other entity."""


@dataclass(frozen=True, slots=True)
class Reaching:
    """How the gateway is spoken to, and what it says to us is received."""

    gateway: str
    version: Version
    connecting: Connecting
    pull: bool = False


def reach(
    context: typer.Context,
    gateway: GatewayOption = GATEWAY,
    spec: SpecOption = Version.WSN_1_3.value,
    pull: PullOption = False,
) -> Reaching:
    """How the gateway is spoken to.

    Raises:
        typer.BadParameter: Nobody speaks so, or what is said so cannot be fetched.
    """
    version = read_spec(spec)
    if pull and SPECIFICATIONS[version].bodies is not None:
        raise typer.BadParameter("--pull fetches SOAP: choose another --spec", param_hint="--spec")
    if pull and on_soap_tcp(gateway):
        raise typer.BadParameter("--pull fetches over HTTP alone", param_hint="--gateway")
    return Reaching(gateway, version, connecting(context), pull)


ReachingOptions = Annotated[Reaching, OptionGroup(reach)]


def read_own(files: Files) -> "Credentials":
    """Read our key and certificate.

    Raises:
        CommandFailed: They cannot be read, or do not serve.
    """
    from filters.extras import how_to_install
    from mediation.discovery import read_credentials
    from mediation.discovery.signing import can_sign

    if not can_sign():
        raise CommandFailed(f"signing needs signxml: {how_to_install('discovery')}")
    key = _read(files.key, "`dragoman topics keys NAME` makes one")
    certificate = _read(files.certificate, "`dragoman topics keys NAME` makes one")
    try:
        own = read_credentials(key, certificate)
    except ValueError as error:
        raise CommandFailed(f"{files.key}, {files.certificate}: {error}") from error
    until = own.certificate.not_valid_after_utc
    if until <= datetime.now(UTC):
        text = f"{files.certificate}: expired on {until:%Y-%m-%d}; `dragoman topics keys` renews it"
        raise CommandFailed(text)
    return own


def read_trust(files: Files, own: "Credentials") -> "Trust":
    """Read whom we believe; ourselves in any case.

    Raises:
        CommandFailed: A file cannot be read, or both have something in common.
    """
    from mediation.discovery import Anchors, Trust, fingerprint_of

    nodes = _anchors(files.nodes, "name the certificates of nodes with --nodes")
    entities = Anchors()
    # Who looks at topics of its own alone needs no such file.
    if files.entities != ENTITIES or files.entities.exists():
        entities = _anchors(files.entities, "name the certificates of entities with --entities")
    ourselves = entities.fingerprints | {fingerprint_of(own.certificate)}
    try:
        return Trust(nodes, replace(entities, fingerprints=ourselves))
    except ValueError as error:
        raise CommandFailed(f"{files.nodes}, {files.entities}: {error}") from error


def _anchors(path: Path, hint: str) -> "Anchors":
    from mediation.discovery import read_anchors

    try:
        return read_anchors(_read(path, hint))
    except ValueError as error:
        raise CommandFailed(f"{path}: no certificates in PEM that can be used: {error}") from error


def _read(path: Path, hint: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise CommandFailed(f"{path}: there is no such file; {hint}") from error


@asynccontextmanager
async def ourselves(
    files: Files,
    reaching: Reaching,
    *,
    name: str | None = None,
    institution: str | None = None,
    answers: bool = False,
) -> AsyncIterator["Entity"]:
    """The entity that our files make us, at the gateway."""
    # Imported when it is wanted, so that other commands start quickly.
    from gateway.client.discovery import entity

    own = read_own(files)
    trust = read_trust(files, own)
    gateway = reaching.gateway
    receiving = mailbox(gateway, reaching.connecting) if reaching.pull else listener(gateway)
    async with (
        speaking(gateway, reaching.version, **reaching.connecting) as client,
        receiving as inbox,
        entity(
            client, inbox, own, trust, name=name, institution=institution, answers=answers
        ) as made,
    ):
        yield made


async def chosen(
    entity: "Entity",
    purpose: "Purpose",
    nodes: list[str] | None,
    issuer: str | None,
    wait: float,
    institution: str | None = None,
) -> "tuple[Offer, ...]":
    """The nodes that ``--node`` and ``--issuer`` choose, the quickest first.

    Raises:
        GatewayError: None answers.
    """
    offers = await entity.find_nodes(
        purpose, institution=institution, issuer=issuer, nodes=nodes, wait=wait
    )
    if not offers:
        which = " that was asked for" if nodes or issuer else ""
        text = f"no topic discovery node{which} answered, whose certificate is among --nodes"
        raise GatewayError(text)
    return offers


def asked(text: str, option: str) -> "Query":
    """Read a query, and compile it: nodes answer none that is not valid.

    Raises:
        typer.BadParameter: It is none, or not valid in its dialect.
    """
    from filters import FilterError, Reason
    from gateway.client.discovery import read_query

    try:
        query = read_query(text)
        _compile(query)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
    except FilterError as error:
        # What cannot be compiled here, for want of an extra, nodes may know.
        if error.reason is Reason.QUERY_INVALID:
            raise typer.BadParameter(error.text, param_hint=option) from error
    return query


def _compile(query: "Query") -> None:
    from filters.queries import XQueryWorker, compile_query
    from mediation.discovery import Dialect

    if query.dialect != Dialect.XQUERY.value:
        compile_query(query.dialect, query.text)
        return
    worker = XQueryWorker()
    try:
        compile_query(query.dialect, query.text, xquery=worker)
    finally:
        worker.close()


def check_entity(text: str, option: str) -> str:
    """Return *text*, the identifier of an entity.

    Raises:
        typer.BadParameter: It is none.
    """
    if _ENTITY.fullmatch(text) is None:
        wrong = f"{text!r} is not the id of an entity, as `dragoman topics keys` prints it"
        raise typer.BadParameter(wrong, param_hint=option)
    return text


def read_keys(paths: Iterable[Path] | None) -> tuple[bytes, ...]:
    """Read keys of topics.

    Raises:
        CommandFailed: One cannot be read.
    """
    return tuple(read_document(str(path), str(path)) for path in paths or ())


def place_of(topic: "TopicAdvertisement") -> str:
    """What events of a topic are told by, for people."""
    from mediation.discovery import selection_of

    selection = selection_of(topic.synopsis, topic.topic_id)
    return str(selection.topic) if selection.topic is not None else selection.expression


def described(found: "Found", opened: "TopicAdvertisement | None") -> Iterable[tuple[str, object]]:
    """What a topic is, and whose, for people and programs.

    Args:
        opened: What it says; None: it is encrypted, and we have no key.

    Raises:
        Refused: It is not what it says.
    """
    from mediation.discovery import EncryptedAdvertisement

    checked = found.check()
    topic = opened or checked.advertisement
    yield "id", str(topic.topic_id)
    yield "name", topic.creator.name
    yield "institution", topic.creator.institution
    yield "creator", topic.creator.entity_id
    yield "issuer", checked.creator.certificate.issuer.rfc4514_string()
    yield "node", topic.node
    yield "created", topic.created.isoformat()
    yield "expires", topic.expires.isoformat()
    yield "encrypted", isinstance(checked.advertisement, EncryptedAdvertisement)
    if opened is not None:
        yield "texts", list(opened.descriptors.texts)
        yield "paths", list(opened.descriptors.paths)
        yield "keywords", list(opened.descriptors.keywords)
        yield "properties", [f"{one.name}={one.value}" for one in opened.descriptors.properties]
        if (schema := opened.descriptors.schema) is not None:
            yield "schema", {"type": schema.type.value, "text": schema.text}
        if (signers := opened.descriptors.signers) is not None:
            yield "signed by", signers.value
        yield "synopsis", opened.synopsis.type.value
        yield "mark", place_of(opened)


def for_people(pairs: Iterable[tuple[str, object]]) -> Iterable[tuple[str, object]]:
    """What there is of *pairs*, with times to the second."""
    for name, value in pairs:
        if isinstance(value, dict):
            yield name, f"{value['type']}, {len(value['text'])} characters; --save keeps it"
        elif value not in (None, [], False):
            yield name, moment(value) if name in _TIMES else value
