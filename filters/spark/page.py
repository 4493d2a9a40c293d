"""A report: one HTML file that can be mailed, archived and printed. It fetches nothing, and is
well-formed XML too."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

_STYLE = """
:root { color-scheme: light dark;
  --paper: #ffffff; --ink: #1b1f24; --quiet: #59636e; --rule: #d8dee4; --wash: #f5f7f9;
  --c0: #0b62c4; --c1: #bc4c00; --c2: #1a7f37; --c3: #8250df; --c4: #a40e52; --c5: #6a5d00; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14181d; --ink: #e6eaee; --quiet: #9aa4ae; --rule: #343b43; --wash: #1d2329;
  --c0: #6cb0ff; --c1: #ff9c5a; --c2: #5fd17d; --c3: #c3a0ff; --c4: #ff85b8; --c5: #d9c64a; } }
@media print { :root { color-scheme: light;
  --paper: #ffffff; --ink: #000000; --quiet: #444444; --rule: #cccccc; --wash: #ffffff;
  --c0: #0b62c4; --c1: #bc4c00; --c2: #1a7f37; --c3: #8250df; --c4: #a40e52; --c5: #6a5d00; }
  section { break-inside: avoid; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 60rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; }
p { margin: .4rem 0; } .quiet { color: var(--quiet); font-size: .9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .6rem 0; }
th, td { padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--rule); text-align: left;
  vertical-align: top; font-variant-numeric: tabular-nums; }
th { color: var(--quiet); font-weight: 600; } td.n, th.n { text-align: right; }
td.n { white-space: nowrap; }
pre { background: var(--wash); border: 1px solid var(--rule); border-radius: 4px; padding: .6rem;
  overflow-x: auto; font-size: .8rem; white-space: pre-wrap; overflow-wrap: anywhere; }
figure { margin: .8rem 0; } svg { width: 100%; height: auto; display: block; }
.chart { max-width: 34rem; min-width: 19rem; } .wide { min-width: 52rem; }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr));
  gap: .4rem 1.4rem; }
.beside > * { min-width: 0; }
.tick { font: 11px system-ui, sans-serif; fill: var(--quiet); }
.title { font: 12px system-ui, sans-serif; fill: var(--ink); }
.grid { stroke: var(--rule); stroke-width: 1; }
.line { fill: none; stroke: var(--c); stroke-width: 2; } .mark { fill: var(--c); }
.spread { stroke: var(--c); stroke-width: 1.5; opacity: .6; }
.bars { display: grid; grid-template-columns: fit-content(50%) minmax(3rem, 1fr) max-content;
  gap: .15rem .8rem; align-items: center; font-size: .85rem; font-variant-numeric: tabular-nums; }
.bar { display: block; height: .9rem; min-width: 1px; background: var(--c); }
.bars .n { text-align: right; }
.ideal { fill: none; stroke: var(--quiet); stroke-width: 1.5; stroke-dasharray: 5 4; }
.flame { fill: var(--c); opacity: .35; }
.flame-text { font: 11px ui-monospace, monospace; fill: var(--ink); }
@media (max-width: 36rem) { .chart .tick { font-size: 14px; } .chart .title { font-size: 15px; } }
.legend span { margin-right: 1.2rem; white-space: nowrap; font-size: .85rem; }
.key { display: inline-block; width: .9rem; height: .9rem; margin-right: .35rem;
  vertical-align: -.1rem; background: var(--c); border-radius: 2px; }
.ideal-key { background: none; height: 0; border-top: 2px dashed var(--quiet);
  vertical-align: .25rem; border-radius: 0; }
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); }
.c3 { --c: var(--c3); } .c4 { --c: var(--c4); } .c5 { --c: var(--c5); }
"""


def page(title: str, summary: str, sections: Iterable[str]) -> str:
    """A whole document; *summary* and *sections* are HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1>{summary}{''.join(sections)}</body></html>\n"
    )


def write(text: str, path: Path) -> None:
    """Write a document.

    Raises:
        OSError: It cannot be written; names the file, also where the disk is full.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def section(title: str, *parts: str, note: str = "") -> str:
    """A heading, what the figures mean (*note*, plain text), and HTML."""
    said = f'<p class="quiet">{escape(note)}</p>' if note else ""
    figures = "".join(f"<figure>{part}</figure>" for part in parts)
    return f"<section><h2>{escape(title)}</h2>{said}{figures}</section>"


def beside(*charts: str) -> str:
    """Charts next to each other where the window has room for two, else below each other."""
    return f'<div class="beside">{"".join(f"<div>{chart}</div>" for chart in charts)}</div>'


def table(names: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """Cells of plain text; all columns but the *left* first ones are numbers."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        kinds = ("" if n < left else ' class="n"' for n in range(len(texts)))
        return "".join(
            f"<{tag}{kind}>{escape(text)}</{tag}>" for kind, text in zip(kinds, texts, strict=True)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = cells("th", names)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and what they are, one a line."""
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in pairs
    )
    return f'<div class="scroll"><table>{rows}</table></div>'


def plural(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
