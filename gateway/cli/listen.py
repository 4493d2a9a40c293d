"""``dragoman listen``."""

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import AsyncIterable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from gateway.cli.errors import CommandFailed
from gateway.cli.options import (
    GATEWAY,
    Form,
    GatewayOption,
    OutputOption,
    SpecOption,
    check_xpath,
    read_namespaces,
    read_spec,
    tls,
)
from gateway.cli.output import (
    envelope_text,
    is_terminal,
    json_line,
    line,
    moment,
    note,
    payload_text,
    styled,
)
from gateway.client import (
    AnyClient,
    Consumer,
    GatewayError,
    PulledMailbox,
    ReceivedMessage,
    RenewedSubscription,
    base_url,
    shown,
    speaking,
    subscribed,
)
from gateway.client.calling import SCHEMES, SOAP_TCP
from gateway.client.soap_tcp import SoapTcpConsumer
from mediation import SPECIFICATIONS, Version
from mediation.client import Ended, Received

Receiving = Consumer | SoapTcpConsumer | PulledMailbox


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Options of the subscription."""

    version: Version
    topic: str | None
    xpath: str | None
    namespaces: Mapping[str, str]
    reliable: bool


@dataclass(frozen=True, slots=True)
class _Printing:
    """Options of printing: the form, and how many notifications; None is all."""

    whole: bool
    form: Form
    count: int | None


def listen(
    context: typer.Context,
    gateway: GatewayOption = GATEWAY,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="EXPR",
            envvar="DRAGOMAN_TOPIC",
            help="A topic expression: storms, storms/coast, storms//. (with all below), "
            "storms|tides, {http://example.org}storms. Everything, without.",
        ),
    ] = None,
    xpath: Annotated[
        str | None,
        typer.Option(metavar="EXPR", help="XPath 1.0 that must hold for the payload."),
    ] = None,
    ns: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX=URI", help="A prefix for --topic and --xpath; repeatable."),
    ] = None,
    spec: SpecOption = Version.WSN_1_3.value,
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after N notifications.")
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Print whole envelopes, as they were received.")
    ] = False,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR", help="Where to listen. [the address that reaches the gateway]"
        ),
    ] = None,
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="0 chooses one.")] = 0,
    pull: Annotated[
        bool,
        typer.Option(
            "--pull",
            help="Listen nowhere: fetch the notifications from a mailbox at the gateway.",
        ),
    ] = False,
    reliable: Annotated[
        bool,
        typer.Option(
            "--reliable",
            help="Get the notifications in a sequence (WS-ReliableMessaging): each once, in order, "
            "however often one has to be sent.",
        ),
    ] = False,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Subscribe, and print each notification as it comes.

    Prints topic and payload; with --output json, one object a line. Renews the subscription while
    it runs, and unsubscribes on Ctrl-C. With --pull it works where the gateway cannot reach us:
    behind a firewall or NAT. A mailbox is made for it, and deleted at the end; what was printed is
    acknowledged, and while the gateway is away it is asked again.

    From a gateway at soap.tcp://HOST:8081 the notifications come over SOAP.TCP, too.

    \b
    Examples:
      dragoman listen --topic storms
      dragoman listen --topic storms//. --xpath '/speed > 100' --spec wse-2011-03
      dragoman listen --xpath '/w:Warning/w:speed > 100' --ns w=http://example.org/weather
      dragoman listen --topic storms --spec cloudevents
      dragoman listen --topic storms --spec grid-events
      dragoman listen --count 1 --whole
      dragoman listen --topic storms --gateway soap.tcp://127.0.0.1:8081
      dragoman listen --pull --topic storms --gateway https://events.example.org
      dragoman listen --reliable --topic storms
    """
    version = read_spec(spec)
    namespaces = read_namespaces(ns)
    check_xpath(xpath, namespaces)
    wanted = _Wanted(version, topic, xpath, namespaces, reliable)
    printing = _Printing(whole, output, count)
    if pull and (host or port):
        raise typer.BadParameter("--pull listens nowhere", param_hint="--host, --port")
    if pull and SPECIFICATIONS[version].bodies is not None:
        raise typer.BadParameter("--pull fetches SOAP: choose another --spec", param_hint="--spec")
    if pull and _on_soap_tcp(gateway):
        raise typer.BadParameter("--pull fetches over HTTP alone", param_hint="--gateway")

    if reliable and (pull or _on_soap_tcp(gateway)):
        text = "--reliable is sent to a listener over HTTP"
        raise typer.BadParameter(text, param_hint="--pull" if pull else "--gateway")
    if reliable and not SPECIFICATIONS[version].sequences:
        text = f"--reliable cannot be asked for in {version.value}; it can in wsn-1.3, say"
        raise typer.BadParameter(text, param_hint="--spec")

    async def run() -> None:
        consumer: Receiving = (
            _mailbox(gateway, tls(context)) if pull else _consumer(gateway, host, port, reliable)
        )
        await _listen(
            gateway, speaking(gateway, version, tls=tls(context)), consumer, wanted, printing
        )

    asyncio.run(_until_stopped(run()))


async def _listen(
    gateway: str,
    client_of: AnyClient,
    receiving: Receiving,
    wanted: _Wanted,
    printing: _Printing,
) -> None:
    async with client_of as client, receiving as consumer:
        subscription = subscribed(
            client,
            consumer.address,
            topic=wanted.topic,
            xpath=wanted.xpath,
            namespaces=wanted.namespaces,
            troubled=_say_trouble,
            reliable=wanted.reliable,
        )
        renewed = ended = None
        try:
            async with subscription as renewed:
                note(_whereabouts(consumer, gateway))
                note(
                    f"Subscribed to {wanted.topic or 'everything'} at {shown(gateway)}"
                    f" ({wanted.version.value}); Ctrl-C ends."
                )
                ended = await _print_all(consumer, printing)
                renewed.is_over = ended is not None
        finally:
            if renewed is not None and ended is None:
                note(_end_text(renewed))
        if ended is not None:
            raise CommandFailed(f"the gateway ended the subscription: {ended.reason}")


def _whereabouts(consumer: Receiving, gateway: str) -> str:
    if isinstance(consumer, PulledMailbox):  # Its address is the key to it.
        return f"Notifications are fetched from a mailbox at {shown(gateway)}"
    return f"Notifications come to {consumer.address}"


def _say_trouble(error: GatewayError) -> None:
    note(f"dragoman: {error}; trying again")


def _end_text(renewed: RenewedSubscription) -> str:
    if renewed.is_over:
        return "Unsubscribed."
    return f"Could not unsubscribe; the subscription ends by itself at {_end(renewed)}."


def _end(renewed: RenewedSubscription) -> object:
    expires = renewed.subscription.expires
    return moment(expires.isoformat()) if expires else "some time"


async def _print_all(consumer: AsyncIterable[ReceivedMessage], printing: _Printing) -> Ended | None:
    """Print what comes until there is enough, or the gateway ends the subscription."""
    printed = 0
    async for message in consumer:
        if message.ended is not None:
            return message.ended
        if printing.whole and printing.form is Form.TEXT:
            line(envelope_text(message.octets))
        for notification in message.notifications:
            if printing.form is Form.JSON:
                json_line(_record(message, notification, printing.whole))
            elif not printing.whole:
                styled(str(notification.topic or "(no topic)"))
                line(payload_text(notification.payload))
            printed += 1
            if printed == printing.count:
                return None
        if is_terminal():
            line()
    return None


def _record(message: ReceivedMessage, notification: Received, whole: bool) -> dict[str, object]:
    """A notification as JSON; one that came in an envelope with others shares its id."""
    record: dict[str, object] = {
        "topic": str(notification.topic) if notification.topic else None,
        "action": notification.action,
        "message_id": notification.message_id,
        "received": message.time.isoformat(timespec="milliseconds"),
        "payload": payload_text(notification.payload, indent=False),
    }
    if whole:
        record["envelope"] = message.octets.decode("utf-8", "replace")
    return record


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run *work* until it ends, or SIGINT or SIGTERM ends it politely; a second one does so at
    once."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _mailbox(gateway: str, context: ssl.SSLContext | None) -> PulledMailbox:
    return PulledMailbox(
        gateway,
        troubled=_say_trouble,
        mended=lambda: note(f"dragoman: {shown(base_url(gateway))} is back"),
        tls=context,
    )


def _consumer(
    gateway: str, host: str | None, port: int, reliable: bool
) -> Consumer | SoapTcpConsumer:
    """One that the gateway reaches by what we speak to it."""
    make: type[Consumer | SoapTcpConsumer] = Consumer
    if _on_soap_tcp(gateway):
        make = SoapTcpConsumer
    elif reliable:
        # Imported when it is wanted, so that other commands start quickly.
        from gateway.client.sequence_consumer import SequenceConsumer

        make = SequenceConsumer
    if host in ("0.0.0.0", "::"):
        return make(host, port, shown=_own_address(gateway))
    return make(host or _own_address(gateway), port)


def _on_soap_tcp(gateway: str) -> bool:
    return urlsplit(base_url(gateway, SCHEMES)).scheme in SOAP_TCP


def _own_address(gateway: str) -> str:
    """Our address as the host of *gateway* sees it; nothing is sent to find out."""
    parts = urlsplit(base_url(gateway, SCHEMES))
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            parts.hostname, parts.port or 80, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:  # Subscribing will say what is wrong with it.
        return "127.0.0.1"
