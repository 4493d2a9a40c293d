"""Addresses of mail: one mailbox, and a subject; nothing by which mail could reach anybody else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.egress import AddressRefused
from gateway.egress.mail.addresses import MailAddress, parse_mailto, target_of
from tests.rigs.cases import for_each

READ = [
    ("mailto:ann@example.org", MailAddress("ann", "example.org")),
    ("MAILTO:Ann.B+x@EXAMPLE.org", MailAddress("Ann.B+x", "example.org")),
    ("mailto:ann@example.org?subject=", MailAddress("ann", "example.org")),
    ("mailto:a@b?subject=Storm%20here", MailAddress("a", "b", "Storm here")),
    ("mailto:a@b?Subject=%C3%A4", MailAddress("a", "b", "ä")),
    ("mailto:%61@b", MailAddress("a", "b")),
    ("mailto:a-@b", MailAddress("a-", "b")),
    ("mailto:a=b@b", MailAddress("a=b", "b")),
]


@pytest.mark.parametrize(("text", "address"), READ)
def test_what_is_read(text: str, address: MailAddress) -> None:
    assert parse_mailto(text) == address
    target = target_of(text)
    assert (target.scheme, target.host, target.url) == ("mailto", address.domain, text)


@for_each(
    "text",
    [
        "mailto:",
        "mailto:ann",
        "mailto:@example.org",
        "mailto:ann@",
        "mailto://ann@example.org",
        "mailto:a@b,c@d",
        "mailto:a@b?to=c@d",
        "mailto:a@b?cc=c@d",
        "mailto:a@b?bcc=c@d",
        "mailto:a@b?body=x",
        "mailto:a@b?subject=x&cc=c@d",
        "mailto:a@b?subject=x%26y&z",
        "mailto:a@b?subject=x%0d%0aBcc:%20c@d",
        "mailto:a@b?subject=" + "x" * 201,
        "mailto:a%40c@b",
        "mailto:a%0d%0aRCPT@b",
        "mailto:a%25c@b",
        "mailto:a%2@b",
        "mailto:a%ff@b",
        'mailto:"a b"@b',
        "mailto:a..b@c",
        "mailto:.a@c",
        "mailto:-oQ/tmp@",
        "mailto:-oQ@b",
        "mailto:-a@b",
        "mailto:%2da@b",
        "mailto:=?utf-8?q?=0a?=@b",
        "mailto:%3D%3Futf-8%3Fq%3F=0a%3F%3D@b",
        "mailto:a@[127.0.0.1]",
        "mailto:a@127.0.0.1",
        "mailto:a@b:25",
        "mailto:a@b/c",
        "mailto:a@-b",
        "mailto:a@b c",
        "mailto:a@b#c",
        "mailto:a@@b",
        "mailto:a!c@b\n",
        "mailto:" + "a" * 65 + "@b",
        "mailto:a@" + "b" * 254,
        "http://a@b",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(AddressRefused):
        parse_mailto(text)


@given(st.text(max_size=60))
def test_no_text_breaks_a_line_of_smtp(text: str) -> None:
    for url in (f"mailto:{text}", f"mailto:{text}@b", f"mailto:a@b?subject={text}"):
        try:
            address = parse_mailto(url)
        except AddressRefused:
            continue
        assert not set(address.mailbox) & set("\r\n\0<> ") and address.subject.isprintable()
        assert address.mailbox.count("@") == 1 and address.mailbox.isascii()
