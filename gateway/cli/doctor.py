"""``dragoman doctor``."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.commands import add, callback, group
from gateway.cli.logins import AllowBasicOption, PasswordFileOption, UserOption, read_login
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
    url: Annotated[str, typer.Argument(metavar="URL", help="The device service of a camera.")],
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    allow_basic: AllowBasicOption = False,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Ask a camera of ONVIF what keeps it from being a source.

    Its clock, its event service, its user and password, and the modes that it offers. It is asked,
    and nothing is changed. The exit code is 0 when nothing failed, else 1.

    \b
    Examples:
      dragoman doctor source http://10.0.0.17/onvif/device_service
      dragoman doctor source http://10.0.0.17/onvif/device_service --user events \
          --password-file camera.password
    """
    from gateway.checks.cameras import check_device

    login = read_login(user, password_file, allow_basic=allow_basic)
    raise typer.Exit(report(check_device(url, **login), output))


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
