"""``dragoman sources``."""

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
    named,
    read_namespaces,
    read_spec,
)
from gateway.cli.resources import SOURCES, add_delete, add_list, add_show, make_one, read_lease
from gateway.client import Record
from gateway.sources.new_sources import LEAST_SILENCE
from gateway.sources.requests import MODES
from mediation.client import SPECS
from mediation.model.delivery_modes import Mode
from mediation.model.versions import Version
from mediation.profiles import PRODUCERS

sources = group("sources", "Subscribe the gateway itself at producers, and see how that stands.")
sources.callback()(help_alone)

SpecOption = Annotated[
    str,
    typer.Option(
        "--spec",
        metavar="NAME",
        envvar="DRAGOMAN_SPEC",
        help=f"What the producer speaks: {named(SPECS)}.",
    ),
]
_MODES = ", ".join(mode.value for mode in MODES)
_KINDS = "; ".join(f"{name}: {kind.text}" for name, kind in PRODUCERS.items())


def add_(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of the producer.")],
    gateway: GatewayOption = GATEWAY,
    spec: SpecOption = Version.WSN_1_3.value,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="EXPR", help="Topics: storms, storms//., or {http://example.org/topics}storms."
        ),
    ] = None,
    xpath: Annotated[
        str | None,
        typer.Option(metavar="EXPR", help="XPath 1.0 that the producer is to filter by."),
    ] = None,
    action: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URI",
            help="An action that the producer is to filter by, as devices do, in place of both.",
        ),
    ] = None,
    ns: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX=URI", help="A prefix of --topic and --xpath."),
    ] = None,
    lease: Annotated[
        str | None,
        typer.Option(
            metavar="PT1H",
            help="The lease to ask for: a duration, or seconds.  [an hour; of a camera PT10M]",
        ),
    ] = None,
    publish_on: Annotated[
        str | None,
        typer.Option(
            "--publish-on",
            metavar="TOPIC",
            help="The topic of events that come without one.  [--topic, if it is one]",
        ),
    ] = None,
    silence: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Ask the producer when no event came for so long; 0: never. "
            f"With the profile wsman {LEAST_SILENCE:.0f} or more, or 0.",
        ),
    ] = 300.0,
    profile: Annotated[
        str, typer.Option(metavar="NAME", help=f"The kind of producer. {_KINDS}.")
    ] = "standard",
    resource: Annotated[
        str | None,
        typer.Option(metavar="URI", help="The resource, at a service of WS-Management."),
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"How such a service delivers: {_MODES}; a camera: push, pull.",
            show_default=True,
        ),
    ] = Mode.PUSH.value,
    existing: Annotated[
        bool,
        typer.Option(
            "--existing", help="Have such a service send the events that it has kept, too."
        ),
    ] = False,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    allow_basic: AllowBasicOption = False,
    negotiate: NegotiateOption = False,
    bearer_file: BearerFileOption = None,
    allow_http: AllowHttpOption = False,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Subscribe the gateway at a producer.

    What the producer sends is published here, as what any publisher sends. The gateway renews the
    subscription, and subscribes again when it is lost; `show` says how it stands.

    \b
    Examples:
      dragoman sources add http://producer.example.org/wsn --topic storms//.
      dragoman sources add http://source.example.org/events --spec wse-2004-08 --publish-on storms
      dragoman sources add http://producer.example.org/wsn --ns w=http://example.org/weather \
          --topic w:storms --xpath '/w:Warning/w:speed > 64' --lease PT10M
      dragoman sources add http://10.0.4.7:6464/device/StateEvent --spec wse-2004-08 \
          --profile dpws --action http://example.org/device/Alarm --publish-on alarms
      dragoman sources add http://10.0.4.9:5985/wsman --spec wse-2004-08 --publish-on alarms \
          --profile wsman --resource http://example.org/wsman/alarms --mode events
      dragoman sources add http://10.0.0.17/onvif/device_service --profile onvif --mode pull \
          --user events --password-file camera.password
      dragoman sources add https://gateway.example.org/soap --topic storms//. \
          --bearer-file gateway.key
    """
    namespaces = read_namespaces(ns)
    check_xpath(xpath, namespaces)
    asked: Record = {"url": url, "spec": read_spec(spec, SPECS).value, "silence": silence}
    asked |= {"profile": profile, "namespaces": namespaces}
    if lease is not None:
        asked |= {"lease": read_lease(lease)}
    asked |= {"actions": action or []}
    if resource is not None or mode != Mode.PUSH.value:
        asked |= {"resource": resource, "mode": mode}
    if existing:
        asked |= {"existing": True}
    asked |= read_login(
        user,
        password_file,
        allow_basic=allow_basic,
        negotiate=negotiate,
        bearer_file=bearer_file,
        allow_http=allow_http,
    )
    named = {"topic": topic, "xpath": xpath, "publish_on": publish_on}
    asked |= {name: value for name, value in named.items() if value is not None}
    make_one(
        context, gateway, output,
        lambda administration: administration.add_source(asked),
        lambda record: f"added {record['id']}",
    )  # fmt: skip


add(sources, add_, "add")
add_list(
    sources,
    SOURCES,
    r"""List the sources of a gateway, and how they stand; those that fail come first.

    \b
    Examples:
      dragoman sources list
      dragoman sources list --output json | jq '.[] | select(.state != "live")'
    """,
)
add_show(
    sources,
    SOURCES,
    r"""Show a source: its state, its lease, what came and what went wrong last.

    \b
    Example:
      dragoman sources show 5b1f0c9a3e77
    """,
)
add_delete(
    sources,
    "remove",
    SOURCES,
    r"""Remove sources: their producers are told to send no more.

    \b
    Example:
      dragoman sources remove 5b1f0c9a3e77 90cc41d2ab05
    """,
)
