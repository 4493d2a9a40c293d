"""``dragoman doctor``."""

from collections.abc import Iterator
from typing import Any

import typer

from gateway.cli.output import line
from gateway.cli.serve import (
    AdapterOption,
    ArchiveOption,
    DataOption,
    HostOption,
    MailboxesOnlyOption,
    PortOption,
    PublicUrlOption,
    SoapTcpPortOption,
    SoapTcpsPortOption,
    SpoolOption,
    StoreOption,
    TlsCertificateOption,
    TlsClientCaOption,
    TlsKeyOption,
)


def doctor(
    context: typer.Context,
    host: HostOption = None,
    port: PortOption = None,
    soap_tcp_port: SoapTcpPortOption = None,
    soap_tcps_port: SoapTcpsPortOption = None,
    adapter: AdapterOption = None,
    store: StoreOption = None,
    data: DataOption = None,
    public_url: PublicUrlOption = None,
    archive: ArchiveOption = None,
    spool: SpoolOption = None,
    tls_certificate: TlsCertificateOption = None,
    tls_key: TlsKeyOption = None,
    tls_client_ca: TlsClientCaOption = None,
    mailboxes_only: MailboxesOnlyOption = None,
) -> None:
    r"""Check what a gateway needs, say what is wrong and how to mend it.

    Give it the options, the environment and the folder that you give serve. It changes nothing, and
    does not disturb a gateway that runs. The exit code is 0 when nothing failed, else 1.

    \b
    Examples:
      dragoman doctor
      dragoman doctor --data /var/lib/dragoman --port 80
    """
    # Imported when it is wanted, so that other commands start quickly.
    from gateway.checks import Verdict, examine

    given = {
        "host": host,
        "port": port,
        "soap_tcp_port": soap_tcp_port,
        "soap_tcps_port": soap_tcps_port,
        "adapter": adapter,
        "store": store,
        "data": data,
        "public_url": public_url,
        "archive": archive,
        "spool": spool,
        "tls_certificate": tls_certificate,
        "tls_key": tls_key,
        "tls_client_ca": tls_client_ca,
        "mailboxes_only": mailboxes_only,
    }
    failed = False
    for finding in examine(given, set(_variables(context.find_root().command))):
        failed = failed or finding.verdict is Verdict.FAIL
        line(f"{finding.verdict.value:<5} {finding.what}: {' '.join(finding.text.split())}")
    raise typer.Exit(1 if failed else 0)


def _variables(command: Any) -> Iterator[str]:
    """The variables of the environment that options of *command* are read from."""
    yield from (option.envvar for option in command.params if option.envvar)
    for below in getattr(command, "commands", {}).values():
        yield from _variables(below)
