"""Makes the pictures of docs/console.md.

.venv/bin/python -m tests.gateway.web.console.screenshots
"""

import asyncio
import tempfile
from pathlib import Path

from tests.conftest import ROOT
from tests.gateway.web.console.sample_gateway import rows_of, sample_gateway
from tests.rigs.chromium import browser, new_page

FIGURES = ROOT / "docs" / "figures"
WIDTH = 1100


async def main() -> None:
    """Show three pages of a gateway with some of everything, and keep what they look like."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        browser(Path(folder)) as port,
    ):
        async with sample_gateway(Path(folder) / "data") as run, new_page(port) as page:
            await page.show("light", WIDTH)
            [failing, *_] = [
                one
                for one in await rows_of(run, "subscriptions")
                if one["delivery"]["failures"] and one["counts"]["dead"]
            ]
            for name, path in {
                "overview": "",
                "topology": "/topology",
                "subscription": f"/subscriptions/{failing['id']}",
            }.items():
                await page.go(f"{run.url}/console{path}")
                await page.screenshot(FIGURES / f"console-{name}.png")


if __name__ == "__main__":
    asyncio.run(main())
