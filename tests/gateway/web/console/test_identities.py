"""Users, keys and rules in the console: an administrator adds and removes them."""

import re
from pathlib import Path

import pytest

from gateway.identities.file_editing import create_identities
from tests.rigs.chromium import Page
from tests.rigs.gateways import Running, running


async def fill(page: Page, run: Running, table: str, /, **given: str) -> None:
    """Add something by its form."""
    await page.go(f"{run.url}/console/add/{table}")
    for field, value in given.items():
        await page.do(f"document.querySelector('main [name={field}]').value = {value!r}")
    await page.do("document.querySelector('main form button').click()")
    await page.until("document.title.startsWith('Added')")


@pytest.mark.slow
async def test_in_a_browser(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "identities.toml"
    key = create_identities(file)
    async with running(tmp_path / "data", identities=file) as run:
        await page.go(f"{run.url}/console/users")
        await page.do(f"document.querySelector('[name=secret]').value = {key!r}")
        await page.do("document.querySelector('main form button').click()")
        await page.until("document.title.startsWith('Users')")
        await fill(page, run, "users", name="maria", roles="nurses; desk")
        await fill(page, run, "keys", user="maria", may="publish", days="30")
        text = str(await page.evaluate("document.querySelector('main').innerText"))
        [maria] = re.findall(r"drg_[\w-]+", text)
        assert "shown this once" in text
        await fill(page, run, "rights", who="role:nurses", may="publish; subscribe", topics="a; b")
        found = run.gateway.application
        [stored] = [room.stored for room in found.rooms if hasattr(room, "stored")]
        [rule] = stored.in_force.file.rights[1:] + stored.in_force.identities.rights[1:]
        assert (rule.who, rule.may, rule.topics) == (
            ["role:nurses"], ["publish", "subscribe"], ["a", "b"]
        )  # fmt: skip
        assert stored.in_force.identities.user_of_name["maria"].roles == ["nurses", "desk"]
        answer = await run.request(
            "POST", "/events/topic/a", b"{}", content_type="application/json", x_api_key=maria,
            ce_id="1", ce_source="/s", ce_type="t", ce_specversion="1.0",
        )  # fmt: skip
        assert answer.status == 202, answer.body
        for name, title in (("users", "Users"), ("keys", "Keys"), ("rights", "Rules")):
            await page.go(f"{run.url}/console/{name}")
            await page.says("user:administrator")
            await page.says(title)
            for width in (400, 1300):
                await page.show("light", width)
                assert not await page.findings()
                wider = "document.documentElement.scrollWidth - window.innerWidth"
                assert await page.evaluate(wider) <= 0, (name, width)
        await page.go(f"{run.url}/console/users")
        await page.do("document.querySelector('main [value=maria]').click()")
        await page.do(
            "[...document.querySelectorAll('main button')]"
            ".find((one) => one.innerText.startsWith('Remove')).click()"
        )
        await page.until("document.body.innerText.includes('goes with its keys')")
        await page.do("document.querySelector('main form button').click()")
        await page.until("!document.body.innerText.includes('goes with its keys')")
        assert "maria" not in stored.in_force.identities.user_of_name
        assert len(stored.in_force.identities.keys) == 1
