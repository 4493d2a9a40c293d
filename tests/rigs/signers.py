"""Signers of messages, with certificates of a private authority, and envelopes that they sign."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from lxml import etree

from mediation.names import WSSE, WSU
from mediation.ws_security import Trust, read_trust
from mediation.ws_security.signing import SigningKey, read_signing_key, sign_envelope
from tests.rigs.certificates import Authority
from tests.rigs.envelopes import S12, WSA10, fresh_id

ENVELOPE = (
    f'<s:Envelope xmlns:s="{S12.value}" xmlns:wsa="{WSA10}"><s:Header>{{headers}}</s:Header>'
    "<s:Body>{body}</s:Body></s:Envelope>"
)


def envelope(body: str = '<e xmlns="urn:e">1</e>', headers: str | None = None) -> bytes:
    """An envelope with headers of WS-Addressing."""
    if headers is None:
        headers = f"<wsa:MessageID>{fresh_id()}</wsa:MessageID><wsa:Action>urn:e</wsa:Action>"
    return ENVELOPE.format(headers=headers, body=body).encode()


@dataclass
class Signers:
    """An authority, and who has a certificate of it."""

    authority: Authority
    files: Mapping[str, tuple[Path, Path]]

    @classmethod
    def make(cls, folder: Path, *names: str) -> "Signers":
        authority = Authority(folder)
        return cls(authority, {name: authority.issue(name) for name in names})

    @cached_property
    def trust(self) -> Trust:
        return read_trust(self.authority.certificate.read_bytes())

    def key(self, name: str) -> SigningKey:
        certificate, key = self.files[name]
        return read_signing_key(key.read_bytes(), certificate.read_bytes())

    def signed(self, name: str, octets: bytes, *, now: datetime | None = None) -> bytes:
        """*octets*, signed by *name*."""
        return sign_envelope(octets, self.key(name), unique="u", now=now or datetime.now(UTC))


def part(root: etree._Element, name: str) -> etree._Element:
    """The only element with a local *name*."""
    [found] = [one for one in root.iter(etree.Element) if etree.QName(one).localname == name]
    return found


NAMESPACES = {"s": S12.value, "wsa": WSA10, "wsse": WSSE, "wsu": WSU}
