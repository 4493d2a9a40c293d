"""The command line, ``dragoman``.

A module here is named for its command; `commands`, `options`, `output` and `errors` are shared.
Results go to standard output, everything else to standard error. Exit codes: 0, it was done; 1,
it could not be, and one line says why; 2, it was not asked rightly; 75, the data folder is in use.
"""

import gc
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.commands import Deferred, group, help_alone
from gateway.cli.errors import CommandFailed, ReaderGone
from gateway.cli.output import line, note

COMMANDS = {
    "serve": Deferred("gateway.cli.serve:serve", "Run the gateway."),
    "listen": Deferred(
        "gateway.cli.listen:listen", "Subscribe, and print each notification as it comes."
    ),
    "publish": Deferred("gateway.cli.publish:publish", "Publish XML documents, each as one event."),
    "overview": Deferred(
        "gateway.cli.overview:overview", "Show the state of a gateway on one page."
    ),
    "subscriptions": Deferred(
        "gateway.cli.subscriptions:subscriptions",
        "List, show, pause, renew, replay and end subscriptions.",
    ),
    "mailboxes": Deferred("gateway.cli.mailboxes:mailboxes", "List, show and delete mailboxes."),
    "tenants": Deferred(
        "gateway.cli.tenants:tenants",
        "List and show tenants, and what they use of their quotas.",
    ),
    "sources": Deferred(
        "gateway.cli.sources:sources",
        "Subscribe the gateway itself at producers, and see how that stands.",
    ),
    "channels": Deferred(
        "gateway.cli.channels:channels", "Make channels with names, and link channels to others."
    ),
    "directory": Deferred(
        "gateway.cli.directory:directory",
        "Put the gateway's channel into a directory, and see which are there.",
    ),
    "topics": Deferred(
        "gateway.cli.topics:topics",
        "List, find and make topics that are provably somebody's; make keys of entities.",
    ),
    "sequences": Deferred(
        "gateway.cli.sequences:sequences",
        "List, show and terminate sequences of reliable messages.",
    ),
    "deadletters": Deferred(
        "gateway.cli.deadletters:deadletters",
        "Look at, deliver again or forget what could not be delivered.",
    ),
    "destinations": Deferred(
        "gateway.cli.destinations:destinations",
        "See where deliveries fail and which hosts agreed; approve or forbid hosts.",
    ),
    "spool": Deferred(
        "gateway.cli.spool:spool",
        "Look at, try again or discard what the messaging system does not take.",
    ),
    "explain": Deferred("gateway.cli.explain:explain", "Say why something happens, or does not."),
    "attempts": Deferred(
        "gateway.cli.attempts:attempts", "List the last attempts to deliver to a subscription."
    ),
    "trace": Deferred("gateway.cli.trace:trace", "Say what became of a message."),
    "tail": Deferred("gateway.cli.tail:tail", "Watch what passes a gateway, as it passes."),
    "match": Deferred(
        "gateway.cli.match:match",
        "Print the names of the XML documents that a content filter matches.",
    ),
    "backtest": Deferred(
        "gateway.cli.backtest:backtest",
        "Say what a subscription would have received from an archive of notifications.",
    ),
    "archive": Deferred(
        "gateway.cli.archive:archive", "Compact archives of notifications, and make them of files."
    ),
    "benchmark": Deferred(
        "gateway.cli.benchmark:benchmark",
        "Measure parts of Dragoman on this machine, or on a cluster.",
    ),
    "outbox": Deferred(
        "gateway.cli.outbox:outbox",
        "List, show, retry and drop messages of a program's outbox and inbox.",
    ),
    "reliable": Deferred(
        "gateway.cli.reliable:reliable", "Try reliable messaging without a network."
    ),
    "users": Deferred(
        "gateway.cli.users:users",
        "List, add and remove users in the file of identities, or in the store.",
    ),
    "keys": Deferred(
        "gateway.cli.keys:keys",
        "List, add, rotate and remove API keys in the file of identities, or in the store.",
    ),
    "rights": Deferred(
        "gateway.cli.rights:rights",
        "Say who may do what, and list, add and remove rules, in the file of identities or in the "
        "store.",
    ),
    "audit": Deferred("gateway.cli.audit:audit", "Show, verify and export the audit log."),
    "config": Deferred(
        "gateway.cli.config:config", "Check and show the settings that a gateway would have."
    ),
    "backup": Deferred(
        "gateway.cli.backup:backup", "Back up a gateway while it runs, or verify a backup."
    ),
    "restore": Deferred(
        "gateway.cli.restore:restore", "Restore a backup into an empty data folder."
    ),
    "store": Deferred("gateway.cli.store:store", "Migrate the database of a gateway."),
    "doctor": Deferred(
        "gateway.cli.doctor:doctor",
        "Check what a gateway needs, say what is wrong and how to mend it.",
    ),
    "plugins": Deferred(
        "gateway.cli.plugins:plugins",
        "List the adapters, transports, filter dialects, engines and verifiers of credentials that"
        " are installed.",
    ),
    "demo": Deferred(
        "gateway.cli.demo:demo",
        "Show mediation live: events cross from one specification to another.",
    ),
}
"""The module of each command, and the first sentence of its help. A command is imported when it is
asked for."""

app = group(
    "dragoman",
    "A gateway between WS-Eventing, WS-Notification and a message system.",
    deferred=COMMANDS,
    completion=True,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

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
    proxy: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="DRAGOMAN_PROXY",
            help="The HTTP proxy on the way to a gateway: http://[user:password@]host:port.",
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            envvar="DRAGOMAN_API_KEY",
            help="Who you are, for a gateway that wants to know. The environment hides it better.",
        ),
    ] = None,
) -> None:
    tls = None
    if ca or certificate:
        from gateway.security.tls import Names, client_context

        names = Names("--certificate", "--key", "--ca")
        tls = client_context(ca=ca, certificate=certificate, key=key, names=names)
    context.obj = {"tls": tls, "proxy": proxy, "credentials": _credentials(api_key)}
    help_alone(context)


def _credentials(api_key: str | None) -> object:
    if api_key is None:
        return None
    from gateway.client.credentials import Credentials

    return Credentials.of_key(api_key.strip())


_FOREIGN = (
    ("Input should be a valid integer, unable to parse string as an integer", "a whole number"),
    ("Input should be a valid number, unable to parse string as a number", "a number"),
    ("Input should be greater than or equal to ", "at least "),
    ("Input should be less than or equal to ", "at most "),
)
"""What the library says of values, and how it goes on behind "must be"."""


def _in_plain_words(text: str) -> str:
    """What is wrong with an argument or an option, *text*, in our words."""
    for said, ours in _FOREIGN:
        text = text.replace(said, f"it must be {ours}")
    return text


def main() -> None:
    """Run the command line; an error is one line, never a traceback."""
    # What a command imports lives as long as the process: a start would spend a quarter of its time
    # on looking, each 700 objects, for garbage among them.
    gc.set_threshold(100_000, 20, 20)
    code = 0
    try:
        code = app(prog_name="dragoman", standalone_mode=False) or 0
    except typer.TyperException as error:
        code = error.exit_code
        _fail(f"{_in_plain_words(error.format_message())}{_where_help_is(error)}")
    except CommandFailed as error:
        code = error.code
        _fail(str(error))
    except OSError as error:
        code = 1
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except ReaderGone:
        _forget_stdout()
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as error:
        if not _is_plain(error):
            raise
        code = 1
        for text in getattr(error, "problems", (error,)):
            _fail(str(text))
    sys.exit(code)


def _is_plain(error: Exception) -> bool:
    """Whether the text of *error* is one for people."""
    # Imported when there is an error: both were, if it is one of theirs.
    from filters import Refused

    if isinstance(error, Refused):
        return True
    errors = sys.modules.get("gateway.client.errors")
    return errors is not None and isinstance(error, errors.GatewayError)


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
