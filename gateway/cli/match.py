"""``dragoman match``."""

import signal
from collections.abc import Callable, Iterator
from typing import Annotated

import typer
from lxml import etree

from filters import (
    Event,
    Expression,
    Filter,
    FilterError,
    FilterSet,
    Refused,
    check_engine,
    compile,
    parse_document,
)
from filters.explaining import explain as explain_filter
from filters.xpath import UndeclaredPrefix
from gateway.cli.documents import read_document
from gateway.cli.errors import CommandFailed
from gateway.cli.options import read_namespaces, undeclared
from gateway.cli.output import line, note

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
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The engine that matches: native, reference, or an installed one."
        ),
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
        matches_event = compiled.matches if engine is None else _matching(filter, engine)
    except UndeclaredPrefix as error:
        declared = _declarations(error.value, files)
        raise CommandFailed(undeclared(error.value, declared), FAILED) from error
    except FilterError as error:
        raise CommandFailed(f"--xpath: {error.text}", FAILED) from error
    except ValueError as error:
        raise CommandFailed(f"--engine: {error}", FAILED) from error
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
        matches = matches_event(event)
        if matches:
            code = MATCHED
        if explain:
            line(f"{_shown(name)}: {'matches' if matches else 'does not match'}")
            for child in explain_filter(filter, event).children:
                line("\n".join(f"  {text}" for text in str(child).splitlines()))
        elif matches:
            line(_shown(name))
    raise typer.Exit(FAILED if failed else code)


def _matching(filter: Filter, engine: str) -> Callable[[Event], bool]:
    """What says by *engine* whether *filter* matches an event.

    Raises:
        ValueError: There is no such engine.
    """
    check_engine(engine)
    filters: FilterSet[str] = FilterSet(engine=engine)
    filters.add("", filter)
    return lambda event: bool(filters.match(event))


def _shown(name: str) -> str:
    return "(standard input)" if name == "-" else name


def _read(name: str) -> etree._Element:
    """The root element of the document *name*.

    Raises:
        CommandFailed: It cannot be read, or is none that a gateway takes.
    """
    octets = read_document(name, _shown(name), FAILED)
    try:
        return parse_document(octets)
    except Refused as refused:
        raise CommandFailed(f"{_shown(name)}: {refused.text}", FAILED) from refused


def _declarations(prefix: str, files: list[str]) -> Iterator[tuple[str, str]]:
    """The URIs that *files* declare for *prefix*, each with the file's name as people read it."""
    for name in files:
        try:
            root = _read(name)
        except CommandFailed:
            continue  # The prefix comes first; it is asked for again.
        for element in root.iter(etree.Element):
            if prefix in element.nsmap:
                yield element.nsmap[prefix], _shown(name)
                break
