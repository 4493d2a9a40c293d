"""The checks of ``dragoman doctor``: everything that can keep a gateway from starting or working.

Nothing is changed, and a gateway that runs with the same settings is not disturbed: its files are
opened for reading alone, a broker is connected to and left again without a word.
"""

import threading
import time
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

from gateway.checks.certificates import check_egress, check_tls, check_ws_security
from gateway.checks.discovery import check_discovery
from gateway.checks.files import check_archive, check_data, check_store, is_locked
from gateway.checks.findings import Check, Finding, Verdict, fail, warn
from gateway.checks.identities import check_identities
from gateway.checks.machine import check_clock, check_engine, check_versions
from gateway.checks.mailboxes import check_mailboxes
from gateway.checks.peers import (
    check_adapter,
    check_adapter_settings,
    check_admin,
    check_port,
    check_proxy,
    check_public_url,
)
from gateway.checks.revocation_lists import check_revocation_lists
from gateway.checks.settings import check_settings
from gateway.checks.soap_tcp import check_soap_tcp
from gateway.checks.topics import check_event_types, check_topics
from gateway.checks.transports import check_copies, check_mail, check_transports
from gateway.databases import first_line
from gateway.egress import Proxy
from gateway.settings.settings import Settings

__all__ = ["Finding", "Verdict", "examine", "examine_settings"]

DEADLINE = 5.0
"""Seconds for one check; they run at the same time."""


def examine(given: Mapping[str, Any], others: Collection[str]) -> Iterator[Finding]:
    """Check everything, for the settings that a gateway with the options *given* would have.

    Args:
        given: By setting; None where an option was not given.
        others: Variables of the environment that are no settings, but mean something.
    """
    settings, findings = check_settings(given, others)
    yield from findings
    checks: list[tuple[str, Check]] = []
    if settings is not None:
        runs = is_locked(settings.data)
        checks += [
            ("data", partial(check_data, settings, runs)),
            ("store", partial(check_store, settings)),
            ("adapter", partial(check_adapter, settings)),
            ("port", partial(check_port, settings, runs)),
            ("administration", partial(check_admin, settings, runs)),
            ("SOAP.TCP", partial(check_soap_tcp, settings, runs)),
            ("public URL", partial(check_public_url, settings)),
            ("TLS", partial(check_tls, settings)),
            ("egress", partial(check_egress, settings)),
            ("WS-Security", partial(check_ws_security, settings)),
            ("identities", partial(check_identities, settings)),
            ("revoked certificates", partial(check_revocation_lists, settings)),
            ("mailboxes", partial(check_mailboxes, settings)),
            ("topics", partial(check_topics, settings)),
            ("event types", partial(check_event_types, settings)),
        ]
        if settings.egress_proxy is not None:
            proxy = Proxy.parse(settings.egress_proxy.get_secret_value())
            checks.append(("proxy", partial(check_proxy, proxy)))
        checks += _of_sending(settings)
        if settings.mail is not None:
            checks.append(("mail", partial(check_mail, settings.mail)))
        if settings.archive is not None:
            checks.append(("archive", partial(check_archive, settings.archive)))
    checks += [
        ("clock", partial(check_clock, settings.data if settings else None)),
        ("versions", check_versions),
        ("filter engine", check_engine),
    ]
    yield from run(checks)
    if settings is None:
        yield warn("the rest", "could not be looked at; mend the settings first")


def examine_settings(given: Mapping[str, Any], others: Collection[str]) -> Iterator[Finding]:
    """Check the settings alone, and the files that they name; arguments as of `examine`."""
    settings, findings = check_settings(given, others)
    yield from findings
    if settings is not None:
        checks: list[tuple[str, Check]] = [
            ("adapter", partial(check_adapter_settings, settings)),
            ("TLS", partial(check_tls, settings)),
            ("egress", partial(check_egress, settings)),
            ("WS-Security", partial(check_ws_security, settings)),
            ("identities", partial(check_identities, settings)),
            ("revoked certificates", partial(check_revocation_lists, settings)),
            *_of_sending(settings),
            ("topics", partial(check_topics, settings)),
            ("event types", partial(check_event_types, settings)),
        ]
        yield from run(checks)


def _of_sending(settings: Settings) -> Iterator[tuple[str, Check]]:
    """The checks of what only some gateways have."""
    if settings.transports:
        yield "transports", partial(check_transports, settings.transports)
    if settings.discovery_node:
        yield "discovery", partial(check_discovery, settings)
    if settings.amqp_copies is not None:
        yield "copies", partial(check_copies, settings.amqp_copies)


def run(checks: list[tuple[str, Check]]) -> Iterator[Finding]:
    """Run *checks* at the same time; one that hangs is left behind."""
    results: dict[str, list[Finding]] = {}

    def look(what: str, check: Check) -> None:
        try:
            found = list(check())
        except Exception as error:  # Whatever it is, it is what the user came to hear.
            found = [fail(what, f"{type(error).__name__}: {first_line(error)}")]
        results[what] = found

    threads = [threading.Thread(target=look, args=pair, daemon=True) for pair in checks]
    for thread in threads:
        thread.start()
    end = time.monotonic() + DEADLINE
    for thread, (what, _) in zip(threads, checks, strict=True):
        thread.join(max(0.0, end - time.monotonic()))
        late = fail(
            what, f"no answer within {DEADLINE:.0f} s; see what it waits for, a disk or DNS"
        )
        yield from results.get(what, [late])
