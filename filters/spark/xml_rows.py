"""Reads XML files of any size as messages: each element of one name is a row, as it is written.

Spark splits the files, on any of its file systems, in a batch or a stream; Python reads nothing of
them. Spark's own format ``xml`` parses an element into columns, and cannot give its text back:
escapes, comments and prefixes are lost. ``from_xml`` makes such columns of the text that this has.
"""

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from filters.spark.paths import absolute, escape_pattern

MAX_CHARACTERS = 2**31 - 1
"""Characters of a string of Spark's, at most."""

_NAME = re.compile(r"[^\W\d][\w.-]*(:[^\W\d][\w.-]*)?")
_ATTRIBUTES = r"""(?:\s(?:[^"'>/]++|"[^"]*+"|'[^']*+'|/(?!>))*+)?"""
_VALUE_IN_START_TAG = r"""\G([^"'>]*+)(?:"[^"]*+"|'[^']*+')"""
"""An attribute's value, and the start tag before it, where the last one ended."""


def xml_rows(
    reader: Any,
    place: str,
    row_tag: str,
    namespaces: Mapping[str, str] | None = None,
    *,
    with_metadata: bool = False,
) -> Any:
    """Return the elements called *row_tag* in the XML files at *place*: a row each, whose column
    ``payload`` has its text.

    Files are in UTF-8, compressed or not (``.gz``); in Latin-1 the letters that ASCII has not
    become U+FFFD, in UTF-16 nothing is found. An element does not hold another of its name; one
    that ends in a comment, or in CDATA, is cut there, and can then not be read.

    Args:
        reader: ``spark.read`` or ``spark.readStream``.
        place: A file or a folder, or a URL as Hadoop has it; its name is no pattern.
        row_tag: The name as it is written in the files: ``event``, ``w:event``.
        namespaces: Prefixes that the files declare above the elements, and what they stand for:
            they are declared on each that does not declare them itself.
        with_metadata: Keep the column ``_metadata``, Spark's of files.

    Raises:
        ValueError: *row_tag* is no name of an element.
    """
    from pyspark.sql import functions as F

    check_row_tag(row_tag)
    end = f"</{row_tag}>"
    pieces = reader.option("lineSep", end).text(escape_pattern(absolute(place)))
    columns = ["value", *(["_metadata"] if with_metadata else [])]
    # Of a piece: elements without content, then the one that its end cut.
    start = f"<{re.escape(row_tag)}{_ATTRIBUTES}"
    found = F.regexp_extract_all("value", F.lit(f"(?s){start}/>|{start}>.*+"), F.lit(0))
    text = F.explode(found).alias("text")
    whole = F.when(F.col("text").rlike(f"^{start}/>$"), F.col("text"))
    rows = pieces.select(*columns, text).withColumn(
        "payload", whole.otherwise(F.concat("text", F.lit(end)))
    )
    if namespaces:
        declared = _declarations(row_tag, namespaces)
        rest = F.substring("payload", len(row_tag) + 2, MAX_CHARACTERS)
        rows = rows.withColumn("payload", F.concat(F.lit(f"<{row_tag}"), *declared, rest))
    return rows.select("payload", *(["_metadata"] if with_metadata else []))


def check_row_tag(name: str) -> None:
    """Check that `xml_rows` can look for elements called *name*.

    Raises:
        ValueError: It is not the name of an element.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of an element, as event and w:event are")


def _declarations(row_tag: str, namespaces: Mapping[str, str]) -> Iterator[Any]:
    """A column for each prefix, with its declaration; empty where the start tag has one, because no
    XML declares a prefix twice."""
    from pyspark.sql import functions as F

    # The value of an attribute may hold > and read like a declaration. Value by value, because
    # Java's regular expressions recurse for each repetition of a group.
    names = F.regexp_replace("payload", _VALUE_IN_START_TAG, '$1""')
    for prefix, uri in sorted(namespaces.items()):
        name = f"xmlns:{prefix}" if prefix else "xmlns"
        there = names.rlike(rf"^<[^>]*?\s{re.escape(name)}\s*=")
        yield F.when(there, F.lit("")).otherwise(F.lit(f' {name}="{escape(uri)}"'))
