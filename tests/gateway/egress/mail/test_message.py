"""A mail has the headers and the body that it is given here, whatever strangers wrote."""

from email import policy
from email.message import EmailMessage, Message
from email.parser import BytesParser
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.egress import Request
from gateway.egress.mail.addresses import MAX_SUBJECT, MailAddress, target_of
from gateway.egress.mail.message import write_mail
from mediation.model.messages import Attachment, Packaging
from mediation.model.versions import Soap
from mediation.soap.envelopes import http_headers
from tests.rigs.cases import for_each

TARGET = target_of("mailto:ann@example.org")
SENDER = "events@gateway.example"
BODY = "<c>ü\n.\n</c>".encode()
BEFORE = ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version"]
INJECTIONS = [
    "=?utf-8?b?DQpCY2M6IHpAei5vcmcNCg==?=",
    "=?utf-8?q?=0d=0aBcc:z@z?=",
    "urn:x =?utf-8?q?=0d=0aContent-Type:_text/html=0d=0a=0d=0a<b>?= y",
    "urn:x?=?utf-8?q?=0a=0ax?=",
    "=?iso-8859-1?q?=0D=0ABcc=3A_z=40z?= =?utf-8?q?=0AFrom:x?=",
    "=?utf-8*en?q?=0a?=",
    "=?",
]
TEXTS = st.one_of(
    st.text(max_size=MAX_SUBJECT),
    st.lists(st.sampled_from([*INJECTIONS, "=", "?", " ", "ä", "x" * 70]), max_size=6).map("".join),
    st.integers(900, 1100).map(lambda length: "urn:" + "x" * length),
)
BREAKS = ["a\r\nBcc: z@z", "a\nb", "a\rb", "a\0b", "a\x85b", "a\u2028b", "a\tb", "a\x7fb"]


def request(*headers: tuple[str, str], **more: Any) -> Request:
    return Request(TARGET, BODY, headers, **{"message_id": "urn:uuid:1", **more})


def mail_of(
    asked: Request, subject: str = "", local: str = "ann"
) -> tuple[Message, EmailMessage, bytes]:
    """The mail, as parsers of the old kind, which decode nothing, and of the new one read it."""
    octets, _ = write_mail(asked, MailAddress(local, "example.org", subject), sender=SENDER, now=0)
    assert octets.isascii() and max(map(len, octets.split(b"\r\n"))) <= 998
    assert set(octets.replace(b"\r\n", b"")).isdisjoint(b"\r\n\0")
    raw = BytesParser(policy=policy.compat32).parsebytes(octets)
    parsed = BytesParser(EmailMessage, policy=policy.SMTP).parsebytes(octets)
    return raw, parsed, octets


def assert_ours(raw: Message, parsed: EmailMessage, names: list[str]) -> None:
    for one in (raw, parsed):
        assert one.keys() == [*BEFORE, *names, "Content-Transfer-Encoding"]
        assert one.get_payload(decode=True) == BODY and not one.defects
        assert (one["From"], one["To"]) == (SENDER, "ann@example.org")


@given(TEXTS)
@example(" outer ")
@example("=?utf-8?b?DQpCY2M6IHpAei5vcmcNCg==?=")
def test_a_subject_is_what_the_reader_sees_and_nothing_else(subject: str) -> None:
    headers = http_headers(Soap.V1_1, "urn:x")
    try:
        raw, parsed, _ = mail_of(request(*headers), subject)
    except ValueError:
        assert not subject.isprintable()
        return
    assert subject.isprintable()
    assert_ours(raw, parsed, ["Content-Type", "SOAPAction"])
    assert parsed["Subject"] == (subject or "SOAP message")
    assert max(map(len, raw["Subject"].splitlines())) <= 76


@given(TEXTS, st.sampled_from(Soap))
@example("=?utf-8?b?DQpCY2M6IHpAei5vcmcNCg==?=", Soap.V1_1)
@example("=?utf-8?b?DQpCY2M6IHpAei5vcmcNCg==?=", Soap.V1_2)
def test_an_action_is_itself_or_left_out(action: str, soap: Soap) -> None:
    headers = http_headers(soap, action)
    raw, parsed, octets = mail_of(request(*headers, soap=soap))
    assert_ours(raw, parsed, [name for name, _ in headers])
    assert not octets.count(b"=?")
    for name, value in headers:
        without = {"SOAPAction": '""', "Content-Type": http_headers(soap, "")[0][1]}[name]
        fits = "=?" not in value and len(f"{name}: {value}") <= 998
        assert raw[name] == (value if fits else without)


def test_a_long_action_stays_in_its_line() -> None:
    action = "http://example.org/" + "x" * 300
    raw, parsed, octets = mail_of(request(*http_headers(Soap.V1_1, action)))
    assert raw["SOAPAction"] == parsed["SOAPAction"] == f'"{action}"'
    assert f'\r\nSOAPAction: "{action}"\r\n'.encode() in octets


@for_each("value", [*BREAKS, *INJECTIONS, "ä", "x" * 999])
def test_other_headers_that_a_mail_cannot_have_are_refused(value: str) -> None:
    for name in ("Dragoman-Hops", "Content-Type"):
        with pytest.raises(ValueError, match=r"a mail cannot have the header|longer than a line"):
            mail_of(request((name, value)))


@pytest.mark.parametrize("value", BREAKS)
def test_line_ends_and_controls_are_refused_everywhere(value: str) -> None:
    for headers in ((("SOAPAction", f'"{value}"'),), ((f"X{value}", "x"),)):
        with pytest.raises(ValueError, match="a mail cannot have the header"):
            mail_of(request(*headers))
    with pytest.raises(ValueError, match="a mail cannot have the"):
        mail_of(request(), subject=value)
    with pytest.raises(ValueError, match="a mail cannot have the header"):
        mail_of(request(), local=value)


def test_a_message_id_of_any_text_is_one() -> None:
    raw, _, _ = mail_of(request(message_id="a\r\nBcc: =?utf-8?q?=0a?= ä"))
    assert raw["Message-ID"] == "<a--Bcc----utf-8-q--0a----@gateway.example>"


@pytest.mark.parametrize("packaging", [Packaging.MIME, Packaging.DIME])
def test_a_package_is_the_body(packaging: Packaging) -> None:
    asked = request(
        *http_headers(Soap.V1_2, INJECTIONS[0]),
        soap=Soap.V1_2,
        packaging=packaging,
        attachments=(Attachment("cid:a", "text/plain", b"abc"),),
    )
    raw, _, octets = mail_of(asked)
    assert raw.keys() == [*BEFORE, "Content-Type", "Content-Transfer-Encoding"]
    assert b"=?" not in octets
    body = raw.get_payload(decode=True)
    assert isinstance(body, bytes) and BODY in body and b"abc" in body
