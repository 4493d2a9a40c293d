"""``dragoman rights``: rules in the file of identities, or in the store of a gateway."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from filters import FilterError, parse_clark
from filters.topics import Topic
from gateway.cli.commands import add, group, help_alone
from gateway.cli.documents import read_document
from gateway.cli.errors import CommandFailed
from gateway.cli.identities import (
    RIGHTS,
    FileOption,
    InGateway,
    StoredOption,
    TenantOption,
    file_of,
    in_gateway,
    place_of,
    print_rows,
    read_file,
)
from gateway.cli.options import GATEWAY, Form, GatewayOption, OutputOption, read_namespaces
from gateway.cli.output import json_line, line
from gateway.client import Record
from gateway.identities.in_force import IdentitiesInForce
from gateway.identities.right_checks import check_right
from gateway.security.identities import Identities
from gateway.security.principals import Identity
from gateway.security.rights import Right
from gateway.web.views.identities import rule_view
from mediation.certificates import read_certificates

rights = group(
    "rights",
    "Say who may do what, and list, add and remove rules, in the file of identities or in the "
    "store.",
)
rights.callback()(help_alone)


def list_rules(
    context: typer.Context,
    file: FileOption = None,
    stored: StoredOption = False,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""List the rules, in the order in which they are asked.

    \b
    Examples:
      dragoman rights list
      dragoman rights list --stored
    """
    rows = place_of(context, file, gateway, stored=stored).rules()
    columns = ["id", "who", "may", "topics"]
    columns += [name for name in ("tenant", "authority") if any(row[name] for row in rows)]
    print_rows(rows, columns, output, stored=stored)


def add_one_rule(
    context: typer.Context,
    who: Annotated[
        list[str],
        typer.Option(
            "--who",
            metavar="NAME",
            help="user:NAME, role:NAME, cert:SUBJECT, ca:NAME, broker:NAME, anonymous or "
            "everybody; may be repeated.",
        ),
    ],
    may: Annotated[
        list[str], typer.Option("--may", metavar="RIGHT", help=f"{RIGHTS}; may be repeated.")
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="EXPR",
            help="Topics to publish or to subscribe on: storms//.; may be repeated. [all]",
        ),
    ] = None,
    ns: Annotated[
        list[str] | None, typer.Option(metavar="PREFIX=URI", help="A prefix of --topic.")
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", metavar="NAME", help="It holds for users of that tenant alone."),
    ] = None,
    authority: Annotated[
        str | None,
        typer.Option(
            "--authority", metavar="NAME", help="Who must have issued the certificates of --who."
        ),
    ] = None,
    file: FileOption = None,
    stored: StoredOption = False,
    gateway: GatewayOption = GATEWAY,
) -> None:
    r"""Add a rule, which grants rights within a second.

    \b
    Examples:
      dragoman rights add --who role:harbour --may publish --topic weather//.
      dragoman rights add --who user:maria --may subscribe --may manage --stored
    """
    wanted: Record = {"who": who, "may": may}
    if topic:
        wanted["topics"] = topic
    if ns:
        wanted["namespaces"] = read_namespaces(ns)
    if tenant is not None:
        wanted["tenant"] = tenant
    if authority is not None:
        wanted["authority"] = authority
    line(f"added {place_of(context, file, gateway, stored=stored).add_rule(wanted)}")


def remove_rules(
    context: typer.Context,
    rule_ids: Annotated[list[str], typer.Argument(metavar="ID", help="As `list` shows it.")],
    file: FileOption = None,
    stored: StoredOption = False,
    gateway: GatewayOption = GATEWAY,
) -> None:
    r"""Remove rules: what they granted ends within a second.

    In the file the rules behind a removed one have other ids from then on; of several the last is
    removed first.

    \b
    Examples:
      dragoman rights remove file-3
      dragoman rights remove 5b1f0c9a3e77 --stored
    """
    place = place_of(context, file, gateway, stored=stored)
    for rule_id in sorted(set(rule_ids), key=lambda one: (len(one), one), reverse=True):
        place.remove_rule(rule_id)
        line(f"removed {rule_id}")


def check(
    context: typer.Context,
    principal: Annotated[
        str,
        typer.Argument(
            metavar="PRINCIPAL",
            help="user:NAME, cert:SUBJECT, ca:NAME, anonymous, a user's name, or the file of a "
            "certificate (PEM).",
        ),
    ],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help=f"{RIGHTS[:-14]}.")],
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="To publish or to subscribe on.")
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option("--role", metavar="NAME", help="A role that its token says; repeatable."),
    ] = None,
    tenant: TenantOption = None,
    file: FileOption = None,
    stored: StoredOption = False,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Say whether a principal may do something, and which rule says so.

    The exit code is 0 if it may, else 1.

    \b
    Examples:
      dragoman rights check user:north-mole publish weather/storms
      dragoman rights check mole.pem publish weather/storms
      dragoman rights check anonymous subscribe '{http://example.org/weather}weather/storms'
      dragoman rights check maria subscribe storms --stored
    """
    asked, about = _right(right), _topic(topic)
    if stored:
        place = in_gateway(context, file, gateway)
        allowed = _check_in_gateway(place, principal, asked, topic, role or (), tenant, output)
    else:
        allowed = _check_in_file(file_of(file), principal, asked, about, role or (), tenant, output)
    raise typer.Exit(0 if allowed else 1)


def _check_in_file(
    path: Path,
    principal: str,
    right: Right,
    topic: Topic | None,
    roles: Sequence[str],
    tenant: str | None,
    output: Form,
) -> bool:
    found = read_file(path)
    shown = _proved(principal, found, path.parent)
    checked = check_right(
        found,
        shown.owner if shown else principal,
        right,
        topic,
        roles=roles,
        tenant=tenant,
        authorities=shown.authorities if shown else frozenset(),
    )
    if shown is not None and output is Form.TEXT:
        line(f"{principal} proves {', '.join(sorted(checked.names))}")
    rule = checked.rule
    if output is Form.JSON:
        json_line({"allowed": rule is not None, "rule": rule.number if rule else None})
    elif rule is not None:
        view = rule_view(IdentitiesInForce(found, found), rule.number)
        line(f"yes: rule {rule.number} lets {_said(view.who, view.may, view.topics)}")
    else:
        line(f"no: none of {len(found.rights)} rules lets {principal} {right.value} that")
    return rule is not None


def _check_in_gateway(
    place: InGateway,
    principal: str,
    right: Right,
    topic: str | None,
    roles: Sequence[str],
    tenant: str | None,
    output: Form,
) -> bool:
    if ":" not in principal and Path(principal).is_file():
        raise CommandFailed("--stored takes names: cert:SUBJECT, not the file of a certificate")
    asked = {"principal": principal, "right": right.value, "topic": topic, "tenant": tenant}
    found = place.check_right({**asked, "role": list(roles)})
    rule = found["rule"]
    if output is Form.JSON:
        json_line({"allowed": found["allowed"], "rule": rule["id"] if rule else None})
    elif rule is not None:
        said = _said(rule["who"], rule["may"], rule["topics"])
        line(f"yes: rule {rule['id']} lets {said}")
    else:
        line(f"no: no rule lets {principal} {right.value} that")
    return bool(found["allowed"])


def _said(who: Sequence[str], may: Sequence[str], topics: Sequence[str]) -> str:
    about = f" on {' '.join(topics)}" if topics else ""
    return f"{', '.join(who)} {', '.join(may)}{about}"


def _proved(principal: str, found: Identities, folder: Path) -> Identity | None:
    """Whom the certificate in the file *principal* proves; None where there is no such file."""
    if ":" in principal or not Path(principal).is_file():
        return None
    from cryptography.hazmat.primitives.serialization import Encoding

    from gateway.security.certificate_proofs import CertificateProofs

    try:
        first = read_certificates(read_document(principal, principal))[0]
    except ValueError as error:
        raise CommandFailed(f"{principal}: no certificate in PEM") from error
    proved = CertificateProofs(found, folder).identity(first.public_bytes(Encoding.DER))
    if proved is None:
        text = "the certificate has no subject, has expired, or is revoked"
        raise CommandFailed(f"{principal}: {text}")
    return proved


def _right(text: str) -> Right:
    try:
        return Right(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no right; there are {RIGHTS[:-14]}") from error


def _topic(text: str | None) -> Topic | None:
    if text is None:
        return None
    try:
        return parse_clark(text)
    except FilterError as error:
        raise typer.BadParameter(f"TOPIC: {error.text}") from error


add(rights, list_rules, "list")
add(rights, add_one_rule, "add")
add(rights, remove_rules, "remove")
add(rights, check, "check")
