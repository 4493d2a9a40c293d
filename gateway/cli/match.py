"""``dragoman match``."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from lxml import etree

from filters import Event, Expression, Filter, FilterError, Refused, compile, parse_document
from filters.explain import explain as explain_filter
from filters.xpath import UndeclaredPrefix
from gateway.cli.errors import CommandFailed
from gateway.cli.options import read_namespaces
from gateway.cli.output import line, note
from gateway.cli.publish import MAX_OCTETS

MATCHED, NOTHING_MATCHED, FAILED = 0, 1, 2
"""Exit codes, as grep has them."""


def match(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="XML documents; - is standard input.")
    ],
    xpath: Annotated[
        str, typer.Option(metavar="EXPR", help="XPath 1.0 that must hold for the document.")
    ],
    ns: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX=URI", help="A prefix for --xpath; repeatable."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say of each document why it matches, or why not.")
    ] = False,
) -> None:
    r"""Print the names of the XML documents that a content filter matches.

    A filter means here what it means in a subscription: each document is the payload of an event.
    Exits with 0 when some match, with 1 when none do, and with 2 when something is wrong.

    \b
    Examples:
      dragoman match --xpath '/storm[speed > 100]' *.xml
      dragoman match --xpath '//w:speed' --ns w=http://example.org/weather storm.xml
      dragoman match --explain --xpath '/storm[speed > 100]' storm.xml
      curl -s http://example.org/storm | dragoman match --xpath '/storm' -
    """
    namespaces = tuple(sorted(read_namespaces(ns).items()))
    filter = Filter(contents=(Expression(xpath, namespaces=namespaces),))
    try:
        compiled = compile(filter)
    except UndeclaredPrefix as error:
        raise CommandFailed(_undeclared(error.value, files), FAILED) from error
    except FilterError as error:
        where = f": {error.value}" if error.value else ""
        raise CommandFailed(f"--xpath: {error.text}{where}", FAILED) from error
    # Libxml2 cannot be interrupted: Ctrl-C must not wait for it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = NOTHING_MATCHED
    failed = False
    for name in files:
        try:
            event = Event(etree.tostring(_read(name), encoding="utf-8", with_tail=False))
        except CommandFailed as error:
            note(f"dragoman: {error}")
            failed = True
            continue
        matches = compiled.matches(event)
        if matches:
            code = MATCHED
        if explain:
            line(f"{_shown(name)}: {'matches' if matches else 'does not match'}")
            for child in explain_filter(filter, event).children:
                line("\n".join(f"  {text}" for text in str(child).splitlines()))
        elif matches:
            line(_shown(name))
    raise typer.Exit(FAILED if failed else code)


def _shown(name: str) -> str:
    return "(standard input)" if name == "-" else name


def _read(name: str) -> etree._Element:
    """The root element of the document *name*.

    Raises:
        CommandFailed: It cannot be read, or is none that a gateway takes.
    """
    shown = _shown(name)
    try:
        if name == "-":
            octets = sys.stdin.buffer.read(MAX_OCTETS + 1)
        else:
            with Path(name).open("rb") as file:
                octets = file.read(MAX_OCTETS + 1)
    except OSError as error:
        raise CommandFailed(f"{shown}: {error.strerror}", FAILED) from error
    if len(octets) > MAX_OCTETS:
        raise CommandFailed(f"{shown}: longer than {MAX_OCTETS} octets", FAILED)
    try:
        return parse_document(octets)
    except Refused as refused:
        raise CommandFailed(f"{shown}: {refused.text}", FAILED) from refused


def _undeclared(prefix: str, files: list[str]) -> str:
    """What to do about *prefix*; where one of *files* declares it, with its URI there."""
    text = f"--xpath: the prefix {prefix} is not declared: add --ns {prefix}="
    for uri, name in _declarations(prefix, files):
        return f"{text}{uri} (as {_shown(name)} has it)"
    return f"{text}URI"


def _declarations(prefix: str, files: list[str]) -> Iterator[tuple[str, str]]:
    for name in files:
        try:
            root = _read(name)
        except CommandFailed:
            continue  # The prefix comes first; it is asked for again.
        for element in root.iter(etree.Element):
            if prefix in element.nsmap:
                yield element.nsmap[prefix], name
                break
