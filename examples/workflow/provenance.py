"""The provenance recorder: of which files, by which step, and when, each file was made.

Usage: provenance.py GATEWAY FOLDER      then GET /?topic=... has what is recorded
"""

import asyncio
import sqlite3
import sys
from pathlib import Path

from aiohttp import web
from service import consume
from steps import Status

TABLE = """
CREATE TABLE IF NOT EXISTS statuses (
    topic TEXT, id TEXT, at TEXT, step TEXT, state TEXT, inputs TEXT, outputs TEXT,
    PRIMARY KEY (topic, id)
)
"""
COLUMNS = ("at", "step", "state", "inputs", "outputs")


class Provenance:
    def __init__(self, file: Path) -> None:
        self._database = sqlite3.connect(file)
        self._database.execute(TABLE)

    def take(self, topic: str, one: Status) -> None:
        """Record a status, once."""
        if one.state != "progress":
            row = (topic, one.id, one.at, one.step, one.state,
                   " ".join(one.inputs), " ".join(one.outputs))  # fmt: skip
            with self._database:
                query = "INSERT OR IGNORE INTO statuses VALUES (?, ?, ?, ?, ?, ?, ?)"
                self._database.execute(query, row)

    async def show(self, request: web.Request) -> web.Response:
        """What was recorded of a run, in its order."""
        query = (
            "SELECT at, step, state, inputs, outputs FROM statuses WHERE topic = ? ORDER BY rowid"
        )
        rows = self._database.execute(query, [request.query.get("topic", "")]).fetchall()
        return web.json_response([dict(zip(COLUMNS, row, strict=True)) for row in rows])


async def main(gateway: str, folder: Path) -> None:
    provenance, application = Provenance(folder / "provenance.db"), web.Application()
    application.router.add_get("/", provenance.show)
    await consume("provenance", gateway, application, provenance.take)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
