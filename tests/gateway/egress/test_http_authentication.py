"""Challenges of HTTP and their answers, with the examples of RFC 7616 and RFC 7617."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.egress.http_authentication import (
    LONGEST,
    Authorization,
    Challenge,
    read_challenges,
    strongest,
)

NONCE = "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v"
CNONCE = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
RFC_7616 = (
    'Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=SHA-256, '
    f'nonce="{NONCE}", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS", '
    'Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=MD5, '
    f'nonce="{NONCE}", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"'
)


def answered(text: str, number: int = 0, **given: Any) -> dict[str, str]:
    """The parameters with which the example's client answers challenge *number*."""
    challenge = read_challenges(text)[number]
    user, password = given.pop("user", "Mufasa"), given.pop("password", "Circle of Life")
    one = Authorization(challenge, user, password, cnonce=given.pop("cnonce", CNONCE))
    header = one.header(given.pop("method", "GET"), given.pop("uri", "/dir/index.html"), **given)
    scheme, _, rest = header.partition(" ")
    assert scheme == "Digest"
    [found] = read_challenges(header)
    assert rest
    return dict(found.parameters)


@pytest.mark.parametrize(
    ("number", "response"),
    [
        (0, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        (1, "8ca523f5e9506fed4657c9700eebdbec"),
    ],
)
def test_the_example_of_digest(number: int, response: str) -> None:
    """RFC 7616, section 3.9.1."""
    said = answered(RFC_7616, number)
    assert said["response"] == response
    assert (said["nc"], said["qop"], said["cnonce"]) == ("00000001", "auth", CNONCE)
    assert said["opaque"] == "FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"


def test_a_user_is_hashed_where_that_is_wanted() -> None:
    """RFC 7616, section 3.4.4."""
    text = f'Digest realm="api@example.org", qop="auth", nonce="{NONCE}", userhash=true'
    said = answered(text, user="J\u00e4s\u00f8n Doe", password="Secret, or not?", uri="/doe.json")
    assert said["userhash"] == "true" and len(said["username"]) == 32
    assert "Jäsøn" not in said["username"]


def test_the_example_before_there_was_protection() -> None:
    """RFC 2617, section 3.5, without qop as RFC 2069 has it."""
    text = (
        'Digest realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", '
        'opaque="5ccc069c403ebaf9f0171e9517f40e41"'
    )
    said = answered(text, password="Circle Of Life")
    assert said["response"] == "670fd8c2df070c60b045671b8b24ff02"
    assert "nc" not in said and "algorithm" not in said


def test_each_request_is_counted() -> None:
    one = Authorization(read_challenges(RFC_7616)[0], "u", "p")
    counts = [read_challenges(one.header("POST", "/"))[0].parameters["nc"] for _ in range(3)]
    assert counts == ["00000001", "00000002", "00000003"]


def test_the_example_of_basic() -> None:
    """RFC 7617, section 2; and 2.1, in UTF-8."""
    challenge = Challenge("basic", {"realm": "WallyWorld"})
    assert Authorization(challenge, "Aladdin", "open sesame").header("GET", "/") == (
        "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    )
    assert Authorization(challenge, "test", "123\u00a3").header("GET", "/") == (
        "Basic dGVzdDoxMjPCow=="
    )


CHALLENGES: list[Any] = [
    pytest.param("", None, id="none"),
    pytest.param('Basic realm="x"', "basic", id="Basic"),
    pytest.param("basic", "basic", id="Basic without a realm"),
    pytest.param("Negotiate, NTLM", None, id="what is not known"),
    pytest.param('Negotiate abc==, Basic realm="a, Digest b"', "basic", id="a comma in quotes"),
    pytest.param('Basic realm="x", Digest realm="y", nonce="n"', "digest", id="the stronger one"),
    pytest.param('Digest realm="y", nonce="n", algorithm=MD4', None, id="an unknown algorithm"),
    pytest.param('Digest realm="y"', None, id="no nonce"),
    pytest.param('Digest realm = "a\\"b" , nonce= "n"', "digest", id="blanks and escapes"),
    pytest.param("Digest nonce=n, , ,realm=r", "digest", id="empty items"),
    pytest.param('Digest nonce="n\r\nX: y"', None, id="a line end"),
    pytest.param('Digest nonce="' + "n" * LONGEST + '"', None, id="too long"),
]


@pytest.mark.parametrize(("text", "scheme"), CHALLENGES)
def test_which_challenge_is_answered(text: str, scheme: str | None) -> None:
    chosen = strongest(read_challenges(text))
    assert (chosen.scheme if chosen else None) == scheme


@given(st.text(alphabet='Digest Basic="\\,nonce\x00é\x7f-', max_size=200))
def test_whatever_a_server_says_is_answered_or_not(text: str) -> None:
    chosen = strongest(read_challenges(text))
    if chosen is not None:
        header = Authorization(chosen, "u", "p").header("POST", "/é")
        assert header.isprintable()


def test_nothing_shown_has_the_password() -> None:
    assert "secret" not in repr(Authorization(Challenge("basic", {}), "u", "secret"))
