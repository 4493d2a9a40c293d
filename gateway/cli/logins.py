"""The options by which commands are told what a producer wants to be shown."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:  # The client's library is for those that speak to a gateway.
    from gateway.client import Record


UserOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="The user that the producer wants.")
]
PasswordFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A file whose first line is the user's password; without it, or with -, it is typed.",
    ),
]
AllowBasicOption = Annotated[
    bool,
    typer.Option(
        "--allow-basic",
        help="Send the password as it is over http, too, where nothing else is taken.",
    ),
]


NegotiateOption = Annotated[
    bool,
    typer.Option(
        "--negotiate",
        help="Prove the password by Negotiate (Kerberos, NTLM), as Windows wants it.",
    ),
]


def read_login(
    user: str | None,
    password_file: Path | None,
    *,
    allow_basic: bool,
    negotiate: bool = False,
) -> "Record":
    """What the API is told of *user*; nothing where there is none.

    Raises:
        typer.BadParameter: The file cannot be read, or is nobody's.
    """
    if user is None:
        if password_file is not None or allow_basic or negotiate:
            raise typer.BadParameter("it goes with --user", param_hint="'--password-file'")
        return {}
    login: Record = {"user": user, "password": _password(password_file)}
    login["allow_basic"] = allow_basic
    return {**login, "negotiate": True} if negotiate else login


def _password(path: Path | None) -> str:
    """The first line of a file; typed, where there is none or its name is ``-``."""
    if path is None or str(path) == "-":
        return str(typer.prompt("Password", hide_input=True, err=True))
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline(4096).rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        text = f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise typer.BadParameter(text, param_hint="'--password-file'") from error
