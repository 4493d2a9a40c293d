"""``dragoman publish``."""

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote, urlsplit

import typer

from filters import DEFAULT_TOPIC, Refused, parse_document
from gateway.cli.documents import read_document
from gateway.cli.errors import CommandFailed
from gateway.cli.options import (
    GATEWAY,
    Form,
    GatewayOption,
    OutputOption,
    SpecOption,
    connecting,
    read_spec,
)
from gateway.cli.output import json_line, line
from gateway.client import AnyClient, speaking
from mediation.client import SPECS
from mediation.model.versions import Version
from mediation.reliable_messaging import Rm

if TYPE_CHECKING:
    from gateway.client.messaging import Sign
    from gateway.client.sequence_binding import BoundTo
    from mediation.ws_security import Trust

_PATTERN = re.compile(r"[*|]|//|/\.$")


def publish(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="XML documents, each one event; - is stdin."),
    ],
    gateway: GatewayOption = GATEWAY,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            envvar="DRAGOMAN_TOPIC",
            help="What the events are about: storms, storms/coast, "
            "or {http://example.org/topics}storms.",
        ),
    ] = None,
    spec: SpecOption = Version.WSN_1_3.value,
    reliable: Annotated[
        bool,
        typer.Option(
            "--reliable",
            help="Send in a sequence (WS-ReliableMessaging): each event once, in order, and again "
            "until it is acknowledged. The gateway has to offer that (--wsrm).",
        ),
    ] = False,
    patience: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=1.0, help="With --reliable: how long an event is sent again."
        ),
    ] = 120.0,
    bound_to: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|tls",
            help="With --reliable: bind the sequence to the certificate in this file, which has "
            "its key too (PEM), and sign each message with that (WS-Security); `tls`: to the "
            "certificate that is shown in TLS.",
        ),
    ] = None,
    trust: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --bound-to FILE: believe only acknowledgements that one of these "
            "certificates signed, such as the gateway's own (PEM).",
        ),
    ] = None,
    sign_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Sign each event with this key (PEM): see `Signed events`."
        ),
    ] = None,
    sign_certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The certificate of that key, then intermediates (PEM)."),
    ] = None,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Publish XML documents, each as one event.

    All of them are read before the first is published. An event is published once the gateway
    says that its message system holds it; over SOAP.TCP, which has no answers to events, once it
    has dealt with it and refused nothing (over soap.tcps: once it has read it).

    \b
    Examples:
      dragoman publish --topic storms storm.xml
      dragoman publish --topic storms --spec wse-2004-08 *.xml
      echo '<speed>120</speed>' | dragoman publish --topic storms -
      dragoman publish --topic storms --spec cloudevents storm.xml
      dragoman publish --topic storms --spec grid-events storm.xml
      dragoman publish --topic storms --gateway soap.tcp://127.0.0.1:8081 storm.xml
      dragoman publish --reliable --topic storms *.xml
      dragoman publish --reliable --bound-to mole.pem --trust gateway.pem --topic storms storm.xml
      dragoman publish --sign-key mole.key --sign-certificate mole.pem --topic storms storm.xml
    """
    version = read_spec(spec)
    if topic and _PATTERN.search(topic.rpartition("}")[2]):
        text = f"--topic: {topic!r} is a pattern; publish wants one topic, such as storms/coast"
        raise CommandFailed(text)
    payloads = [(name, _read(name)) for name in files]

    sign = _read_sign(sign_key, sign_certificate)
    binding, believed = _read_binding(bound_to, trust, reliable)
    if reliable:
        _check_reliable(gateway, version)
        if bound_to == "tls" and not gateway.lower().startswith("https:"):
            raise CommandFailed(f"--bound-to tls: {gateway} is not https")
    # Imported when it is wanted, so that other commands start quickly.
    from gateway.client.sequences import SequencePublisher

    async def run() -> None:
        client: AnyClient | SequencePublisher
        if reliable:
            client = SequencePublisher(
                gateway,
                version,
                patience=patience,
                bound_to=binding,
                trust=believed,
                **connecting(context),
            )
        else:
            client = speaking(gateway, version, **connecting(context))
        async with client:
            for name, payload in payloads:
                message_id = await client.publish(payload, topic=topic, sign=sign)
                if not reliable:
                    await client.finish()
                used = _topic_used(gateway, version, payload, topic)
                if output is Form.JSON:
                    json_line({"file": name, "topic": used, "message_id": message_id})
                else:
                    line(f"published {_shown(name)}{f' to {used}' if used else ''}")
            if reliable:
                await client.finish()

    asyncio.run(run())


def _topic_used(gateway: str, version: Version, payload: bytes, topic: str | None) -> str | None:
    """The topic that a gateway publishes *payload* on; None at an endpoint of somebody else, which
    may think of any where the command names none."""
    if (topic_in := _TOPICS_WITHIN.get(version)) is not None:
        return topic_in(payload, topic)
    path = urlsplit(gateway).path
    if topic or path.startswith(_TOPIC_PATHS):
        return topic or unquote(path.partition("/topic/")[2])
    return str(DEFAULT_TOPIC) if path.rstrip("/") in ("", "/soap", "/events") else None


def _topic_of_grid_event(payload: bytes, topic: str | None) -> str | None:
    from gateway.client.grid_events.client import event_of

    own = event_of(payload, topic).topic
    return None if own is None else str(own)


_TOPICS_WITHIN = {Version.GRID_EVENTS: _topic_of_grid_event}
"""What finds the topic of an event in which it stands."""
_TOPIC_PATHS = ("/soap/topic/", "/events/topic/")


def _read_sign(key: Path | None, certificate: Path | None) -> "Sign | None":
    """Who signs the events; None: nobody.

    Raises:
        CommandFailed: It cannot be read.
    """
    if key is None and certificate is None:
        return None
    if key is None or certificate is None:
        raise CommandFailed("--sign-key and --sign-certificate go together")
    # Imported when it is wanted, so that other commands start quickly.
    from gateway.cli.signatures import read_sign

    return read_sign(key, certificate)


def _read_binding(
    bound_to: str | None, trust: Path | None, reliable: bool
) -> tuple["BoundTo", "Trust | None"]:
    """What the sequence is bound to, and whose acknowledgements are believed; None: whoever's.

    Raises:
        CommandFailed: It cannot be read, or they do not go together.
    """
    if bound_to is None and trust is None:
        return None, None
    if not reliable:
        raise CommandFailed("--bound-to and --trust go with --reliable: only sequences are bound")
    if bound_to is None or bound_to == "tls":
        if trust is not None:
            text = "--trust goes with --bound-to FILE: who does not sign gets no signed answers"
            raise CommandFailed(text)
        return "tls", None
    # Imported when it is wanted, so that other commands start quickly.
    from gateway.cli.signatures import read_own_key, read_trusted

    return read_own_key(Path(bound_to)), None if trust is None else read_trusted(trust)


def _check_reliable(gateway: str, version: Version) -> None:
    if gateway.lower().startswith("soap.tcp"):
        raise CommandFailed("--reliable: sequences are sent over HTTP here")
    spoken = SPECS.get(version)
    if spoken is None or spoken.wsa not in Rm.V1_1.rules.wsa:
        text = f"--reliable: {version.value} is not sent in sequences; wsn-1.3, say, is"
        raise CommandFailed(text)


def _shown(name: str) -> str:
    return "standard input" if name == "-" else name


def _read(name: str) -> bytes:
    octets = read_document(name, _shown(name))
    try:
        parse_document(octets)
    except Refused as refused:
        raise CommandFailed(f"{_shown(name)}: {refused.text}") from refused
    return octets
