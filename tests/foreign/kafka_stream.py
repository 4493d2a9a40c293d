"""The stream of docs/spark.md, "From Kafka", as a process that is killed:
``python -m ... BROKER FOLDER FIRST COUNT TRIGGER`` publishes so many storms first."""

import sys
from typing import Any

from filters.spark import functions as X
from filters.spark.session import session
from tests.conftest import ROOT
from tests.filters.spark.conftest import SMALL
from tests.rigs.kafka import connector

PER_BATCH = 7


def main(broker: str, folder: str, first: int, count: int, trigger: str) -> None:
    from pyspark.sql import functions as F

    with session("local[2]", conf=SMALL | {"spark.jars": connector()}) as spark:
        storms = spark.range(first, first + count).selectExpr(
            "concat('<storm><speed>', id, '</speed></storm>') AS value"
        )
        publish = storms.write.format("kafka").option("kafka.bootstrap.servers", broker)
        publish.option("topic", "events").save()
        namespace: dict[str, Any] = {"spark": spark, "F": F, "X": X}
        exec(program(broker, folder, trigger), namespace)  # noqa: S102  # Our own page.


def program(broker: str, folder: str, trigger: str) -> str:
    """That of the page, with other places and smaller batches."""
    text = (ROOT / "docs" / "spark.md").read_text()
    written = text.partition("## From Kafka")[2].partition("```python\n")[2].partition("```")[0]
    for theirs, ours in {
        "kafka:9092": broker,
        "/data/": f"{folder}/",
        "100_000": str(PER_BATCH),
        'processingTime="10 seconds"': trigger,
    }.items():
        assert theirs in written
        written = written.replace(theirs, ours)
    return written


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
