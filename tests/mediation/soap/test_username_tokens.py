"""UsernameTokens as the profile has them, and what it does not have."""

import base64
from datetime import UTC, datetime

import pytest

from filters import Reason
from mediation.model.errors import MediationError
from mediation.model.versions import Soap, Wsa
from mediation.names import WSSE, WSU
from mediation.soap.envelopes import write_envelope
from mediation.soap.username_tokens import (
    UsernameToken,
    add_username_token,
    digest_of,
    read_username_token,
    without_passwords,
)
from tests.rigs.envelopes import Message

PROFILE = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-username-token-profile-1.0"
# ONVIF, Application Programmer's Guide 1.0, section 6.1.1.3.
NONCE, CREATED, PASSWORD = "LKqI6G/AikKCQrN0zqZFlg==", "2010-09-16T07:50:45Z", "userpassword"
DIGEST = "tuOSpGlFlIXsozq4HFNeeGeFLEI="


def security(*parts: str, further: str = "") -> bytes:
    """An envelope with a UsernameToken of *parts*, and *further* content of its header."""
    token = f"<w:UsernameToken>{''.join(parts)}</w:UsernameToken>" if parts else ""
    return f"""<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:w="{WSSE}"
        xmlns:u="{WSU}"><s:Header><w:Security s:mustUnderstand="true">{token}</w:Security>{further}
        </s:Header><s:Body><event/></s:Body></s:Envelope>""".encode()


USER = "<w:Username>user</w:Username>"
TEXT = "<w:Password>secret</w:Password>"
DIGESTED = f'<w:Password Type="{PROFILE}#PasswordDigest">{DIGEST}</w:Password>'
FRESH = f"<w:Nonce>{NONCE}</w:Nonce><u:Created>{CREATED}</u:Created>"


def test_a_digest_of_the_guide_of_onvif() -> None:
    token = read_username_token(security(USER, DIGESTED, FRESH))
    assert token is not None
    assert (token.user, token.password) == ("user", None)
    assert token.moment == datetime(2010, 9, 16, 7, 50, 45, tzinfo=UTC)
    assert token.has_digest_of(PASSWORD)
    assert not token.has_digest_of(PASSWORD + " ")
    assert digest_of(PASSWORD, base64.b64decode(NONCE), CREATED) == base64.b64decode(DIGEST)
    assert "secret" not in repr(UsernameToken("user", "secret"))


@pytest.mark.parametrize("type_", ["", f' Type="{PROFILE}#PasswordText"'])
def test_a_password(type_: str) -> None:
    token = read_username_token(security(USER, f"<w:Password{type_}> s p </w:Password>"))
    assert token == UsernameToken("user", " s p ")


SPELLINGS = {
    "text": TEXT,
    "digest": DIGESTED,
    "references": "<w:Password>&#115;ecret</w:Password >",
    "a character section": "<w:Password><![CDATA[</w:Password>secret]]></w:Password>",
    "an attribute that ends nothing": "<w:Password a='/w:Password>' b=\">\">secret/></w:Password>",
    "a comment": "<w:Password>sec<!-- </w:Password> -->ret</w:Password\n>",
    "a prefix of its own": f'<o:Password xmlns:o="{WSSE}">secret</o:Password>',
    "no prefix": f'<Password xmlns="{WSSE}">secret</Password>',
    "elements in it": "<w:Password><w:Password>secret</w:Password>secret</w:Password>",
    "deeper": "<u:a><w:Password>secret</w:Password></u:a>",
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("spelt", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("soap", Soap)
def test_a_password_is_cut_out(soap: Soap, spelt: str, encoding: str) -> None:
    """Octet for octet, of each Security header for us alone: whoever else is meant needs its own,
    and an event is nobody's password."""
    others = f'<w:Security s:{"actor" if soap is Soap.V1_1 else "role"}="urn:x">{TEXT}</w:Security>'
    around = "<!-- é <w:Password>é</w:Password> -->"
    parts = ("<w:Security><w:UsernameToken>", USER, "<u:b/></w:UsernameToken></w:Security>")

    def envelope(password: str) -> str:
        mine = f"{parts[0]}{parts[1]}{password}{parts[2]}"
        return (
            f'<s:Envelope xmlns:s="{soap.value}" xmlns:w="{WSSE}" xmlns:u="{WSU}">{around}'
            f"<s:Header>{others}{mine}{around}{others}</s:Header><s:Body><e>{TEXT}</e></s:Body>"
            "</s:Envelope>"
        )

    cut = without_passwords(envelope(spelt).encode(encoding))
    outer = "<u:a></u:a>" if spelt == SPELLINGS["deeper"] else ""
    assert cut.decode() == envelope(outer)
    assert without_passwords(cut) == cut


@pytest.mark.parametrize("parts", [(), (USER,), (USER, "<w:Password/>"), (USER, "<Password/>")])
def test_nothing_to_cut_out(parts: tuple[str, ...]) -> None:
    assert without_passwords(security(*parts)) == security(*parts)


def test_a_header_for_others_is_not_for_us() -> None:
    there = security(USER, TEXT).replace(b"<w:Security ", b'<w:Security s:role="urn:x:other" ')
    assert read_username_token(there) is None
    assert read_username_token(security().replace(b"w:Security", b"w:Other")) is None


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((), Reason.TOKEN_UNSUPPORTED),
        ((USER,), Reason.TOKEN_INVALID),
        ((TEXT,), Reason.TOKEN_INVALID),
        (("<w:Username/>", TEXT), Reason.TOKEN_INVALID),
        ((USER, USER, TEXT), Reason.TOKEN_INVALID),
        ((USER, TEXT, TEXT), Reason.TOKEN_INVALID),
        ((f"<w:Username>{'x' * 2000}</w:Username>", TEXT), Reason.TOKEN_INVALID),
        ((USER, DIGESTED), Reason.TOKEN_INVALID),
        ((USER, DIGESTED, f"<w:Nonce>{NONCE}</w:Nonce>"), Reason.TOKEN_INVALID),
        ((USER, DIGESTED, f"<u:Created>{CREATED}</u:Created>"), Reason.TOKEN_INVALID),
        ((USER, DIGESTED.replace(DIGEST, "!"), FRESH), Reason.TOKEN_INVALID),
        ((USER, DIGESTED, FRESH.replace(NONCE, "AAAA")), Reason.TOKEN_INVALID),
        ((USER, DIGESTED, FRESH.replace(NONCE, "A" * 96)), Reason.TOKEN_INVALID),
        ((USER, DIGESTED, FRESH.replace(CREATED, "yesterday")), Reason.TOKEN_INVALID),
        ((USER, DIGESTED.replace("Digest", "Other"), FRESH), Reason.TOKEN_UNSUPPORTED),
    ],
)
def test_what_the_profile_does_not_have(parts: tuple[str, ...], reason: Reason) -> None:
    with pytest.raises(MediationError) as caught:
        read_username_token(security(*parts))
    assert caught.value.reason is reason


@pytest.mark.parametrize("further", [f'<w:Security xmlns:w="{WSSE}"/>'])
def test_several_headers(further: str) -> None:
    with pytest.raises(MediationError, match="several"):
        read_username_token(security(USER, TEXT, further=further))
    twice = f"{USER}{TEXT}</w:UsernameToken><w:UsernameToken>{USER}{TEXT}"
    with pytest.raises(MediationError, match="several"):
        read_username_token(security(twice))


MOMENT = datetime(2010, 9, 16, 7, 50, 45, tzinfo=UTC)


@pytest.mark.parametrize("soap", Soap)
def test_it_stands_before_all_other_blocks(soap: Soap) -> None:
    bare = write_envelope(soap, Wsa.V2005_08, "<wsa:To>urn:x</wsa:To>", "<a/>")
    nonce = bytes(range(16))
    written = add_username_token(bare, "a<b", "p&q", nonce=nonce, created=MOMENT)
    message = Message(written)
    [header] = message.root.iter(f"{{{soap.value}}}Header")
    security, to = header
    assert security.tag == f"{{{WSSE}}}Security" and to.text == "urn:x"
    [token] = security
    said = {child.tag: child.text for child in token}
    assert said[f"{{{WSSE}}}Username"] == "a<b"
    assert said[f"{{{WSU}}}Created"] == "2010-09-16T07:50:45Z"
    found = read_username_token(written)
    assert found is not None and found.has_digest_of("p&q")
    assert b"p&q" not in written and b"p&amp;q" not in written


def test_what_is_no_envelope_is_refused() -> None:
    with pytest.raises(ValueError, match="envelope"):
        add_username_token(b"<a", "u", "p", nonce=b"n", created=MOMENT)
