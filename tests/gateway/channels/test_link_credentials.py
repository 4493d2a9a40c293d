"""Links to gateways with identities: by an API key, by a user and a password, from each place."""

import json
from pathlib import Path
from typing import Any

import pytest

from mediation.client import LEASED, SPECS
from mediation.model.versions import Soap, Version
from tests.gateway.channels.test_channels import api, event
from tests.gateway.sources.test_credentials import guarded_gateway, publish
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

SPOKEN = [*LEASED, *(version for version, spec in SPECS.items() if isinstance(spec.form, Soap))]
PLACES = ["a token of the store", "a token of the settings", "a password of the store",
          "a password of the settings"]  # fmt: skip


async def stands(run: Running, state: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    async def holds() -> bool:
        found = (await api(run, "GET", "/links"))["links"]
        seen.update(found[0] if found else {})
        return seen.get("state") == state

    await until(holds)
    return seen


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("version", SPOKEN, ids=lambda version: version.value)
async def test_a_link_to_a_gateway_with_identities(
    tmp_path: Path, version: Version, place: str
) -> None:
    async with Consumers() as consumers, guarded_gateway(tmp_path / "a") as (other, key):
        secret, token = tmp_path / "secret", "token" in place
        secret.write_text(key if token else "pass-word")
        asked: dict[str, Any] = {"url": f"{other.url}/soap", "spec": version.value}
        if version not in LEASED:
            asked["topic"] = "storms"
        rows = []
        if "settings" in place:
            shown: dict[str, Any] = {"user": "other", "password_file": secret, "allow_basic": True}
            if token:
                shown = {"credential": {"kind": "bearer", "secret_file": secret}}
            rows = [{**asked, **shown}]
        async with running(tmp_path / "b", links=rows) as run:
            if not rows:
                shown = {"user": "other", "password": "pass-word", "allow_basic": True}
                await api(run, "POST", "/links", **asked, **({"bearer": key} if token else shown))
                again = await run.api(
                    "POST", "/links", json.dumps({**asked, "bearer": "x"}).encode()
                )
                assert b"such a link already" in again.body
            link = await stands(run, "live")
            assert link["credential"] == ("bearer" if token else "password")
            assert link["user"] == (None if token else "other")
            heard = consumers.at("/here")
            await run.subscribe(Speaker(), Speaker().wse_subscribe(heard.url))
            if version in LEASED:
                answer = await other.post(event("resdata"), "/soap", authorization=f"Bearer {key}")
                assert answer.status == 200, answer.body
            else:
                await publish(other, "storms", 7, key)
            await heard.have(1)
        kept = b"".join(one.read_bytes() for one in (tmp_path / "b").rglob("*") if one.is_file())
        assert key.encode() not in kept and b"pass-word" not in kept
        if rows:  # It is the same link after another start.
            async with running(tmp_path / "b", links=rows) as run:
                assert (await stands(run, "live"))["id"] == link["id"]
                assert len((await api(run, "GET", "/links"))["links"]) == 1


async def test_without_a_credential_there_is_none(tmp_path: Path) -> None:
    async with guarded_gateway(tmp_path / "a") as (other, _), running(tmp_path / "b") as run:
        await api(run, "POST", "/links", url=f"{other.url}/soap")
        link = await stands(run, "backing-off")
        assert "--bearer-file" in link["last_error"]
