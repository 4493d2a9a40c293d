"""``dragoman listen``."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.discovered_topics import Discovering, listen_to_found
from gateway.cli.entities import (
    FilesOptions,
    IssuerOption,
    NodeOption,
    Reaching,
    TopicKeyOption,
)
from gateway.cli.instants import read_position
from gateway.cli.listener import Listening, Wanted
from gateway.cli.options import (
    GATEWAY,
    Form,
    GatewayOption,
    OutputOption,
    SpecOption,
    check_xpath,
    connecting,
    read_namespaces,
    read_spec,
)
from gateway.cli.printing import Printing
from gateway.cli.receiving import Receiving, listener, mailbox, on_soap_tcp, until_stopped
from gateway.client import speaking
from mediation.model.delivery_modes import DeliveryAssurance
from mediation.model.versions import Version
from mediation.specifications import SPECIFICATIONS


def listen(
    *,
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
    assurance: Annotated[
        DeliveryAssurance | None,
        typer.Option(
            "--assurance",
            help="How often each notification is wanted: at-most-once is one attempt, and nothing "
            "is stored; exactly-once is --reliable. [at-least-once]",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="WHEN",
            help="Begin with what was published then or later, out of the gateway's archive: "
            "2026-03-01T12:00:00Z; 12h ago; a position.",
        ),
    ] = None,
    order_key: Annotated[
        str | None,
        typer.Option(
            "--order-key",
            metavar="KEY",
            help="Get the notifications of one key in order, and those of different keys side by "
            "side: topic, or property:NAME. [all in order]",
        ),
    ] = None,
    check: Annotated[
        float | None,
        typer.Option(
            "--check",
            min=0.1,
            metavar="SECONDS",
            help="Tell whether the gateway answers, accepts the subscription, has messages, and "
            "reaches us: after SECONDS without one, look whether one can be fetched.",
        ),
    ] = None,
    signers: Annotated[
        Path | None,
        typer.Option(
            "--signers",
            metavar="FILE",
            help="Tell who signed each notification, of those whom certificates in FILE let one "
            "believe: authorities, or signers themselves (PEM).",
        ),
    ] = None,
    discover: Annotated[
        str | None,
        typer.Option(
            metavar="QUERY",
            help="Find topics that were advertised, and subscribe to these: `dragoman topics "
            "discover --help` has what can be asked.",
        ),
    ] = None,
    delegation: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="With --discover, the right to a topic of another; repeatable."
        ),
    ] = None,
    topic_key: TopicKeyOption = None,
    node: NodeOption = None,
    issuer: IssuerOption = None,
    files: FilesOptions,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Subscribe, and print each notification as it comes.

    Prints topic and payload; with --output json, one object a line. Renews the subscription while
    it runs, and unsubscribes on Ctrl-C. With --pull it works where the gateway cannot reach us:
    behind a firewall or NAT. A mailbox is made for it, and deleted at the end; what was printed is
    acknowledged, and while the gateway is away it is asked again.

    From a gateway at soap.tcp://HOST:8081 the notifications come over SOAP.TCP, too.

    With --check 10, what is in the way between the gateway and us, such as a firewall, is found
    after 10 seconds in which nothing comes: a mailbox is subscribed, too, and once a message is in
    it that was not sent to us, the address is named that the gateway does not reach.

    With --signers each is said to be "signed by NAME", "NOT signed", or its signature to be
    invalid, and why; with --output json, in "signature".

    With --discover topics are found by what they are about; whose they are is said, and each that
    we have the right to is subscribed to. Keys and certificates go with it.

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
      dragoman listen --check 10 --topic storms
      dragoman listen --reliable --topic storms
      dragoman listen --assurance at-most-once --topic readings
      dragoman listen --since 12h --topic storms
      dragoman listen --topic storms --signers harbour.pem
      dragoman listen --discover "text~[Ss]torm" --delegation delegation.xml
    """
    version = read_spec(spec)
    namespaces = read_namespaces(ns)
    check_xpath(xpath, namespaces)
    reliable, assurance = _read_assurance(reliable, assurance, version, pull=pull)
    position = _read_since(since, version, assurance)
    wanted = Wanted(version, topic, xpath, namespaces, reliable, assurance, position, order_key)
    check_signatures = None
    if signers is not None:
        # Imported when it is wanted, so that other commands start quickly.
        from gateway.cli.signatures import read_check

        check_signatures = read_check(signers)
    printing = Printing(whole, output, count, check_signatures)
    if discover is not None:
        _check_discovering(wanted, check)
    if pull:
        _check_pulling(gateway, version, host, port)
    if reliable:
        _check_reliable(gateway, version, pull=pull)
    consumer: Receiving = (
        mailbox(gateway, connecting(context))
        if pull
        else listener(gateway, host, port, reliable=reliable)
    )
    if discover is None:

        async def run() -> None:
            client = speaking(gateway, version, **connecting(context))
            listening = Listening(gateway, connecting(context), wanted, check)
            await listening.run(client, consumer, printing)

        asyncio.run(until_stopped(run()))
        return
    finding = Discovering(
        discover,
        files,
        Reaching(gateway, version, connecting(context), pull),
        node,
        issuer,
        tuple(delegation or ()),
        tuple(topic_key or ()),
    )
    asyncio.run(until_stopped(listen_to_found(finding, consumer, printing)))


def _check_discovering(wanted: Wanted, check: float | None) -> None:
    """See that nothing is wanted that a topic that is found would decide.

    Raises:
        typer.BadParameter: It is.
    """
    given = {
        "--topic": wanted.topic,
        "--xpath": wanted.xpath,
        "--reliable": wanted.reliable,
        "--assurance": wanted.assurance,
        "--since": wanted.since,
        "--order-key": wanted.order_key,
        "--check": check,
    }
    for option, value in given.items():
        if value:
            raise typer.BadParameter("does not go with --discover", param_hint=option)


def _check_pulling(gateway: str, version: Version, host: str | None, port: int) -> None:
    """See that notifications can be fetched.

    Raises:
        typer.BadParameter: They cannot.
    """
    if host or port:
        raise typer.BadParameter("--pull listens nowhere", param_hint="--host, --port")
    if SPECIFICATIONS[version].bodies is not None:
        raise typer.BadParameter("--pull fetches SOAP: choose another --spec", param_hint="--spec")
    if on_soap_tcp(gateway):
        raise typer.BadParameter("--pull fetches over HTTP alone", param_hint="--gateway")


def _check_reliable(gateway: str, version: Version, *, pull: bool) -> None:
    """See that notifications can come in a sequence.

    Raises:
        typer.BadParameter: They cannot.
    """
    if pull or on_soap_tcp(gateway):
        text = "--reliable is sent to a listener over HTTP"
        raise typer.BadParameter(text, param_hint="--pull" if pull else "--gateway")
    if not SPECIFICATIONS[version].sequences:
        text = f"--reliable cannot be asked for in {version.value}; it can in wsn-1.3, say"
        raise typer.BadParameter(text, param_hint="--spec")


def _read_since(
    since: str | None, version: Version, assurance: DeliveryAssurance | None
) -> str | None:
    """The position from which on messages are wanted."""
    if since is None:
        return None
    if SPECIFICATIONS[version].leasing is not None:
        text = f"cannot be asked for in {version.value}; it can in wsn-1.3, say"
        raise typer.BadParameter(text, param_hint="--since")
    if assurance is DeliveryAssurance.AT_MOST_ONCE:
        text = "nothing is stored for at-most-once: it begins with what is published from now on"
        raise typer.BadParameter(text, param_hint="--since")
    return read_position("--since", since)


def _read_assurance(
    reliable: bool, assurance: DeliveryAssurance | None, version: Version, *, pull: bool
) -> tuple[bool, DeliveryAssurance | None]:
    """Whether a sequence is wanted, and what else is to be asked for."""
    if assurance is None:
        return reliable, None
    if reliable and assurance is not DeliveryAssurance.EXACTLY_ONCE:
        text = f"--reliable is exactly-once, not {assurance.value}"
        raise typer.BadParameter(text, param_hint="--assurance")
    if assurance is DeliveryAssurance.EXACTLY_ONCE:
        return True, None
    if assurance is DeliveryAssurance.AT_MOST_ONCE and pull:
        text = "what is fetched is stored: at-most-once does not go with --pull"
        raise typer.BadParameter(text, param_hint="--assurance")
    if assurance is DeliveryAssurance.AT_MOST_ONCE and SPECIFICATIONS[version].leasing is not None:
        text = f"at-most-once cannot be asked for in {version.value}; it can in wsn-1.3, say"
        raise typer.BadParameter(text, param_hint="--assurance")
    return False, assurance if assurance is DeliveryAssurance.AT_MOST_ONCE else None
