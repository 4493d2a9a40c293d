"""Rights of whom an authority has certified: by whose key signed, not by the names in it."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

from gateway.checks.identities import check_identities
from gateway.cli import app
from gateway.security.authentication import Authentication
from gateway.security.certificate_proofs import trusted_by_name
from gateway.security.identify import Identification, TransportFacts
from gateway.security.identities import IdentitiesUnusable, parse_identities
from gateway.security.principals import Principal, owner_in
from gateway.security.rights import Right
from gateway.security.tls import client_context
from gateway.settings.settings import Settings
from tests.gateway.discovery.test_certificate_rights import over
from tests.rigs import gateways
from tests.rigs.certificates import Authority
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running
from tests.rigs.identity_provider import DOCUMENTS

Key = ec.EllipticCurvePrivateKey


def key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def certificate(
    subject: str, own: Key, issuer: str, by: Key, *, ca: bool = False, days: float = 10
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=20))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca, None), critical=True)
        # By these OpenSSL tells two authorities with one name apart.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(own.public_key()), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), False)
    )
    return builder.sign(by, SHA256())


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


ROOT, BETWEEN, OTHER, LEAF = key(), key(), key(), key()
AUTHORITY = certificate("Harbour", ROOT, "Harbour", ROOT, ca=True)
OFFICE = certificate("Office", BETWEEN, "Harbour", ROOT, ca=True)
"""Another authority with the same name, which anybody can make."""
IMPOSTOR = certificate("Harbour", OTHER, "Harbour", OTHER, ca=True)

LEAVES = {
    "issued": (certificate("mole", LEAF, "Harbour", ROOT), True),
    "by a chain": (certificate("mole", LEAF, "Office", BETWEEN), True),
    "of the same name, by another": (certificate("mole", LEAF, "Harbour", OTHER), False),
    "signed by itself": (certificate("mole", LEAF, "mole", LEAF), False),
    "expired": (certificate("mole", LEAF, "Harbour", ROOT, days=-1), False),
    "by one that is no authority": (certificate("sub", key(), "mole", LEAF), False),
    "the impostor itself": (IMPOSTOR, False),
}
FILE = """
    [[authorities]]
    name = "harbour"
    file = "harbour.pem"
    [[rights]]
    who = ["ca:harbour"]
    may = ["publish"]
    topics = ["tide//."]
"""


def identification(folder: Path, text: str = FILE) -> Identification:
    (folder / "harbour.pem").write_bytes(pem(AUTHORITY, OFFICE))
    path = folder / "identities.toml"
    return Identification(
        authentication=Authentication(parse_identities(text.encode(), path), path, DOCUMENTS)
    )


def principal(known: Identification, leaf: x509.Certificate) -> Principal:
    facts = TransportFacts("192.0.2.1", certificate=leaf.public_bytes(Encoding.DER))
    return known.of_connection(facts)


@pytest.mark.parametrize("leaf, certified", LEAVES.values(), ids=LEAVES)
def test_whom_it_has_certified(leaf: x509.Certificate, certified: bool, tmp_path: Path) -> None:
    known = identification(tmp_path)
    found = principal(known, leaf)
    assert (Right.PUBLISH in found.rights) is certified
    # What it subscribed to is delivered by the same, with nothing but its owner.
    assert (Right.PUBLISH in known.grants_of(found.owner).rights) is certified
    # The rules of its subject hold all the same.
    by_subject = FILE.replace("ca:harbour", f"cert:{leaf.subject.rfc4514_string()}")
    holds = leaf is not LEAVES["expired"][0]
    found = principal(identification(tmp_path, by_subject), leaf)
    assert (Right.PUBLISH in found.rights) is holds
    assert bool(found.name) is holds


def test_who_has_the_name_alone_is_another_owner(tmp_path: Path) -> None:
    known = identification(tmp_path)
    owners = {principal(known, LEAVES[name][0]).owner for name in list(LEAVES)[:3]}
    assert len(owners) == 2, "certified twice by one, and once by the impostor"


def test_an_authority_with_another_key_is_another(tmp_path: Path) -> None:
    known = identification(tmp_path)
    owner = principal(known, LEAVES["issued"][0]).owner
    (tmp_path / "harbour.pem").write_bytes(pem(IMPOSTOR))
    assert known.authentication is not None
    known.use(known.authentication.identities)
    assert not known.grants_of(owner).rights
    (tmp_path / "harbour.pem").write_bytes(b"spoilt")
    known.use(known.authentication.identities)
    assert not principal(known, LEAVES["issued"][0]).rights, "who cannot be read certifies nobody"


BY_NAME = FILE.replace("ca:harbour", "cert:CN=mole")
BY_ISSUED_NAME = BY_NAME.replace("[[rights]]", '[[rights]]\n    authority = "harbour"')


@pytest.mark.parametrize("leaf, certified", LEAVES.values(), ids=LEAVES)
def test_a_rule_for_a_name_that_one_authority_gave(
    leaf: x509.Certificate, certified: bool, tmp_path: Path
) -> None:
    known = identification(tmp_path, BY_ISSUED_NAME)
    found = principal(known, leaf)
    assert (Right.PUBLISH in found.rights) is certified
    assert (Right.PUBLISH in known.grants_of(found.owner).rights) is certified
    assert Right.PUBLISH not in known.grants_of("cert:CN=mole").rights, "an owner of before"


def test_names_that_several_authorities_may_write(tmp_path: Path) -> None:
    """Those between an authority and users are none more; nor is a new certificate of one."""
    again = certificate("Harbour", ROOT, "Harbour", ROOT, ca=True)
    (tmp_path / "one.pem").write_bytes(pem(AUTHORITY, OFFICE, again, LEAVES["issued"][0]))
    (tmp_path / "two.pem").write_bytes(pem(AUTHORITY, IMPOSTOR))
    (tmp_path / "harbour.pem").write_bytes(pem(AUTHORITY, OFFICE))
    named = ["certificates row 1", "rights row 1"]
    users = USERS.replace('authority = "harbour"', "")
    for text, file, rows in (
        (users + BY_NAME, "one.pem", []),
        (users + BY_NAME, "missing.pem", []),
        (users + BY_NAME, "two.pem", named),
        (USERS + BY_NAME, "two.pem", named[1:]),
        (USERS + BY_ISSUED_NAME, "two.pem", []),
        (FILE, "two.pem", []),
    ):
        found = parse_identities(text.encode(), tmp_path / "identities.toml")
        authorities = 2 if file == "two.pem" else 1
        assert trusted_by_name(found, tmp_path, [tmp_path / file]) == (rows, authorities)


async def test_a_warning_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "harbour.pem").write_bytes(pem(AUTHORITY))
    (tmp_path / "signers.pem").write_bytes(pem(IMPOSTOR))
    (tmp_path / "identities.toml").write_text(BY_NAME)
    chosen: dict[str, Any] = {
        "identities": tmp_path / "identities.toml",
        "ws_security": {"signers": tmp_path / "signers.pem"},
    }
    async with running(tmp_path, **chosen) as run:
        warned = [one for one in run.logs if one["event"] == "identity.subject-of-any-authority"]
        assert [(one["rows"], one["authorities"]) for one in warned] == [(["rights row 1"], 2)]
    report = [one for one in check_identities(Settings(**chosen)) if "authority" in one.text]
    assert ["rights row 1" in one.text for one in report] == [True]


USERS = """
    [[users]]
    name = "mole"
    [[certificates]]
    subject = "CN=mole"
    user = "mole"
    authority = "harbour"
"""


@pytest.mark.parametrize("leaf, certified", LEAVES.values(), ids=LEAVES)
def test_a_user_by_what_one_authority_alone_issues(
    leaf: x509.Certificate, certified: bool, tmp_path: Path
) -> None:
    known = identification(tmp_path, USERS + FILE)
    found = principal(known, leaf)
    assert (found.owner == "user:mole") is certified
    assert (Right.PUBLISH in known.grants_of(found.owner).rights) is certified


@pytest.mark.parametrize("who", ["ca:harbour", "role:pilots", "cert:CN=mole"])
@pytest.mark.parametrize(("of", "asked"), [("", "acme"), ("acme", ""), ("acme", "zeta")])
def test_who_is_called_like_a_user_of_another_tenant(
    tmp_path: Path, who: str, of: str, asked: str
) -> None:
    """The identity provider of a tenant names its users as it likes."""
    tenants = "".join(f'[[tenants]]\nname = "{name}"\n' for name in ("acme", "zeta"))
    row = f'name = "mole"\ntenant = "{of}"\nroles = ["pilots"]\n'
    rules = FILE.partition("[[rights]]")
    # A rule for each tenant: what the user has itself.
    rights = "".join(
        f'[[rights]]\nwho = ["{who}"]\nmay = ["publish"]\ntenant = "{tenant}"\n'
        for tenant in ("", "acme", "zeta")
    )
    text = tenants + USERS.replace('name = "mole"', row) + rules[0] + rights
    known = identification(tmp_path, text)
    assert not known.grants_of(owner_in(asked, "user:mole")).rights
    has = known.grants_of(owner_in(of, "user:mole")).rights
    assert (Right.PUBLISH in has) is not who.startswith("cert:")


@pytest.mark.parametrize(
    "old, new",
    [
        ("ca:harbour", "ca:port"),
        ('authority = "harbour"', 'authority = "port"'),
        ("[[rights]]", '[[rights]]\n    authority = "harbour"'),
        ('who = ["ca:harbour"]', 'who = ["cert:CN=mole"]\n    authority = "port"'),
        ('name = "harbour"', 'name = "Harbour Office"'),
        ('file = "harbour.pem"', ""),
    ],
)
def test_what_names_no_authority_is_refused(old: str, new: str) -> None:
    assert old in USERS + FILE
    with pytest.raises(IdentitiesUnusable):
        parse_identities((USERS + FILE).replace(old, new).encode(), Path("x"))


def test_a_certificate_that_cannot_be_read_proves_nothing(tmp_path: Path) -> None:
    known = identification(tmp_path)
    assert known.authentication is not None
    octets = ssl.PEM_cert_to_DER_cert(pem(LEAVES["issued"][0]).decode())
    assert known.authentication.of_certificate(octets[:-1]) is None


async def test_over_mutual_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway whose TLS believes both authorities, with a rule for one of them."""
    server = Authority(tmp_path)
    own, own_key = server.issue("127.0.0.1")
    (tmp_path / "harbour.pem").write_bytes(pem(AUTHORITY, OFFICE))
    (tmp_path / "clients.pem").write_bytes(pem(AUTHORITY, OFFICE, IMPOSTOR))
    (tmp_path / "identities.toml").write_text(FILE)
    chosen: dict[str, Any] = {
        "identities": tmp_path / "identities.toml", "tls_certificate": own, "tls_key": own_key,
        "tls_client_ca": tmp_path / "clients.pem",
    }  # fmt: skip
    async with running(tmp_path, **chosen) as run:
        for name, status in (
            ("issued", 202), ("by a chain", 202), ("of the same name, by another", 403),
        ):  # fmt: skip
            file = tmp_path / "client.pem"
            secret = LEAF.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            file.write_bytes(secret + pem(LEAVES[name][0]))
            shown = client_context(ca=server.certificate, certificate=file)
            monkeypatch.setattr(gateways, "exchange", over(shown))
            answer = await run.ask(Speaker(), "<e/>", "/soap/topic/tide")
            assert answer.status == status, (name, answer.body)


def test_one_that_expires_on_an_open_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS verifies it when the connection is made; each request asks whom it proves."""
    known, leaf = identification(tmp_path), LEAVES["issued"][0]
    assert principal(known, leaf).name
    now = leaf.not_valid_after_utc.timestamp()
    monkeypatch.setattr("time.time", lambda: now)
    assert not principal(known, leaf).name


@pytest.mark.parametrize(
    "leaf, code, said",
    [
        ("issued", 0, "yes: rule 1 lets ca:harbour publish"),
        ("by a chain", 0, "proves ca:"),
        ("of the same name, by another", 1, "no: none of 1 rules"),
    ],
)
def test_the_command_says_so(leaf: str, code: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "harbour.pem").write_bytes(pem(AUTHORITY, OFFICE))
    file, shown = tmp_path / "identities.toml", tmp_path / "mole.pem"
    file.write_text(FILE)
    shown.write_bytes(pem(LEAVES[leaf][0]))
    asked = ["rights", "check", str(shown), "publish", "tide", "--file", str(file)]
    result = CliRunner().invoke(app, asked)
    assert (result.exit_code, said in result.output) == (code, True), result.output
