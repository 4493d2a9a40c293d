"""The recipes of docs/security.md: a gateway starts with each, and its rules say what the page does."""

import re
import tomllib
from pathlib import Path

import pytest

from filters import Topic
from filters.topics.topics import parse_clark
from gateway.security.identities import parse_identities
from gateway.security.rights import ALL_GRANTS, Right
from tests.conftest import ROOT
from tests.rigs.certificates import Authority
from tests.rigs.gateways import running

PAGE = (ROOT / "docs/security.md").read_text()
RECIPES = dict(
    re.findall(r"^### (Behind .*|With .*|A public .*)\n([\s\S]*?)(?=^##)", PAGE, re.MULTILINE)
)
WEATHER, PRESSES, SECRET = map(parse_clark, ("weather/storms", "presses/stopped", "secret"))

VERDICTS: dict[str, list[tuple[str, Right, Topic, bool]]] = {
    "Behind an identity provider": [
        ("role:sensors", Right.PUBLISH, WEATHER, True),
        ("role:sensors", Right.PUBLISH, SECRET, False),
        ("role:sensors", Right.SUBSCRIBE, WEATHER, False),
        ("role:readers", Right.SUBSCRIBE, SECRET, True),
        ("role:readers", Right.PUBLISH, WEATHER, False),
        ("role:event-operators", Right.OPERATE, SECRET, True),
        ("anonymous", Right.SUBSCRIBE, WEATHER, False),
    ],
    "With an authority of your own": [
        ("ca:plant", Right.SUBSCRIBE, PRESSES, True),
        ("ca:plant", Right.PUBLISH, PRESSES, False),
        ("user:press-7", Right.PUBLISH, PRESSES, True),
        ("user:press-7", Right.PUBLISH, SECRET, False),
        ("anonymous", Right.SUBSCRIBE, PRESSES, False),
    ],
    "A public gateway for strangers": [
        ("anonymous", Right.SUBSCRIBE, WEATHER, True),
        ("anonymous", Right.SUBSCRIBE, SECRET, False),
        ("anonymous", Right.PUBLISH, WEATHER, False),
        ("anonymous", Right.READ, WEATHER, False),
        ("role:publishers", Right.PUBLISH, SECRET, True),
    ],
}


def files_of(recipe: str) -> tuple[str, str]:
    """The settings and the identities of a recipe."""
    blocks = re.findall(r"(?:^ {4}.*\n|^\n)+", RECIPES[recipe], re.MULTILINE)
    texts = "".join(re.sub("^ {4}", "", block, flags=re.MULTILINE) for block in blocks)
    settings, identities = texts.split("# identities.toml\n")
    return settings, identities


def test_each_recipe_is_tried() -> None:
    assert RECIPES.keys() == VERDICTS.keys()


@pytest.mark.parametrize("recipe", VERDICTS)
async def test_a_recipe(recipe: str, tmp_path: Path) -> None:
    settings, identities = files_of(recipe)
    authority = Authority(tmp_path, "plant-ca")
    authority.issue("127.0.0.1", file="events")
    file = tmp_path / "identities.toml"
    file.write_text(identities)
    policy = parse_identities(file.read_bytes(), file).policy
    for name, right, topic, granted in VERDICTS[recipe]:
        grants = policy.grants([name])
        assert grants is not ALL_GRANTS
        assert grants.allows(right, topic) is granted, (name, right, topic)
    chosen = tomllib.loads(settings)
    # Of other hosts and ports than these tests have.
    chosen.update(host="127.0.0.1", admin_host=None, public_url=None, identities=file)
    for name in ("tls_certificate", "tls_key", "tls_client_ca"):
        if name in chosen:
            chosen[name] = tmp_path / chosen[name]
    async with running(tmp_path / "data", **chosen) as gateway:
        assert gateway.gateway.settings.identities == file
