"""``dragoman serve``."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.commands import command
from gateway.cli.errors import CommandFailed
from gateway.cli.option_groups import OptionGroup
from gateway.cli.output import note

if TYPE_CHECKING:
    from gateway.server.application import Application
    from gateway.settings.settings import Settings


AdapterOption = Annotated[
    str | None,
    typer.Option(
        help="The message system: embedded:, memory:, amqp://HOST:5672/VHOST (RabbitMQ), "
        "stomp://HOST:61613 (ActiveMQ), or one that a package adds. One with credentials is "
        "better given in DRAGOMAN_ADAPTER. [embedded:]"
    ),
]
StoreOption = Annotated[
    str | None, typer.Option(help="Where subscriptions are kept. [SQLite in the data folder]")
]
DataOption = Annotated[Path | None, typer.Option(help="The data folder. [dragoman-data]")]
IdentitiesOption = Annotated[
    Path | None,
    typer.Option(
        help="The file that says who may do what; it is made, with an administrator whose key is "
        "printed, where there is none. [everybody may everything]"
    ),
]


def settings_options(
    host: Annotated[str | None, typer.Option(help="Address to listen on. [127.0.0.1]")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 0 chooses one. [8080]")
    ] = None,
    admin_host: Annotated[
        str | None,
        typer.Option(
            help="Address for the administration (/api/v1, /docs, /metrics) alone. "
            "[that of SOAP on loopback, else 127.0.0.1]"
        ),
    ] = None,
    admin_port: Annotated[
        int | None,
        typer.Option(help="Its port; 0 chooses one. [that of SOAP on loopback, else --port + 10]"),
    ] = None,
    soap_tcp_port: Annotated[
        int | None,
        typer.Option(help="Listen for SOAP.TCP (DIME) on this port, too; 0 chooses one."),
    ] = None,
    soap_tcps_port: Annotated[
        int | None, typer.Option(help="The same over TLS, with --tls-certificate.")
    ] = None,
    adapter: AdapterOption = None,
    store: StoreOption = None,
    data: DataOption = None,
    public_url: Annotated[
        str | None, typer.Option(help="The gateway's address as its peers see it.")
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(help="A folder to archive every notification in, as Parquet or JSON lines."),
    ] = None,
    spool: Annotated[
        bool | None,
        typer.Option(
            "--spool/--no-spool",
            help="Accept what the broker cannot take into the store, and publish it later.",
        ),
    ] = None,
    wsrm: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="Whether publishers may, or must, send in sequences (WS-ReliableMessaging): off, "
            "offered or required.  [default: off]",
        ),
    ] = None,
    discovery_node: Annotated[
        bool | None,
        typer.Option(
            "--discovery-node",
            help="Be a topic discovery node, with the key and certificates of the table "
            "[discovery] in dragoman.toml.",
        ),
    ] = None,
    tls_certificate: Annotated[
        Path | None,
        typer.Option(
            help="Speak HTTPS, and soap.tcps, with this certificate (PEM, with its chain)."
        ),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(help="Its key. [in the file of the certificate]")
    ] = None,
    tls_client_ca: Annotated[
        Path | None, typer.Option(help="Take only peers with a certificate of these authorities.")
    ] = None,
    identities: IdentitiesOption = None,
    without_identities: Annotated[
        bool | None,
        typer.Option(
            "--without-identities",
            help="Listen to others than this machine without --identities: everybody who reaches "
            "the gateway may publish and subscribe.",
        ),
    ] = None,
    mailboxes_only: Annotated[
        bool | None,
        typer.Option(
            "--mailboxes-only",
            help="Offer mailboxes and nothing else, for other gateways and services to deliver to.",
        ),
    ] = None,
) -> None:
    """Options of commands that are settings of the gateway."""


SettingsOptions = Annotated[Mapping[str, Any], OptionGroup(settings_options, dict)]


def serve(given: SettingsOptions) -> None:
    r"""Run the gateway.

    Every option can also be set in the environment (DRAGOMAN_PORT=9000) or in dragoman.toml.

    \b
    Examples:
      dragoman serve
      dragoman serve --identities identities.toml
      dragoman serve --identities identities.toml --host 0.0.0.0 --tls-certificate events.pem
      dragoman serve --without-identities --host 0.0.0.0 --public-url https://events.example.org
      dragoman serve --data /var/lib/dragoman
      dragoman serve --soap-tcp-port 8081
      dragoman serve --adapter amqp://broker.example.org:5672/ --spool
      dragoman serve --wsrm offered
      dragoman serve --discovery-node
      dragoman serve --mailboxes-only --without-identities --host 0.0.0.0
    """
    # Imported when they are wanted, so that other commands start quickly.
    from gateway.observing.logs import set_up_logs
    from gateway.server.data_folder import LOCK_TAKEN, DataInUse
    from gateway.server.process import run
    from gateway.settings.settings import read_settings

    settings = read_settings(**given)
    set_up_logs(settings.log, settings.log_format)
    _warn_of_passwords({"--adapter": given["adapter"], "--store": given["store"]})
    _make_identities(settings.identities)
    try:
        code = run(settings, started=_greet)
    except DataInUse as error:
        raise CommandFailed(str(error), LOCK_TAKEN) from error
    raise typer.Exit(code)


def _make_identities(path: Path | None) -> None:
    """Make the file of identities, where the settings want one and there is none, and say the key
    of its administrator, once."""
    if path is None or path.exists():
        return
    from gateway.identities.file_editing import create_identities

    try:
        key = create_identities(path)
    except FileExistsError:  # Another gateway with the same file was first.
        return
    note(f"Made {path}. The key of its administrator is not shown again: {key}")


def _warn_of_passwords(options: Mapping[str, str | None]) -> None:
    """Log which options have a password in their URL: on the command line everybody on this machine
    reads it."""
    import structlog

    for option, url in options.items():
        if url and re.search(r"//[^/@]*:[^/@]+@", url):
            structlog.get_logger("dragoman").warning(
                "settings.password-on-command-line",
                option=option,
                mend=f"set DRAGOMAN_{option[2:].upper()} in the environment, or use dragoman.toml",
            )


def _greet(gateway: "Application", port: int) -> None:
    from gateway.model.hosts import host_and_port

    settings = gateway.settings
    url = settings.public_url or _url(settings, settings.host, port)
    administration = gateway.listening.admin
    admin = url if administration is None else _url(settings, *administration)
    dragoman = command()
    try_ = f"""\
  {dragoman} listen --gateway {url} --topic storms
  echo '<speed>120</speed>' | {dragoman} publish --gateway {url} --topic storms -
  {dragoman} subscriptions list --gateway {admin}"""
    if settings.mailboxes_only:
        try_ = f"""\
  curl --json '{{}}' {url}/mailboxes
  {dragoman} mailboxes list --gateway {admin}"""
    endpoints = f"SOAP endpoint {url}/soap   administration {admin}/docs   metrics {admin}/metrics"
    if gateway.tcp:
        shown = "   ".join(server.base_at("127.0.0.1") for server in gateway.tcp)
        endpoints += f"\nSOAP.TCP {shown}"
    listens = host_and_port(settings.host, port)
    ready = f"Dragoman is ready on {url} (listens on {listens}, data in {settings.data.resolve()})."
    if not sys.stdout.isatty():  # A service's output is read by programs: facts, and no hints.
        print(f"{ready}\n{endpoints}", flush=True)
        return
    print(
        f"""{ready}

Try, in another terminal:
{try_}

{endpoints}
Stop with Ctrl-C.""",
        flush=True,
    )


def _url(settings: "Settings", host: str, port: int) -> str:
    from gateway.model.hosts import host_and_port

    host = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return f"{settings.web_scheme}://{host_and_port(host, port)}"
