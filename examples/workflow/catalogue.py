"""The metadata catalogue: the files that there are, whose they are, of which run and step.

Usage: catalogue.py GATEWAY FOLDER       then GET /?user=... has the files of a user
"""

import asyncio
import sqlite3
import sys
from pathlib import Path

from aiohttp import web
from service import consume
from steps import Status

TABLE = """
CREATE TABLE IF NOT EXISTS files (
    user TEXT, run TEXT, name TEXT, step TEXT, at TEXT, PRIMARY KEY (run, name)
)
"""


class Catalogue:
    def __init__(self, file: Path) -> None:
        self._database = sqlite3.connect(file)
        self._database.execute(TABLE)

    def take(self, topic: str, status: Status) -> None:
        """Enter the files that a step has made, once."""
        user, run = topic.split("/")[1:3]
        with self._database:
            for name in status.outputs:
                row = (user, run, name, status.step, status.at)
                self._database.execute("INSERT OR IGNORE INTO files VALUES (?, ?, ?, ?, ?)", row)

    async def show(self, request: web.Request) -> web.Response:
        """The files of a user, the newest first."""
        query = "SELECT run, name, step, at FROM files WHERE user = ? ORDER BY at DESC"
        rows = self._database.execute(query, [request.query.get("user", "")]).fetchall()
        names = ("run", "name", "step", "at")
        return web.json_response([dict(zip(names, row, strict=True)) for row in rows])


async def main(gateway: str, folder: Path) -> None:
    catalogue, application = Catalogue(folder / "catalogue.db"), web.Application()
    application.router.add_get("/", catalogue.show)
    await consume("catalogue", gateway, application, catalogue.take)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
