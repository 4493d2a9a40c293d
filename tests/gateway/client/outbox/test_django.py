"""Outbox and inbox in a database of Django, in a project of its own: Django is set up once a process."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.conftest import ROOT
from tests.rigs.outbox import SYNC, database

PROJECT = """
import sys, time

import django
from django.conf import settings
from django.db import connection, transaction

{more}
settings.configure(DATABASES={{"default": {{"ENGINE": "django.db.backends.{engine}", **{options!r}}}}})
django.setup()

from dragoman.django import DjangoDatabase
from dragoman.inbox import Inbox
from dragoman.outbox import Outbox
from tests.rigs.ports import free_ports

(port,) = free_ports(1)
database = DjangoDatabase()
outbox = Outbox(database, f"http://127.0.0.1:{{port}}/")
inbox = Inbox(DjangoDatabase())


@inbox.on("orders", backoff=0.01)
def take(message):
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO taken (item) VALUES (%s)", [str(message.json())])
    if message.attempt == 1 and message.json() == 3:
        raise RuntimeError("not yet")


def items():
    with connection.cursor() as cursor:
        cursor.execute("SELECT item FROM taken ORDER BY id")
        return [item for item, in cursor.fetchall()]


inbox.listen(port)
with inbox, outbox:
    with transaction.atomic():
        outbox.publish("orders", 1)
    try:
        with transaction.atomic():
            outbox.publish("orders", 2)
            raise RuntimeError
    except RuntimeError:
        pass
    with transaction.atomic():
        outbox.publish("orders", 3, id="3")
        outbox.publish("orders", 3, id="3")
        outbox.publish("orders", 4)
    while len(items()) < 3:
        time.sleep(0.01)
    assert outbox.drain(30)
print(items())
"""
ENGINES = {"sqlite": "sqlite3", "postgresql": "postgresql", "mariadb": "mysql"}


@pytest.fixture(params=SYNC)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with database(request.param, tmp_path) as text:
        url = make_url(text)
        options = {
            "NAME": url.database, "HOST": url.host or "", "PORT": url.port or "",
            "USER": url.username or "",
        }  # fmt: skip
        more = ""
        if request.param == "mariadb":  # As PyMySQL says that Django takes it.
            more = "import pymysql; pymysql.version_info = (2, 2, 1, 'final', 0)\n"
            more += "pymysql.install_as_MySQLdb()"
        yield PROJECT.format(engine=ENGINES[request.param], options=options, more=more)


def test_messages_join_atomic_blocks_and_functions_run_in_one(project: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", project],
        cwd=ROOT, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.decode().strip() == "['1', '3', '4']", done.stderr.decode()[-3000:]
