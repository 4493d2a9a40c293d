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


BearerFileOption = Annotated[
    Path | None,
    typer.Option(
        "--bearer-file",
        metavar="FILE",
        help="A file whose first line is a token to show in place of a user: also an API key of "
        "another Dragoman; with - it is typed.",
    ),
]
AllowHttpOption = Annotated[
    bool,
    typer.Option("--allow-http", help="Send the token over http, too, where others read it."),
]


def read_login(
    user: str | None,
    password_file: Path | None,
    *,
    allow_basic: bool,
    negotiate: bool = False,
    bearer_file: Path | None = None,
    allow_http: bool = False,
) -> "Record":
    """What the API is told of *user*, or of a token; nothing where there is neither.

    Raises:
        typer.BadParameter: A file cannot be read, or is nobody's.
    """
    if bearer_file is not None:
        if user is not None or password_file is not None:
            raise typer.BadParameter("it goes without --user", param_hint="'--bearer-file'")
        return {"bearer": _secret(bearer_file, "Token", "--bearer-file"), "allow_http": allow_http}
    if allow_http:
        raise typer.BadParameter("it goes with --bearer-file", param_hint="'--allow-http'")
    if user is None:
        if password_file is not None or allow_basic or negotiate:
            raise typer.BadParameter("it goes with --user", param_hint="'--password-file'")
        return {}
    login: Record = {"user": user, "password": _secret(password_file)}
    login["allow_basic"] = allow_basic
    return {**login, "negotiate": True} if negotiate else login


def _secret(path: Path | None, what: str = "Password", option: str = "--password-file") -> str:
    """The first line of a file; typed, where there is none or its name is ``-``."""
    if path is None or str(path) == "-":
        return str(typer.prompt(what, hide_input=True, err=True))
    from gateway.security.secret_files import SecretFileUnusable, read_first_line

    try:
        return read_first_line(path)
    except SecretFileUnusable as unusable:
        raise typer.BadParameter(unusable.text, param_hint=f"'{option}'") from None
