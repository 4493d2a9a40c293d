"""The two programs of docs/outbox.md, as they stand there."""

import asyncio
import re
import sqlite3
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.rigs.gateways import running
from tests.rigs.ports import free_ports
from tests.rigs.waiting import DEADLINE, until

PAGE = (ROOT / "docs/outbox.md").read_text()
WAREHOUSE, SHOP, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def count(path: Path, query: str) -> int:
    try:
        connection = sqlite3.connect(path)
        try:
            return int(connection.execute(query).fetchone()[0])
        finally:
            connection.close()
    except sqlite3.OperationalError:
        return 0


async def test_an_order_goes_from_shop_to_warehouse(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with running(tmp_path / "data") as gateway:

        def write(name: str, program: str) -> Path:
            path = tmp_path / name
            text = program.replace("http://127.0.0.1:8080", gateway.url).replace("8090", str(port))
            path.write_text(text)
            return path

        warehouse = await start(write("warehouse.py", WAREHOUSE))
        try:
            subscribed = "SELECT count(*) FROM dragoman_outbox_state WHERE name LIKE 'subscr%'"
            await until(lambda: count(tmp_path / "warehouse.db", subscribed))
            shop = await start(write("shop.py", SHOP))
            assert await asyncio.wait_for(shop.wait(), DEADLINE) == 0
            taken = "SELECT count(*) FROM orders WHERE item = 'tea'"
            await until(lambda: count(tmp_path / "warehouse.db", taken) == 1)
        finally:
            warehouse.terminate()
            await warehouse.wait()


async def start(program: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, str(program), cwd=program.parent, env={"PYTHONPATH": str(ROOT)}
    )
