"""With whom tokens and keys are exchanged: nobody in between reads or writes them."""

import json
from collections.abc import Mapping

import pytest
from joserfc.jwk import ECKey

from gateway.security.issuer_documents import IssuerDocuments, is_private
from gateway.security.issuer_keys import MOST, usable_keys

URLS = [
    ("https://id.example.org/token", True),
    ("https://10.0.0.1/token", True),
    ("http://127.0.0.1:8080/token", True),
    ("http://[::1]:8080/token", True),
    ("http://[::ffff:127.0.0.1]/token", True),
    ("http://LOCALHOST/token", True),
    ("http://id.example.org/token", False),
    ("http://127.example.org/token", False),
    ("http://localhost.example.org/token", False),
    ("http://localhost@id.example.org/token", False),
    ("http://10.0.0.1/token", False),
    ("http://[/token", False),
    ("ftp://localhost/token", False),
    ("https:///token", False),
    ("", False),
]


@pytest.mark.parametrize(("url", "private"), URLS)
async def test_nothing_is_asked_in_the_clear(url: str, private: bool) -> None:
    """Neither keys nor tokens, nor what an identity provider says of itself."""
    asked = []

    async def ask(
        url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        asked.append(url)
        return json.dumps(
            {"issuer": url.removesuffix("/.well-known/openid-configuration")}
        ).encode()

    documents = IssuerDocuments(ask)
    assert is_private(url) is private
    for exchange in (
        lambda: documents.fetch(url),
        lambda: documents.send_form(url, {}, {}),
        lambda: documents.discover(url),
    ):
        if private:
            await exchange()
        else:
            with pytest.raises(ValueError, match="https"):
                await exchange()
    assert len(asked) == (3 if private else 0)


def test_an_issuer_has_few_keys() -> None:
    row = ECKey.generate_key("P-256").as_dict(private=False)
    rows = [{**row, "kid": str(number)} for number in range(MOST + 50)]
    assert len(usable_keys({"keys": rows}).keys) == MOST
