"""What is added to lists from the console."""

from pathlib import Path

import pytest

from tests.gateway.web.console.sample_gateway import rows_of
from tests.gateway.web.console.test_pages import found, get, post
from tests.rigs.gateways import running

ADDED = [
    ("sources", {"url": "http://127.0.0.1:9/", "topic": "w:storms", "ns": "w=urn:w"}, "url"),
    ("channels", {"name": "lab", "xpath": "//w:a", "ns": "w=urn:w"}, "name"),
    ("links", {"url": "http://127.0.0.1:9/soap", "spec": "wsn-1.3", "topic": "storms"}, "url"),
    ("relays", {"location": "http://127.0.0.1:9/service"}, "location"),
]


@pytest.mark.parametrize(("table", "form", "field"), ADDED)
async def test_it_is_added(tmp_path: Path, table: str, form: dict[str, str], field: str) -> None:
    async with running(tmp_path) as run:
        [leads] = found(await get(run, f"/{table}"), "//main//p[@class='forms']/a[1]/@href")
        page = await get(run, leads.removeprefix("/console"))
        assert set(form) <= set(found(page, "//main//input/@name"))
        assert found(page, "//main//input[@required]/@name") == [field]
        answer = await post(run, f"/add/{table}", form)
        assert answer.status == 200 and b"<h1>Added" in answer.body
        [row] = await rows_of(run, table)
        assert row[field] == form[field]
        refused = await post(run, f"/add/{table}", {field: "\0"})
        assert refused.status == 422 and b'role="alert"' in refused.body
        foreign = await post(run, f"/add/{table}", form, {"sec_fetch_site": "cross-site"})
        assert foreign.status == 403
        assert len(await rows_of(run, table)) == 1


async def test_what_is_not_added(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        assert (await post(run, "/add/deadletters", {})).status == 404
        wrong = await post(run, "/add/channels", {"name": "lab", "ns": "w"})
        assert wrong.status == 422 and b"prefixes are written" in wrong.body
        assert found(wrong, "//input[@name='name']/@value") == ["lab"]
    async with running(tmp_path, console="read") as run:
        assert b"Add a" not in (await get(run, "/channels")).body
        assert (await post(run, "/add/channels", {"name": "lab"})).status == 403
        assert (await run.admin("GET", "/console/add/channels")).status == 403
