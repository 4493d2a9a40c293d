"""``dragoman channels``."""

import asyncio
from typing import Annotated

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.logins import (
    AllowBasicOption,
    AllowHttpOption,
    BearerFileOption,
    NegotiateOption,
    PasswordFileOption,
    UserOption,
    read_login,
)
from gateway.cli.options import (
    GATEWAY,
    Form,
    GatewayOption,
    OutputOption,
    check_xpath,
    connecting,
    named,
    read_namespaces,
    read_spec,
)
from gateway.cli.output import json_line, line, note, table
from gateway.cli.resources import CHANNELS, LINKS, add_delete, delete_each, make_one, read_lease
from gateway.client import Administration, Record
from mediation.client import LEASED, SPECS
from mediation.model.versions import Version

channels = group("channels", "Make channels with names, and link channels to others.")
channels.callback()(help_alone)

_SPOKEN = (*LEASED, *SPECS)
TypeOption = Annotated[
    str | None,
    typer.Option(
        "--event-type", metavar="TYPE", help="Events of this type, or below it: resdata.machine."
    ),
]
NamespaceOption = Annotated[
    str | None, typer.Option("--event-namespace", metavar="URI", help="Events of this namespace.")
]
SourceOption = Annotated[
    str | None,
    typer.Option(metavar="HOST", help="Events from there; with a leading dot, from that domain."),
]
XpathOption = Annotated[
    str | None, typer.Option(metavar="EXPR", help="XPath 1.0 that has to hold over the payload.")
]
NsOption = Annotated[
    list[str] | None, typer.Option(metavar="PREFIX=URI", help="A prefix of --xpath, or --topic.")
]


def list_(
    context: typer.Context,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""List the channels of a gateway, and their links to others.

    \b
    Examples:
      dragoman channels list
      dragoman channels list --output json | jq '.links[] | select(.state != "live")'
    """

    async def run() -> tuple[list[Record], list[Record]]:
        async with Administration(gateway, **connecting(context)) as administration:
            found = [record async for record in administration.channels()]
            links = [record async for record in administration.links()]
            return found, LINKS.sorted(links)

    found, links = asyncio.run(run())
    if output is Form.JSON:
        json_line({"channels": found, "links": links})
        return
    if not (found or links):
        note(CHANNELS.none)
    if found:
        for text in table(CHANNELS.columns, map(CHANNELS.row, found)):
            line(text)
    if found and links:
        line()
    if links:
        for text in table(LINKS.columns, map(LINKS.row, links)):
            line(text)


def add_(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="1 to 64 of a-z, 0-9 and . _ -, as in its address."),
    ],
    gateway: GatewayOption = GATEWAY,
    event_type: TypeOption = None,
    event_namespace: NamespaceOption = None,
    source: SourceOption = None,
    xpath: XpathOption = None,
    ns: NsOption = None,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Make a channel at /soap/channel/NAME: what is published there, and passes its filter, goes
    to those who subscribed there.

    \b
    Examples:
      dragoman channels add lab
      dragoman channels add resources --event-type resdata --source .example.org
      dragoman channels add warm --ns r=http://www.extreme.indiana.edu/soap/events/resdat/ \
          --xpath '/r:MachineUtilizationEvent/cpuUtilization > 0.5'
    """
    namespaces = read_namespaces(ns)
    check_xpath(xpath, namespaces)
    asked: Record = {"name": name, "example": _example(event_type, event_namespace, source)}
    asked |= {"xpath": xpath, "namespaces": namespaces}
    make_one(
        context, gateway, output,
        lambda administration: administration.add_channel(asked),
        lambda record: f"added {record['address']}",
    )  # fmt: skip


def remove(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="As `list` shows it.")],
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Remove channels: the subscriptions at them end, their links are cut.

    \b
    Example:
      dragoman channels remove lab
    """
    delete_each(context, gateway, output, CHANNELS, names)


def link(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of the other channel.")],
    gateway: GatewayOption = GATEWAY,
    channel: Annotated[
        str, typer.Option(metavar="NAME", help="The channel of ours.  [the one at /soap]")
    ] = "",
    event_type: TypeOption = None,
    event_namespace: NamespaceOption = None,
    source: SourceOption = None,
    spec: Annotated[
        str,
        typer.Option(metavar="NAME", help=f"What the other side speaks: {named(_SPOKEN)}."),
    ] = Version.GRID_EVENTS.value,
    topic: Annotated[
        str | None,
        typer.Option(metavar="EXPR", help="Topics, of what speaks something else: storms//."),
    ] = None,
    xpath: Annotated[
        str | None,
        typer.Option(metavar="EXPR", help="XPath 1.0 that what speaks something else filters by."),
    ] = None,
    ns: NsOption = None,
    lease: Annotated[
        str, typer.Option(metavar="PT10M", help="The lease to ask for: a duration, or seconds.")
    ] = "PT10M",
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    allow_basic: AllowBasicOption = False,
    negotiate: NegotiateOption = False,
    bearer_file: BearerFileOption = None,
    allow_http: AllowHttpOption = False,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Subscribe a channel at another one, and keep that up: what comes there comes here, too.

    \b
    Examples:
      dragoman channels link https://cs.example.org/soap
      dragoman channels link https://cs.example.org/soap/channel/all --channel resources \
          --event-type resdata
      dragoman channels link http://producer.example.org/wsn --channel lab --spec wsn-1.3 \
          --topic storms//.
      dragoman channels link https://cs.example.org/soap --bearer-file cs.key
    """
    namespaces = read_namespaces(ns)
    check_xpath(xpath, namespaces)
    asked: Record = {"url": url, "channel": channel, "spec": read_spec(spec, _SPOKEN).value}
    asked |= {"example": _example(event_type, event_namespace, source), "topic": topic}
    asked |= {"xpath": xpath, "namespaces": namespaces, "lease": read_lease(lease)}
    asked |= read_login(
        user,
        password_file,
        allow_basic=allow_basic,
        negotiate=negotiate,
        bearer_file=bearer_file,
        allow_http=allow_http,
    )
    make_one(
        context, gateway, output,
        lambda administration: administration.add_link(asked),
        lambda record: f"linked {record['id']}",
    )  # fmt: skip


def _example(type_: str | None, namespace: str | None, source: str | None) -> dict[str, str]:
    said = {"eventType": type_, "eventNamespace": namespace, "source": source}
    return {name: value for name, value in said.items() if value}


add(channels, list_, "list")
add(channels, add_, "add")
add(channels, remove)
add(channels, link)
add_delete(
    channels,
    "unlink",
    LINKS,
    r"""Cut links: the other channel is asked for the shortest lease, until which it still sends.

    \b
    Example:
      dragoman channels unlink 5b1f0c9a3e77
    """,
)
