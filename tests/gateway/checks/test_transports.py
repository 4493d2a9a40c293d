"""What doctor says of transports, the smart host and the copies."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.checks import Finding, Verdict
from gateway.checks.transports import check_copies, check_mail, check_transports
from gateway.egress.mail import MailSettings
from gateway.egress.plugins import PluggedScheme
from gateway.settings.amqp_copies import AmqpCopies
from tests.rigs.mail import smart_host


def only(findings: Iterator[Finding]) -> tuple[Verdict, str]:
    [finding] = findings
    return finding.verdict, str(finding)


def test_a_transport_that_is_not_installed() -> None:
    verdict, text = only(check_transports((PluggedScheme(scheme="pigeon"),)))
    assert verdict is Verdict.FAIL and "no transport has the scheme 'pigeon'" in text


@pytest.mark.parametrize("password", ["right", "wrong"])
async def test_the_smart_host(password: str) -> None:
    async with smart_host(password="right") as host:
        settings = MailSettings.model_construct(
            host="127.0.0.1",
            port=host.port,
            security="none",
            ca=None,
            sender="events@example.org",
            domains=("example.org",),
            user="gw",
            password=SecretStr(password),
        )
        verdict, text = only(await asyncio.to_thread(lambda: iter(list(check_mail(settings)))))
        assert (verdict is Verdict.OK) is (password == "right"), text
        assert (host.received.empty() and "who are you" in text) or verdict is Verdict.OK


def test_a_smart_host_that_is_not_there() -> None:
    settings = MailSettings(
        host="127.0.0.1", port=9, sender="events@example.org", domains=("example.org",)
    )
    verdict, text = only(check_mail(settings))
    assert verdict is Verdict.FAIL and "127.0.0.1:9 cannot be reached" in text


def test_the_file_of_routing_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys.xml"
    verdict, text = only(check_copies(AmqpCopies(routing_keys=file)))
    assert verdict is Verdict.FAIL and "No such file" in text
    file.write_text("<routingKeys/>")
    assert only(check_copies(AmqpCopies(routing_keys=file)))[0] is Verdict.OK
