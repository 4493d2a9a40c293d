"""Reads XML files of any size as messages: each element of one name is a row, as it is written.

Spark splits the files, on any of its file systems, in a batch or a stream; Python reads nothing of
them. Spark's own format ``xml`` parses an element into columns, and cannot give its text back:
escapes, comments and prefixes are lost. ``from_xml`` makes such columns of the text that this has.
"""

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from filters.spark.paths import absolute, escape_pattern

_NAME = re.compile(r"[^\W\d][\w.-]*(:[^\W\d][\w.-]*)?")
_ATTRIBUTES = r"""(?:\s(?:[^"'>/]++|"[^"]*+"|'[^']*+'|/(?!>))*+)?"""


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

    Files are in UTF-8, compressed or not (``.gz``). An element does not hold another of its name;
    one that ends in a comment, or in CDATA, is cut there, and can then not be read.

    Args:
        reader: ``spark.read`` or ``spark.readStream``.
        place: A file or a folder, or a URL as Hadoop has it; its name is no pattern.
        row_tag: The name as it is written in the files: ``event``, ``w:event``.
        namespaces: Prefixes that the files declare above the elements, and what they stand for:
            they are declared on each.
        with_metadata: Keep the column ``_metadata``, Spark's of files.

    Raises:
        ValueError: *row_tag* is no name of an element.
    """
    from pyspark.sql import functions as F

    if not _NAME.fullmatch(row_tag):
        raise ValueError(f"{row_tag!r} is not the name of an element")
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
    declared = "".join(
        f' xmlns{f":{prefix}" if prefix else ""}="{escape(uri)}"'
        for prefix, uri in sorted((namespaces or {}).items())
    ).replace("$", r"\$")
    if declared:
        begin = f"^<{re.escape(row_tag)}"
        rows = rows.withColumn(
            "payload", F.regexp_replace("payload", begin, f"<{row_tag}{declared}")
        )
    return rows.select("payload", *(["_metadata"] if with_metadata else []))
