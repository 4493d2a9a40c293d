"""``dragoman config``."""

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.doctor import report
from gateway.cli.options import VARIABLES, Form, OutputOption
from gateway.cli.output import json_line, line
from gateway.cli.serve import SettingsOptions

config = group("config", "Check and show the settings that a gateway would have.")
config.callback()(help_alone)


def check(given: SettingsOptions, output: OutputOption = Form.TEXT) -> None:
    r"""Say what is wrong with the settings, all of it at once.

    Reads dragoman.toml and the environment, takes the options of serve, and looks at nothing else:
    no broker, no store, no port. The exit code is 0 when a gateway would take them, else 1.

    \b
    Examples:
      dragoman config check
      dragoman config check --adapter stomp://broker.example.org:61613 --output json
    """
    from gateway.checks import examine_settings

    raise typer.Exit(report(examine_settings(given, VARIABLES), output))


def show(given: SettingsOptions, output: OutputOption = Form.TEXT) -> None:
    r"""Show all settings that are in force, and where each comes from.

    That is its default, dragoman.toml, a variable of the environment or an option. Passwords are
    not shown.

    \b
    Examples:
      dragoman config show
      dragoman config show --port 9000 --output json | jq '.[] | select(.source != "default")'
    """
    from gateway.settings.effective import in_force, shown
    from gateway.settings.settings import read_settings

    found = list(in_force(read_settings(**given), given))
    if output is Form.JSON:
        json_line([{"name": one.name, "value": one.value, "source": one.source} for one in found])
        return
    names = max(len(one.name) for one in found)
    values = min(40, max(len(shown(one.value)) for one in found))
    for one in found:
        line(f"{one.name:<{names}}  {shown(one.value):<{values}}  {one.source}")


add(config, check)
add(config, show)
