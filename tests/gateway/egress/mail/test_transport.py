"""Events and SubscriptionEnd by mail, through a gateway and a real smart host."""

import json
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from gateway.egress import FailureKind, Request, SendFailed
from gateway.egress.mail import MailSettings, MailTransport
from tests.rigs.certificates import Authority
from tests.rigs.envelopes import S11, S12, WSA10, WSE, WSNT, Message, Speaker, canonical
from tests.rigs.gateways import Running, running
from tests.rigs.mail import SmartHost, smart_host
from tests.rigs.waiting import until

EVENT = "<c><b>1</b></c>"
ANN = "mailto:ann@example.org"


def mail_settings(host: SmartHost, **more: Any) -> dict[str, Any]:
    return {
        "host": "127.0.0.1",
        "port": host.port,
        "security": "none",
        "sender": "events@gateway.example",
        "domains": ["example.org", "*.plant.example"],
        **more,
    }


async def subscribe(run: Running, address: str, speaker: Speaker | None = None, **more: Any) -> str:
    speaker = speaker or Speaker()
    return await run.subscribe(speaker, speaker.wse_subscribe(address, **more))


async def refused(run: Running, address: str, **how: Any) -> bool:
    answer = await run.ask(Speaker(), Speaker().wse_subscribe(address), **how)
    return answer.status != 200 and any(
        said in answer.body
        for said in (b"policy of this gateway", b"This is not an address to send to")
    )


@pytest.mark.parametrize("soap", [S11, S12])
async def test_one_message_a_mail(tmp_path: Path, soap: Any) -> None:
    async with smart_host() as host, running(tmp_path, mail=mail_settings(host)) as run:
        speaker = Speaker(soap)
        await subscribe(run, f"{ANN}?subject=Storm%20%C3%A4", speaker)
        await run.publish(EVENT, action="urn:storm")
        mail = await host.next()
        assert (mail.sender, mail.recipients) == ("events@gateway.example", ("ann@example.org",))
        message = mail.message
        assert message["To"] == "ann@example.org" and message["Subject"] == "Storm ä"
        envelope = Message(mail.body)
        assert envelope.soap is soap and envelope.wsa("Action") == "urn:storm"
        assert canonical(envelope.body[0]) == EVENT.encode()
        assert message.get_content_type() == soap.media_type
        if soap is S11:
            assert message["SOAPAction"] == '"urn:storm"'
        else:
            assert message["Content-Type"].params["action"] == "urn:storm"
        id_ = (envelope.wsa("MessageID") or "").replace(":", "-")
        assert message["Message-ID"] == f"<{id_}@gateway.example>"
        assert message["Auto-Submitted"] == "auto-generated"
        assert not message.defects
        await run.quiet()


async def test_lines_of_any_length_and_dots_arrive(tmp_path: Path) -> None:
    event = "<c>" + "\n.\n..\nFrom x\n" + "ü" * 5000 + "</c>"
    async with smart_host() as host, running(tmp_path, mail=mail_settings(host)) as run:
        await subscribe(run, ANN)
        await run.publish(event)
        mail = await host.next()
        assert canonical(Message(mail.body).body[0]) == canonical(event.encode())
        assert max(map(len, mail.octets.split(b"\r\n"))) < 998


@pytest.mark.parametrize("soap", [S11, S12])
async def test_strangers_write_no_lines_of_a_mail(tmp_path: Path, soap: Any) -> None:
    encoded = "=?utf-8?q?=0d=0aBcc:_bob@example.com=0d=0a=0d=0ahello?="
    async with smart_host() as host, running(tmp_path, mail=mail_settings(host)) as run:
        await subscribe(run, f"{ANN}?subject={quote(encoded)}", Speaker(soap))
        await run.publish(EVENT, action=f"urn:x{encoded}")
        mail = await host.next()
        assert canonical(Message(mail.body).body[0]) == EVENT.encode()
        assert Message(mail.body).wsa("Action") == f"urn:x{encoded}"
        assert mail.message["Subject"] == encoded and "Bcc" not in mail.message
        assert b"Bcc" not in mail.octets and mail.message["SOAPAction"] in (None, '""')
        assert mail.recipients == ("ann@example.org",)
        await run.quiet()


async def test_what_cannot_be_a_mail_is_not_tried_again() -> None:
    settings = MailSettings(host="127.0.0.1", sender="a@b.example", domains=("example.org",))
    mail = MailTransport(settings, ssl.create_default_context())
    answer = await mail.send(Request(mail.target(ANN), b"", (("X", "a\r\nBcc: bob@example.org"),)))
    assert answer.status == 422 and answer.body.startswith(
        b"not sent: a mail cannot have the header"
    )


async def test_an_address_that_was_one_once() -> None:
    settings = MailSettings(host="127.0.0.1", sender="a@b.example", domains=("example.org",))
    mail = MailTransport(settings, ssl.create_default_context())
    stored = replace(mail.target(ANN), url="mailto:-ann@example.org")
    with pytest.raises(SendFailed) as caught:
        await mail.send(Request(stored, b"", ()))
    assert caught.value.kind is FailureKind.FORBIDDEN


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_over_tls_with_a_password(tmp_path: Path, security: str) -> None:
    authority = Authority(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.issue("127.0.0.1"))
    async with smart_host(implicit_tls=security == "tls", tls=tls, password="s3cret") as host:
        mail = mail_settings(
            host, security=security, user="gw", password="s3cret", ca=authority.certificate
        )
        async with running(tmp_path / "data", mail=mail) as run:
            await subscribe(run, ANN)
            await run.publish(EVENT)
            came = await host.next()
            assert came.encrypted and came.user == "gw"
            await run.quiet()
            assert not any("s3cret" in str(log) for log in run.logs)


async def test_a_password_in_a_file_counts_as_it_is_now(tmp_path: Path) -> None:
    authority, secret = Authority(tmp_path), tmp_path / "password"
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.issue("127.0.0.1"))
    secret.write_text("former\n")
    async with smart_host(tls=tls, password="s3cret") as host:
        given = {"user": "gw", "password_file": secret, "ca": authority.certificate}
        settings = MailSettings(**mail_settings(host, security="starttls", **given))
        mail = MailTransport(settings, ssl.create_default_context(cafile=authority.certificate))
        message = Request(mail.target(ANN), b"<e/>", (("Content-Type", "text/xml"),))
        with pytest.raises(SendFailed, match="the smart host") as caught:
            await mail.send(message)
        assert "former" not in str(caught.value)
        secret.write_text("s3cret\n")
        assert (await mail.send(message)).status == 202
        secret.unlink()
        with pytest.raises(SendFailed, match="the smart host"):
            await mail.send(message)
        await mail.close()


@pytest.mark.parametrize("why", ["an unknown authority", "no STARTTLS", "a wrong password"])
async def test_no_mail_without_the_security_that_is_set(tmp_path: Path, why: str) -> None:
    authority = Authority(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.issue("127.0.0.1"))
    offered = None if why == "no STARTTLS" else tls
    async with smart_host(tls=offered, password="right") as host:
        ca = None if why == "an unknown authority" else authority.certificate
        mail = mail_settings(host, security="starttls", user="gw", password="wrong", ca=ca)
        async with running(tmp_path / "data", mail=mail, drain=0) as run:
            await subscribe(run, ANN)
            await run.publish(EVENT)
            await until(lambda: any(x["event"] == "mail.smart-host-failed" for x in run.logs))
            assert host.received.empty()
            run.stop.set()


async def test_off_unless_configured(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        answer = await run.ask(Speaker(), Speaker().wse_subscribe(ANN))
        assert b"the scheme mailto are not sent to" in answer.body
        assert len(run.gateway.subscriptions) == 0


@pytest.mark.parametrize(
    "address",
    [
        "mailto:ann@elsewhere.example",
        "mailto:ann@sub.example.org",
        "mailto:ann@plant.example",
        "mailto:ann@example.org,bob@elsewhere.example",
        "mailto:ann@example.org?bcc=bob@elsewhere.example",
        "mailto:ann%40elsewhere.example@example.org",
    ],
)
async def test_mail_goes_to_the_domains_of_the_settings_alone(tmp_path: Path, address: str) -> None:
    async with smart_host() as host, running(tmp_path, mail=mail_settings(host)) as run:
        assert await refused(run, address)
        await subscribe(run, "mailto:ann@a.plant.example")


@pytest.mark.parametrize("allowed", [False, True])
async def test_strangers_send_no_mail_unless_allowed(tmp_path: Path, allowed: bool) -> None:
    async with (
        smart_host() as host,
        running(tmp_path, trusted="10.0.0.0/8", mail=mail_settings(host, strangers=allowed)) as run,
    ):
        assert await refused(run, ANN) is not allowed
        body = Speaker().wse_subscribe("http://127.0.0.1:9999/", end_to=ANN)
        assert ((await run.ask(Speaker(), body)).status == 200) is allowed
        # Nor is mail a place for answers.
        reply = f'<a:ReplyTo xmlns:a="{WSA10}">{Speaker().epr(ANN)}</a:ReplyTo>'
        answer = await run.ask(Speaker(), body, headers=reply)
        assert answer.status != 202
        assert host.received.empty()


@pytest.mark.parametrize("command", ["MAIL", "RCPT", "DATA."])
async def test_4yz_is_tried_again(tmp_path: Path, command: str) -> None:
    async with (
        smart_host() as host,
        running(tmp_path, mail=mail_settings(host), retry_delays=(0.05, 0.05, 0.05, 0.05)) as run,
    ):
        host.replies[command] = b"450 4.2.1 try later"
        await subscribe(run, ANN)
        await run.publish(EVENT)
        await until(lambda: host.connections >= 2)
        host.replies.clear()
        while not host.received.empty():
            host.received.get_nowait()
        assert EVENT.encode() in (await host.next()).body
        await run.quiet()


@pytest.mark.parametrize("command", ["MAIL", "RCPT", "DATA."])
async def test_5yz_is_final(tmp_path: Path, command: str) -> None:
    async with smart_host() as host, running(tmp_path, mail=mail_settings(host)) as run:
        host.replies[command] = b"550 5.1.1 nobody of that name"
        await subscribe(run, ANN)
        await run.publish(EVENT)

        async def buried() -> bool:
            return b"rejected" in (await run.api("GET", "/deadletters")).body

        await until(buried)
        number = (await run.api("GET", "/deadletters")).body
        assert host.connections == 1 and b"ann@example.org" in number
        await run.quiet()


async def test_a_mail_that_was_accepted_is_not_sent_again_for_a_bad_goodbye(tmp_path: Path) -> None:
    async with smart_host() as host, running(tmp_path, mail=mail_settings(host)) as run:
        host.replies["QUIT"] = b"421 whatever"
        await subscribe(run, ANN)
        await run.publish(EVENT)
        await host.next()
        await run.quiet()
        assert host.connections == 1


async def test_a_smart_host_that_hangs_delays_nobody_else(tmp_path: Path) -> None:
    async with smart_host() as host:
        host.silent.add("MAIL")
        mail = mail_settings(host, at_a_time=2, timeout=0.3)
        async with running(tmp_path, mail=mail, retry_delays=(0.05,), drain=0) as run:
            for number in range(6):
                await subscribe(run, f"mailto:m{number}@example.org")
            box = await run.subscribe(Speaker(), f'<n:CreatePullPoint xmlns:n="{WSNT}"/>')
            await run.subscribe(Speaker(), Speaker().wsn_subscribe(f"{run.url}{box}"))
            await run.publish(EVENT)
            body = f'<n:GetMessages xmlns:n="{WSNT}"/>'

            async def came() -> bool:
                return EVENT.encode() in (await run.ask(Speaker(), body, box)).body

            await until(came)
            await until(lambda: host.connections >= 3)
            assert host.most_at_once <= 2
            run.stop.set()


async def only_id(run: Running) -> str:
    [one] = json.loads((await run.api("GET", "/subscriptions")).body)["subscriptions"]
    return str(one["id"])


async def test_subscription_end_by_mail(tmp_path: Path) -> None:
    async with smart_host() as host, running(tmp_path, mail=mail_settings(host)) as run:
        await subscribe(run, "http://127.0.0.1:9999/", end_to="mailto:ops@example.org")
        await run.api("DELETE", f"/subscriptions/{await only_id(run)}")
        mail = await host.next()
        assert mail.recipients == ("ops@example.org",)
        assert Message(mail.body).body[0].tag == f"{{{WSE}}}SubscriptionEnd"


async def test_explain_tells_of_mail(tmp_path: Path) -> None:
    async with smart_host() as host, running(tmp_path, mail=mail_settings(host)) as run:
        await subscribe(run, ANN)
        explained = await run.api("POST", f"/subscriptions/{await only_id(run)}/explain", b"{}")
        assert b"the transport of mailto: sends there" in explained.body


async def test_subscriptions_by_mail_outlive_the_gateway(tmp_path: Path) -> None:
    async with smart_host() as host:
        async with running(tmp_path, adapter="embedded:", mail=mail_settings(host)) as run:
            await subscribe(run, ANN)
        async with running(tmp_path, adapter="embedded:", mail=mail_settings(host)) as run:
            await run.publish(EVENT)
            assert EVENT.encode() in (await host.next()).body
            await run.quiet()
        async with running(
            tmp_path, adapter="embedded:", mail=mail_settings(host, domains=["other.example"])
        ) as run:
            await run.publish(EVENT)
            await run.quiet()
        assert host.received.empty()


async def test_schemes_that_the_operator_leaves_out_are_refused(tmp_path: Path) -> None:
    """Those of transports with settings of their own are not meant."""
    async with (
        smart_host() as host,
        running(tmp_path, egress_schemes=("https",), mail=mail_settings(host)) as run,
    ):
        assert await refused(run, "http://127.0.0.1:9999/")
        assert await refused(run, "soap.tcp://127.0.0.1:9999/")
        await subscribe(run, ANN)
        await subscribe(run, "https://127.0.0.1:9999/")
