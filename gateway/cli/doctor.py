"""``dragoman doctor``."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.commands import add, callback, group
from gateway.cli.logins import (
    AllowBasicOption,
    NegotiateOption,
    PasswordFileOption,
    UserOption,
    read_login,
)
from gateway.cli.option_groups import OptionGroup
from gateway.cli.options import VARIABLES, Form, OutputOption
from gateway.cli.output import json_line, line
from gateway.cli.serve import settings_options

if TYPE_CHECKING:
    from gateway.checks import Finding


SettingsOptions = Annotated[
    Mapping[str, Any],
    OptionGroup(settings_options, dict, without=("wsrm", "discovery_node")),
]
doctor = group("doctor", "")


def examine_all(
    *,
    context: typer.Context,
    given: SettingsOptions,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Check what a gateway needs, say what is wrong and how to mend it.

    Give it the options, the environment and the folder that you give serve. It changes nothing, and
    does not disturb a gateway that runs. The exit code is 0 when nothing failed, else 1.

    \b
    Examples:
      dragoman doctor
      dragoman doctor --data /var/lib/dragoman --port 80
      dragoman doctor --output json | jq '.[] | select(.verdict != "ok")'
    """
    if context.invoked_subcommand is not None:
        return
    # Imported when it is wanted, so that other commands start quickly.
    from gateway.checks import examine

    raise typer.Exit(report(examine(given, VARIABLES), output))


def two_phase(
    urls: Annotated[
        list[str],
        typer.Argument(metavar="URL", help="A database, as SQLAlchemy writes it: postgresql://..."),
    ],
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Try whether databases recover from a crash in the middle of a two-phase commit.

    In each one a table is made, and dropped afterwards. A process prepares two transactions there
    and is killed; then one is committed, the other rolled back. The exit code is 0 when nothing
    failed, else 1.

    \b
    Examples:
      dragoman doctor two-phase postgresql://orders@db.example.org/orders
      dragoman doctor two-phase "$ORDERS_URL" "$STOCK_URL" --output json
    """
    from gateway.checks.two_phase import check_two_phase

    found = (finding for url in urls for finding in check_two_phase(url))
    raise typer.Exit(report(found, output))


def source(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="The device service of a camera; with --negotiate a service of WS-Management.",
        ),
    ],
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    allow_basic: AllowBasicOption = False,
    negotiate: NegotiateOption = False,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Ask a camera of ONVIF, or a service of WS-Management, what keeps it from being a source.

    Of a camera its clock, its event service, its user and password, and the modes that it offers;
    of a service with --negotiate, who it is and whether it takes the user. It is asked, and nothing
    is changed. The exit code is 0 when nothing failed, else 1.

    \b
    Examples:
      dragoman doctor source http://10.0.0.17/onvif/device_service
      dragoman doctor source http://10.0.0.17/onvif/device_service --user events \
          --password-file camera.password
      dragoman doctor source https://collector.example.org:5986/wsman --negotiate \
          --user 'PLANT\events' --password-file events.password
    """
    login = read_login(user, password_file, allow_basic=allow_basic)
    if negotiate:
        if user is None:
            raise typer.BadParameter("it goes with --user", param_hint="'--negotiate'")
        from gateway.checks.ws_management import check_service

        raise typer.Exit(report(check_service(url, user, str(login["password"])), output))
    from gateway.checks.cameras import check_device

    raise typer.Exit(report(check_device(url, **login), output))


def adapter(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            envvar="DRAGOMAN_ADAPTER",
            help="The messaging system, as --adapter of serve.",
            show_default=False,
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--setting", metavar="NAME=VALUE", help="A setting of the adapter; any number."
        ),
    ] = None,
    restart_command: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Restarts the system, or kills and starts it; a shell runs it once.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="TRIAL", help="Run this trial; any number."),
    ] = None,
    backlog: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="How many events of 1 kB wait at a time.")
    ] = 2_000,
    largest: Annotated[
        int, typer.Option(min=1, max=2**30, metavar="BYTES", help="The size of the largest event.")
    ] = 16 * 2**20,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            exists=True,
            file_okay=False,
            help="Where the drill has its folder: for embedded:, the disk that is tried.",
            show_default="that of temporary files",
        ),
    ] = None,
    deadline: Annotated[
        float, typer.Option(min=1, max=3600, metavar="SECONDS", help="For each trial.")
    ] = 120.0,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Try which guarantees a messaging system really gives, with faults on the way to it.

    Events are published and consumed under names that nobody else has, through a forwarder that
    cuts the connection, falls silent and slows down. Existing queues and topics are not touched,
    and what is made is removed at the end, also after Ctrl-C. A FAIL is a promise that was broken,
    a warn one that is not given, or was not tried. The exit code is 0 when nothing failed, else 1.
    A URL with a password is better given as DRAGOMAN_ADAPTER than on the command line.

    \b
    Examples:
      dragoman doctor adapter amqp://events:secret@broker.example.org/
      dragoman doctor adapter --restart-command "systemctl restart rabbitmq-server"
      dragoman doctor adapter stomp://broker.example.org --only backlog --backlog 100000
    """
    from adapters.drills import Wishes, trials_of
    from gateway.checks.adapter_drill import drill_adapter

    wishes = Wishes(
        deadline=deadline,
        backlog=backlog,
        largest=largest,
        restart_command=restart_command,
        only=frozenset(only or ()),
        folder=data,
    )
    if unknown := wishes.only - trials_of(wishes).keys():
        names = ", ".join(trials_of(wishes))
        raise typer.BadParameter(
            f"{min(unknown)!r} is not a trial; there are {names}", param_hint="--only"
        )
    raise typer.Exit(report(drill_adapter(url, _read_settings(settings), wishes), output))


def _read_settings(pairs: list[str] | None) -> dict[str, str]:
    """The settings that ``--setting NAME=VALUE`` names.

    Raises:
        typer.BadParameter: One is not of that form.
    """
    found = dict(pair.partition("=")[::2] for pair in pairs or ())
    if "" in found or any("=" not in pair for pair in pairs or ()):
        raise typer.BadParameter("write NAME=VALUE", param_hint="--setting")
    return found


def report(findings: "Iterable[Finding]", output: Form) -> int:
    """Print what checks found, a line each as it comes; the exit code."""
    failed = False
    records = []
    for finding in findings:
        verdict, text = finding.verdict.value, " ".join(finding.text.split())
        failed = failed or verdict == "FAIL"
        if output is Form.JSON:
            records.append({"verdict": verdict.lower(), "what": finding.what, "text": text})
        else:
            line(f"{verdict:<5} {finding.what}: {text}")
    if output is Form.JSON:
        json_line(records)
    return 1 if failed else 0


callback(doctor, examine_all)
add(doctor, two_phase, "two-phase")
add(doctor, source, "source")
add(doctor, adapter, "adapter")
