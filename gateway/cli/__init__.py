"""The command line, ``dragoman``."""

import sys

import typer
from click.exceptions import ClickException

from filters import Refused
from gateway.cli.serve import serve
from gateway.service import LOCK_TAKEN, DataInUse

app = typer.Typer(
    name="dragoman",
    help="A gateway between WS-Eventing, WS-Notification and a message system.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
app.command()(serve)


@app.callback()
def _main() -> None:
    pass


def main() -> None:
    """Run the command line; an error is one line, and exit code 1."""
    try:
        app(standalone_mode=False)
    except ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except DataInUse as error:
        fail(str(error), LOCK_TAKEN)
    except Refused as error:
        fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)


def fail(text: str, code: int = 1) -> None:
    """Say what is wrong in one line, and end."""
    print(f"dragoman: {text}", file=sys.stderr)
    sys.exit(code)
