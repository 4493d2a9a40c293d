"""Schemas for Spark and Arrow from one text."""

from typing import Any


def arrow_schema(ddl: str) -> Any:
    """The Arrow schema of *ddl*, columns in Spark's DDL with one blank between name and type; for
    the few types that we use. Timestamps are microseconds in UTC."""
    import pyarrow

    text = pyarrow.string()
    types = {
        "string": text,
        "int": pyarrow.int32(),
        "long": pyarrow.int64(),
        "timestamp": pyarrow.timestamp("us", tz="UTC"),
        "map<string,string>": pyarrow.map_(text, text),
        "array<string>": pyarrow.list_(text),
    }
    pairs = (column.split() for column in ddl.split(", "))
    return pyarrow.schema([(name, types[type]) for name, type in pairs])
