"""Credentials that a package verifies: the one of docs/security.md, installed beside the gateway."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.identities.file_editing import create_identities
from gateway.security.identities import IdentitiesUnusable, load_identities
from tests.conftest import ROOT
from tests.rigs.envelopes import Speaker, fresh_id
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

SPEAKER = Speaker()
PAGE = (ROOT / "docs/security.md").read_text()
[PROGRAM] = re.findall(
    r"```python\n(from gateway.security.identity_plugins .*?)```", PAGE, re.DOTALL
)
OTHERS = """
class Failing:
    def __init__(self, settings):
        pass

    async def verify(self, headers, address):
        if "x-away" in headers:
            raise OSError("the portal is away")
        if "x-odd" in headers:
            return VerifiedUser("\\n")
        return None


def make_wrongly(settings):
    raise KeyError("realm")


def make_nothing(settings):
    return None
"""
ENTRIES = """
[dragoman.identity]
badge = badges:make
failing = badges:Failing
wrong = badges:make_wrongly
nothing = badges:make_nothing
"""
RULES = """
[[tenants]]
name = "acme"

[[verifiers]]
name = "failing"

[[verifiers]]
name = "badge"
settings = {{ secret = "s3" }}
tenant = "{tenant}"

[[rights]]
who = ["user:mole"]
may = ["publish"]
tenant = "{tenant}"

[[rights]]
who = ["role:staff"]
may = ["subscribe", "manage"]
tenant = "{tenant}"
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    about = site / "badges-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "badges.py").write_text(PROGRAM + OTHERS)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: badges\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(site))


async def publish(run: Running, headers: Mapping[str, str]) -> int:
    envelope = SPEAKER.envelope("<a><n>1</n></a>", message_id=fresh_id())
    return (await run.post(envelope, type=SPEAKER.type, **headers)).status


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("tenant", ["", "acme"])
async def test_whom_a_package_verifies_has_a_users_rights(tenant: str, tmp_path: Path) -> None:
    file = tmp_path / "identities.toml"
    administrator = create_identities(file)
    file.write_text(file.read_text() + RULES.format(tenant=tenant))
    async with running(tmp_path / "data", identities=file) as run:
        statuses = {
            "mole:s3": 202,  # By its rule.
            "vole:s3": 403,  # Verified, and may not.
            "mole:s4": 401,
        }
        for badge, status in statuses.items():
            assert await publish(run, {"x_badge": badge}) == status, badge
        assert await publish(run, {}) == 401
        assert await publish(run, {"x_away": "1"}) == 503
        assert await publish(run, {"x_odd": "1"}) == 503
        assert await publish(run, {"authorization": f"Bearer {administrator}"}) == 202
        box = await run.request(
            "POST", "/mailboxes", b"{}", content_type="application/json", x_badge="vole:s3"
        )
        assert box.status == 201, box.body


@pytest.mark.usefixtures("installed")
async def test_who_guesses_waits(tmp_path: Path) -> None:
    file = tmp_path / "identities.toml"
    create_identities(file)
    file.write_text(file.read_text() + RULES.format(tenant=""))
    async with running(tmp_path / "data", identities=file) as run:

        async def is_bounded() -> bool:
            return await publish(run, {"x_badge": "mole:guess"}) == 429

        await until(is_bounded)
        assert await publish(run, {"x_badge": "mole:s3"}) == 429, "nor does a lucky guess count"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing", "verifiers: no package verifies credentials as 'missing'"),
        ("wrong", "verifiers: 'wrong' cannot be used: KeyError: 'realm'"),
        ("nothing", "verifiers: 'nothing' cannot be used: what it returns has no verify()"),
    ],
)
def test_one_that_cannot_be_used_is_said(name: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "identities.toml"
    file.write_text(f'[[verifiers]]\nname = "{name}"\n')
    with pytest.raises(IdentitiesUnusable) as raised:
        load_identities(file)
    assert says in raised.value.text
