"""The site of the documents: links lead to pages, and it is whole without a net."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT
from tests.rigs.chromium import CHROMIUM, opened


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("folder", "written", "shown"),
    [
        ("", "[a](docs/guide.md#limits)", "[a](guide.md#limits)"),
        ("", "[a](CHANGELOG.md)", "[a](changelog.md)"),
        ("docs", "[a](guide.md)", "[a](guide.md)"),
        ("docs", "[a](../README.md#why)", "[a](index.md#why)"),
        ("docs", "[a](../examples/outbox)", "[a](example-outbox.md)"),
        ("docs", "[a](../LICENSE)", "a (`LICENSE`)"),
        ("docs", "[`a.toml`](../pyproject.toml)", "`a.toml`"),
        ("helm/dragoman", "[a](../../docs/tls.md)", "[a](tls.md)"),
        ("docs", "![a](figures/a.png)", "![a](figures/a.png)"),
        ("", "[a](https://example.org/docs/a.md)", "[a](https://example.org/docs/a.md)"),
        ("", "[a](#why)", "[a](#why)"),
        ("", "```sh\n[a](docs/guide.md)\n```", "```sh\n[a](docs/guide.md)\n```"),
        ("", "Text:\n\n    [a](docs/tls.md)\n", "Text:\n\n    [a](docs/tls.md)\n"),
        ("", "- one\n    [a](docs/tls.md)", "- one\n    [a](tls.md)"),
    ],
)
def test_links_lead_to_pages(hooks: ModuleType, folder: str, written: str, shown: str) -> None:
    assert hooks.relinked(written, folder) == shown


def test_operations_are_listed(hooks: ModuleType) -> None:
    query = {"in": "query", "name": "state"}
    get = {"description": "List a|b.\n\nMore.", "parameters": [query]}
    page = hooks.api_page({"paths": {"/api/v1/spool": {"get": get, "parameters": []}}})
    assert "## spool\n" in page
    assert "| `GET /api/v1/spool` | List a\\|b.<br>query: `state` |" in page


def test_every_page_has_its_place() -> None:
    # MkDocs says so, too, but only where the site is built.
    listed = set(re.findall(r"[\w-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    files = {path.name for path in (ROOT / "docs").glob("*.md")}
    examples = {f"example-{path.parent.name}.md" for path in ROOT.glob("examples/*/README.md")}
    made = {"index.md", "architecture.md", "changelog.md", "contributing.md", "helm.md"}
    made |= {"examples.md", "http-api.md"}
    assert listed == files | examples | made


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.mark.nightly
async def test_the_site_is_read_and_searched_as_files(site: Path, tmp_path: Path) -> None:
    fetched = re.compile(
        r"""(?:<script[^>]*src|<link[^>]*href|<img[^>]*src)=["']?(https?:[^"'> ]*)"""
    )
    foreign = {one for path in site.rglob("*.html") for one in fetched.findall(path.read_text())}
    assert foreign == set()
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    async with opened(f"file://{site}/index.html", tmp_path / "profile") as page:
        await page.until("document.readyState == 'complete'")
        await page.evaluate("document.querySelector('.md-search__input').focus()")
        await page.write("probation")
        await page.until("document.querySelectorAll('.md-search-result__item').length > 0")
        assert "probation_per_minute" in await page.evaluate(
            "document.querySelector('.md-search-result__list').innerText"
        )
        assert page.complaints == []
