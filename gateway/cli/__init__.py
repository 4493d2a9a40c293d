"""The command line, ``dragoman``.

A module here is named for its command; `commands`, `options`, `output` and `errors` are shared.
Results go to standard output, everything else to standard error. Exit codes: 0, it was done; 1,
it could not be, and one line says why; 2, it was not asked rightly; 75, the data folder is in use.
"""

import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from filters import Refused
from gateway.cli.backtest import backtest
from gateway.cli.benchmark import benchmark
from gateway.cli.commands import add, group, help_alone
from gateway.cli.deadletters import deadletters
from gateway.cli.demo import demo
from gateway.cli.doctor import doctor
from gateway.cli.errors import CommandFailed, ReaderGone
from gateway.cli.listen import listen
from gateway.cli.mailboxes import mailboxes
from gateway.cli.match import match
from gateway.cli.output import line, note
from gateway.cli.publish import publish
from gateway.cli.serve import serve
from gateway.cli.subscriptions import subscriptions
from gateway.client import GatewayError
from gateway.tls import Names, client_context

app = group("dragoman", "A gateway between WS-Eventing, WS-Notification and a message system.")
for command in (serve, listen, publish, match, demo, doctor, backtest):
    add(app, command)
app.add_typer(subscriptions)
app.add_typer(mailboxes)
app.add_typer(deadletters)
app.add_typer(benchmark)


def _print_version(wanted: bool) -> None:
    if wanted:
        line(f"dragoman {metadata.version('dragoman')}")
        raise typer.Exit


@app.callback()
def _main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
    ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="DRAGOMAN_CA",
            help="The authorities that the certificate of a gateway with TLS may be from.",
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="DRAGOMAN_CERTIFICATE",
            help="What a gateway that asks for a certificate is shown.",
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="DRAGOMAN_KEY",
            help="Its key. [in the file of the certificate]",
        ),
    ] = None,
) -> None:
    if ca or certificate:
        names = Names("--certificate", "--key", "--ca")
        context.obj = client_context(ca=ca, certificate=certificate, key=key, names=names)
    help_alone(context)


def main() -> None:
    """Run the command line; an error is one line, never a traceback."""
    code = 0
    try:
        code = app(prog_name="dragoman", standalone_mode=False) or 0
    except typer.TyperException as error:
        code = error.exit_code
        _fail(f"{error.format_message()}{_where_help_is(error)}")
    except CommandFailed as error:
        code = error.code
        _fail(str(error))
    except (Refused, GatewayError) as error:
        code = 1
        _fail(str(error))
    except OSError as error:
        code = 1
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except ReaderGone:
        _forget_stdout()
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    sys.exit(code)


def _fail(text: str) -> None:
    note(f"dragoman: {' '.join(text.split())}")


def _where_help_is(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return f" (dragoman {' '.join(_path(context))}--help says more)" if context else ""


def _path(context: typer.Context) -> list[str]:
    words = context.command_path.split()[1:]
    return [*words, ""] if words else []


def _forget_stdout() -> None:
    """Nobody reads it: what is still buffered must not fail at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
