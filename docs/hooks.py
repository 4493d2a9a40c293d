"""Hooks of MkDocs: pages of the site that are made of files outside ``docs/`` and of the code, and
links that lead out of ``docs/``.

A link to a file that has a page leads to that page; to any other file of the repository it becomes
the file's name, for the site is read without the repository, too.
"""

import json
import posixpath
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from dragoman.gateway import Gateway

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "helm/dragoman/README.md": "helm.md",
}
"""Files that are pages of the site, too, and where they are there."""
EXAMPLES = {
    f"examples/{path.parent.name}/README.md": f"example-{path.parent.name}.md"
    for path in sorted((ROOT / "examples").glob("*/README.md"))
}
_LINK = re.compile(r"(?<!!)\[([^][]*(?:\[[^][]*\][^][]*)*)\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```.*?^```|(?<=\n\n)(?: {4}[^\n]*\n|\n)+", re.MULTILINE | re.DOTALL)
_SHIM = "https://unpkg.com/iframe-worker/shim"
_METHODS = ("get", "post", "put", "patch", "delete")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of ``docs/``."""
    for source, target in {**PAGES, **EXAMPLES}.items():
        files.append(File.generated(config, target, content=_moved(source)))
    files.append(File.generated(config, "examples.md", content=examples_page()))
    files.append(File.generated(config, "http-api.md", content=api_page(openapi())))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead the links of a page of ``docs/`` to pages of the site."""
    if page.file.generated_by is not None:
        return markdown
    return relinked(markdown, "docs")


def _moved(source: str) -> str:
    return relinked((ROOT / source).read_text(), posixpath.dirname(source))


def relinked(markdown: str, folder: str) -> str:
    """*markdown*, a file of *folder* in the repository, with its links as the site has them."""

    def relink(found: re.Match[str]) -> str:
        text, link = found[1], found[2]
        if "://" in link or link.startswith(("#", "mailto:")):
            return found[0]
        path, _, anchor = link.partition("#")
        target = posixpath.normpath(posixpath.join(folder, path))
        page = _page_of(target)
        if page is not None:
            return f"[{text}]({page}{'#' + anchor if anchor else ''})"
        return text if "`" in text else f"{text} (`{target}`)"

    def outside_of_code(text: str) -> Iterator[str]:
        end = 0
        for block in _BLOCK.finditer(text):
            yield _LINK.sub(relink, text[end : block.start()])
            yield block[0]
            end = block.end()
        yield _LINK.sub(relink, text[end:])

    return "".join(outside_of_code(markdown))


def _page_of(target: str) -> str | None:
    """The page of the site that shows *target*, a path in the repository."""
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    pages = {**PAGES, **EXAMPLES}
    return pages.get(target) or pages.get(f"{target}/README.md")


def examples_page() -> str:
    """The list of the examples, each with the first paragraph of its own page."""
    lines = ["# Examples", "", "Each is a folder of `examples/` in the repository.", ""]
    for source, target in EXAMPLES.items():
        paragraphs = [one.strip() for one in (ROOT / source).read_text().split("\n\n")]
        title = paragraphs[0].lstrip("# ")
        first = next(one for one in paragraphs[1:] if one and not one.startswith(("#", "|", "`")))
        lines += [f"## [{title}]({target})", "", relinked(first, posixpath.dirname(source)), ""]
    return "\n".join(lines)


def openapi() -> dict[str, Any]:
    """What a gateway says of its own HTTP API."""
    with (
        Gateway("memory:") as gateway,
        urllib.request.urlopen(f"{gateway.url}/openapi.json", timeout=60) as answer,
    ):
        described: dict[str, Any] = json.load(answer)
    return described


def api_page(described: dict[str, Any]) -> str:
    """The operations that *described*, an OpenAPI document, has: one table for each first part of
    their paths."""
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, operations in described["paths"].items():
        parts = path.removeprefix("/api/v1").split("/")
        for method in _METHODS:
            if method in operations:
                groups.setdefault(parts[1], []).append((method, path, operations[method]))
    lines = [
        "# HTTP API",
        "",
        "Made of what a gateway says of itself at `/openapi.json`. `/docs` of a running one shows",
        "all of it, with every field, and sends requests; [addresses over HTTP](http.md) has the",
        "rest.",
    ]
    for name, operations in sorted(groups.items()):
        lines += ["", f"## {name}", "", "| request | answers |", "|---|---|"]
        lines += [_row(*one) for one in operations]
    return "\n".join(lines) + "\n"


def _row(method: str, path: str, operation: dict[str, Any]) -> str:
    text = operation.get("description") or operation.get("summary") or ""
    first = " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")
    query = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
    asked = f"<br>query: {', '.join(f'`{name}`' for name in query)}" if query else ""
    return f"| `{method.upper()} {path}` | {first}{asked} |"


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Take the one script that the theme would fetch from elsewhere from our own files."""
    return output.replace(_SHIM, "assets/iframe-worker.js")


def on_post_template(output_content: str, *, template_name: str, config: MkDocsConfig) -> str:
    """Do the same for the page of those who came to no page."""
    return output_content.replace(_SHIM, "assets/iframe-worker.js")
