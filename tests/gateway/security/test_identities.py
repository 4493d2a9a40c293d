"""What the file of identities says, and what cannot be meant."""

from pathlib import Path

import pytest

from gateway.security.api_key_hashes import hash_api_key
from gateway.security.identities import (
    Identities,
    IdentitiesUnusable,
    load_identities,
    parse_identities,
)
from gateway.security.principals import Identity
from gateway.security.rights import ALL_RIGHTS, Right
from tests.rigs.cases import for_each

PATH = Path("identities.toml")
SECRET = "open sesame"


def parse(text: str) -> Identities:
    return parse_identities(text.encode(), PATH)


def test_rights_of_a_file() -> None:
    found = parse("""
        [[rights]]
        who = ["anonymous"]
        may = ["everything"]
        [[rights]]
        who = ["user:mole"]
        may = ["publish"]
        topics = ["w:weather//."]
        namespaces = { w = "http://example.org/weather" }
    """)
    assert found.policy.grants(["anonymous"]).rights == ALL_RIGHTS
    assert found.policy.grants(["user:mole"]).rights == {Right.PUBLISH}


@for_each(
    ("text", "said"),
    [
        ("x = [", "it is no TOML"),
        ("people = []", "people:"),
        ("users = 1", "users:"),
        ('[[users]]\nname = ""', "users: row 1: name:"),
        ('[[users]]\nname = "a\\nb"', "users: row 1: name:"),
        ('[[users]]\nname = "a"\n[[users]]\nname = "a"', "there are two called a"),
        (f'[[users]]\nname = "a"\npassword = "{SECRET}"', "this is no hash of Argon2id"),
        (f'[[keys]]\nuser = "a"\nhash = "{SECRET}"', "keys: row 1: hash:"),
        (f'[[keys]]\nuser = "a"\nhash = "{hash_api_key("x")}"', "row 1 is of a, who is no user"),
        ('[[certificates]]\nsubject = "CN=a"\nuser = "a"', "row 1 is of a, who is no user"),
        ('[[rights]]\nwho = []\nmay = ["read"]', "rights: row 1: who:"),
        ('[[rights]]\nwho = ["mole"]\nmay = ["read"]', "'mole' is nobody"),
        ('[[rights]]\nwho = ["user:"]\nmay = ["read"]', "'user:' is nobody"),
        ('[[rights]]\nwho = ["anonymous"]\nmay = ["fly"]', "rights: row 1: may.0:"),
        ('[[rights]]\nwho = ["anonymous"]\nmay = ["publish"]\ntopics = ["a["]', "row 1 has topics"),
        (
            '[[rights]]\nwho = ["anonymous"]\nmay = ["publish"]\ntopics = ["w:a"]',
            "row 1 has topics",
        ),
        ('[[issuers]]\nissuer = "https://id.example.org"', "issuers: row 1: audience:"),
        ('[[tenants]]\nname = "A:b"', "tenants: row 1: name:"),
        ('[[tenants]]\nname = "a"\n[[tenants]]\nname = "a"', "tenants: there are two called a"),
        ('[[users]]\nname = "a"\ntenant = "b"', "users: row 1 is of b, which is no tenant"),
        (
            '[[rights]]\nwho = ["everybody"]\nmay = ["read"]\ntenant = "b"',
            "rights: row 1 is of b, which is no tenant",
        ),
    ],
)
def test_what_is_wrong_is_said_and_no_secret_is(text: str, said: str) -> None:
    with pytest.raises(IdentitiesUnusable) as caught:
        parse(text)
    assert said in caught.value.text
    assert caught.value.text.startswith(str(PATH))
    assert SECRET not in caught.value.text


@pytest.mark.parametrize("costs", ["m=4194304,t=2,p=1", "m=19456,t=999,p=1"])
def test_a_hash_that_would_cost_too_much_to_verify(costs: str) -> None:
    hashed = f"$argon2id$v=19${costs}$MDAwMDAwMDAwMDAwMDAwMA$9uISmDn92lFbRq6MBKOR0lncA"
    with pytest.raises(IdentitiesUnusable, match="no hash"):
        parse(f'[[users]]\nname = "a"\npassword = "{hashed}"')


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(IdentitiesUnusable, match="No such file"):
        load_identities(tmp_path / "identities.toml")


def test_rules_of_a_tenant() -> None:
    """They hold for its users alone; the others hold for them, too."""
    found = parse("""
        [[tenants]]
        name = "acme"
        [[users]]
        name = "mole"
        tenant = "acme"
        [[rights]]
        who = ["everybody"]
        may = ["publish"]
        tenant = "acme"
        [[rights]]
        who = ["user:mole"]
        may = ["read"]
    """)
    for tenant, rights in (("acme", {Right.PUBLISH, Right.READ}), ("", {Right.READ})):
        names = Identity("user:mole", tenant=tenant).names
        assert found.policy.grants(names).rights == rights
