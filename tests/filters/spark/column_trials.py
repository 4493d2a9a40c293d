"""What functions for columns give, in a session of either kind: `python -m ... URL` prints it for one
of Spark Connect, which wants a process of its own."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from filters.dialects import TOPIC_FULL
from filters.spark import functions as X
from filters.spark.definitions import read_definitions

W = "http://example.org/weather"
ROWS: list[tuple[int, str | None, str | None]] = [
    (0, "<storm><speed>90</speed></storm>", "storms/coast"),
    (1, "<storm><speed>120</speed><speed>7</speed></storm>", "storms/coast"),
    (2, f'<w:storm xmlns:w="{W}"><w:speed/></w:storm>', "{urn:t}tides"),
    (3, "<storm>", "storms"),
    (4, None, "storms"),
    (5, '<?xml version="1.0" encoding="ISO-8859-1"?><place>Bergen ø</place>', None),
    (6, "<!DOCTYPE a><a/>", "storms/coast"),
    (7, "plain text", "tides"),
    (8, "<storm/>", "a b//"),
]
FILTERS: list[dict[str, Any]] = [
    {"id": "fast", "xpath": "/storm[speed > 100]"},
    {"id": "ours", "xpath": "/w:storm", "namespaces": {"w": W}},
    {"id": "coast", "topic": "storms/coast"},
    {"id": "fast at sea", "xpath": "/storm[speed > 100]", "topic": "sea//."},
]
FOUND: dict[int, list[str] | None] = {
    0: ["coast"], 1: ["coast", "fast"], 2: ["ours"], 3: None, 4: None, 5: [], 6: None, 7: None, 8: None,
}  # fmt: skip
UNREAD = (None,) * 6
SUBSCRIPTIONS = [
    (
        "fast",
        '{"topics": [], "contents": [["/storm[speed > 100]", null, [], "payload"]], "others": []}',
    ),
    ("ours", json.dumps({"contents": [{"text": "/w:storm", "namespaces": {"w": W}}]})),
    ("coast", json.dumps({"topics": [{"text": "storms/coast", "dialect": TOPIC_FULL}]})),
]
"""The same filters as a gateway's table of subscriptions has them."""
VALUES: dict[int, tuple[Any, ...]] = {
    0: (False, False, "90", "90", None, None, True),
    1: (True, False, "120", "127", None, None, True),
    2: (False, True, None, "0", None, "", True),
    3: (*UNREAD, False),
    4: (*UNREAD, None),
    5: (False, False, None, "0", "Bergen ø", None, True),
    6: (*UNREAD, False),
    7: (*UNREAD, False),
    8: (False, False, None, "0", None, None, True),
}


def frame(session: Any) -> Any:
    return session.createDataFrame(ROWS, "number int, payload string, topic string")


def found(rows: Any) -> dict[int, Any]:
    return {row.number: sorted(row.found) if row.found is not None else None for row in rows}


def matching(session: Any) -> Any:
    column = X.matches("payload", FILTERS, topic="topic")
    rows = frame(session).withColumn("found", column)
    return [frame(session).select(column).columns, rows.dtypes, found(rows.collect())]


def values(session: Any) -> dict[int, tuple[Any, ...]]:
    rows = frame(session).select(
        "number",
        X.xpath_matches("payload", "/storm[speed > 100]").alias("fast"),
        X.xpath_matches("payload", "/w:storm/w:speed", {"w": W}).alias("ours"),
        X.xpath_value("payload", "/storm/speed").alias("speed"),
        X.xpath_value("payload", "sum(//speed)").alias("sum"),
        X.xpath_value("payload", "/place").alias("place"),
        X.xpath_value("payload", "/w:storm/w:speed", {"w": W}).alias("empty"),
        X.is_xml("payload").alias("xml"),
    )
    return {row.number: tuple(row)[1:] for row in rows.collect()}


def definitions(session: Any) -> list[Any]:
    """What filters from a file, read before or by us, and from a table find."""
    table = session.createDataFrame(
        [(one["id"], one.get("xpath"), one.get("topic"), one.get("namespaces")) for one in FILTERS],
        "id string, xpath string, topic string, namespaces map<string,string>",
    )
    subscriptions = session.createDataFrame(SUBSCRIPTIONS, "id string, filter string")
    with TemporaryDirectory() as folder:
        file = Path(folder) / "filters.jsonl"
        file.write_text("".join(json.dumps(one) + "\n" for one in FILTERS))
        export = Path(folder) / "subscriptions.json"
        rows = [{"id": id, "filter": json.loads(filter)} for id, filter in SUBSCRIPTIONS]
        export.write_text(json.dumps({"subscriptions": rows, "next": None}, indent=1))
        columns = [
            X.matches("payload", given, topic="topic")
            for given in (str(file), read_definitions(file), table, str(export), subscriptions)
        ]
    events = frame(session)
    return [found(events.select("number", one.alias("found")).collect()) for one in columns]


def counted(session: Any) -> list[Any]:
    """What could not be read, counted as the rows go by: no second pass over them."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    observation = Observation("events")
    rows = frame(session).withColumn("found", X.matches("payload", FILTERS, topic="topic"))
    unread = F.count_if(F.col("payload").isNotNull() & F.col("found").isNull())
    rows = rows.observe(observation, F.count("*").alias("rows"), unread.alias("unread"))
    return [len(rows.where(F.size("found") > 0).collect()), observation.get]


def sql(session: Any) -> list[Any]:
    X.register(session, FILTERS)
    frame(session).createOrReplaceTempView("events")
    rows = session.sql("SELECT number, matches(payload, topic) AS found FROM events").collect()
    [row] = session.sql(
        """SELECT count_if(xpath_matches(payload, '/w:storm', map('w', 'http://example.org/weather'))) AS ours,
                   count_if(xpath_matches(payload, '/storm/speed')) AS speeds,
                   max(xpath_value(payload, '/place')) AS place,
                   count_if(NOT is_xml(payload)) AS others
            FROM events"""
    ).collect()
    return [found(rows), tuple(row)]


TRIALS: dict[Callable[[Any], Any], Any] = {
    matching: [
        ["matches(payload, topic)"],
        [("number", "int"), ("payload", "string"), ("topic", "string"), ("found", "array<string>")],
        FOUND,
    ],
    values: VALUES,
    definitions: [FOUND] * 5,
    counted: [3, {"rows": 9, "unread": 4}],
    sql: [FOUND, (1, 2, "Bergen ø", 3)],
}
"""What each trial gives."""


def plain(result: Any) -> Any:
    """*result* as JSON has it."""
    return json.loads(json.dumps(result))


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    remote = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    print(json.dumps({trial.__name__: trial(remote) for trial in TRIALS}))
