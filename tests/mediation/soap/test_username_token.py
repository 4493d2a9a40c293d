"""UsernameToken as a client writes it."""

from base64 import b64decode
from datetime import UTC, datetime

import pytest

from mediation.model.versions import Soap, Wsa
from mediation.names import WSSE, WSU
from mediation.soap.envelopes import write_envelope
from mediation.soap.username_token import add_username_token, password_digest
from tests.rigs.envelopes import Message

CREATED = datetime(2010, 9, 16, 7, 50, 45, tzinfo=UTC)


def test_the_digest_of_onvifs_programmers_guide() -> None:
    """ONVIF Application Programmer's Guide 1.0, section 6.1.1.3."""
    nonce = b64decode("LKqI6G/AikKCQrN0zqZFlg==")
    assert password_digest(nonce, "2010-09-16T07:50:45Z", "userpassword") == (
        "tuOSpGlFlIXsozq4HFNeeGeFLEI="
    )


@pytest.mark.parametrize("soap", Soap)
def test_it_stands_before_all_other_blocks(soap: Soap) -> None:
    bare = write_envelope(soap, Wsa.V2005_08, "<wsa:To>urn:x</wsa:To>", "<a/>")
    nonce = bytes(range(16))
    written = add_username_token(bare, "a<b", "p&q", nonce=nonce, created=CREATED)
    message = Message(written)
    [header] = message.root.iter(f"{{{soap.value}}}Header")
    security, to = header
    assert security.tag == f"{{{WSSE}}}Security" and to.text == "urn:x"
    [token] = security
    said = {child.tag: child.text for child in token}
    assert said[f"{{{WSSE}}}Username"] == "a<b"
    assert said[f"{{{WSU}}}Created"] == "2010-09-16T07:50:45Z"
    digest = password_digest(nonce, "2010-09-16T07:50:45Z", "p&q")
    assert said[f"{{{WSSE}}}Password"] == digest
    assert b"p&q" not in written and b"p&amp;q" not in written


def test_what_is_no_envelope_is_refused() -> None:
    with pytest.raises(ValueError, match="envelope"):
        add_username_token(b"<a", "u", "p", nonce=b"n", created=CREATED)
