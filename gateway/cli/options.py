"""Options that several commands share."""

import ssl
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from filters import Expression, FilterError
from filters.xpath import UndeclaredPrefix, parse
from gateway.cli.errors import CommandFailed
from mediation.client import SPECS
from mediation.model.versions import Version

if TYPE_CHECKING:  # The client's library is for those that speak to a gateway.
    from gateway.client.credentials import Credentials

_NAMES = [
    "API_KEY",
    "BACKUP_PASSPHRASE",
    "CA",
    "CERTIFICATE",
    "GATEWAY",
    "KEY",
    "MASTER",
    "OUTPUT",
    "PROXY",
    "SPEC",
    "TOPIC",
]
VARIABLES = frozenset(f"DRAGOMAN_{name}" for name in _NAMES)
"""Variables of the environment that options of commands are read from, and no settings."""
GATEWAY = "http://127.0.0.1:8080"


class Form(Enum):
    """The form in which results are printed."""

    TEXT = "text"
    JSON = "json"


SPOKEN = (*SPECS, Version.CLOUDEVENTS, Version.GRID_EVENTS)
"""What the commands speak."""


def named(versions: Iterable[Version]) -> str:
    """The names of *versions*, for people."""
    return ", ".join(version.value for version in versions)


def read_spec(text: str, offered: Collection[Version] = SPOKEN) -> Version:
    """The specification that ``--spec`` names.

    Raises:
        typer.BadParameter: It is not *offered*; the text lists what is.
    """
    names = [version.value for version in offered]
    if text in names:
        return Version(text)
    near = get_close_matches(text.lower(), names, 1, 0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise typer.BadParameter(
        f"{text!r} is not offered; there are {named(offered)}{hint}", param_hint="--spec"
    )


def read_namespaces(pairs: list[str] | None) -> dict[str, str]:
    """The namespaces that ``--ns PREFIX=URI`` declares.

    Raises:
        typer.BadParameter: One is not of that form.
    """
    declared = {}
    for pair in pairs or ():
        prefix, equals, uri = pair.partition("=")
        usable = prefix.isidentifier() and not prefix.lower().startswith("xml")
        if not equals or not uri.strip() or not usable:
            raise typer.BadParameter(
                f"{pair!r} does not declare a namespace, as w=http://example.org/weather does",
                param_hint="--ns",
            )
        declared[prefix] = uri.strip()
    return declared


def check_xpath(xpath: str | None, namespaces: Mapping[str, str]) -> None:
    """See that ``--xpath`` can be sent.

    Raises:
        CommandFailed: It is not XPath 1.0, or has a prefix that ``--ns`` does not declare.
    """
    if xpath is None:
        return
    try:
        parse(Expression(xpath, namespaces=tuple(sorted(namespaces.items()))))
    except UndeclaredPrefix as error:
        raise CommandFailed(undeclared(error.value)) from error
    except FilterError as error:
        raise CommandFailed(f"--xpath: {error.text}") from error


def undeclared(prefix: str, declarations: Iterable[tuple[str, str]] = ()) -> str:
    """The advice about *prefix*, which ``--ns`` does not declare; it names the URI of the first of
    *declarations*, pairs of a URI and the file that declares it."""
    text = f"--xpath: the prefix {prefix} is not declared: add --ns {prefix}="
    for uri, name in declarations:
        return f"{text}{uri} (as {name} has it)"
    return f"{text}URI"


class Connecting(TypedDict):
    """How a gateway is connected to: keywords of every client."""

    tls: ssl.SSLContext | None
    proxy: str | None
    credentials: "Credentials | None"


def connecting(context: typer.Context) -> Connecting:
    """What ``--ca``, ``--certificate``, ``--key``, ``--proxy`` and ``--api-key`` say before the
    command."""
    found = context.find_root().obj
    return found if found is not None else {"tls": None, "proxy": None, "credentials": None}


def tls(context: typer.Context) -> ssl.SSLContext | None:
    """The TLS context of ``--ca``, ``--certificate`` and ``--key``, given before the command, or
    None."""
    return connecting(context)["tls"]


GatewayOption = Annotated[
    str,
    typer.Option("--gateway", metavar="URL", envvar="DRAGOMAN_GATEWAY", help="The gateway."),
]
SpecOption = Annotated[
    str,
    typer.Option(
        "--spec",
        metavar="NAME",
        envvar="DRAGOMAN_SPEC",
        help=f"What to speak: {named(SPOKEN)}.",
    ),
]
IdArguments = Annotated[list[str], typer.Argument(metavar="ID", help="As `list` shows it.")]
OutputOption = Annotated[
    Form,
    typer.Option("--output", envvar="DRAGOMAN_OUTPUT", help="For people, or for programs."),
]
