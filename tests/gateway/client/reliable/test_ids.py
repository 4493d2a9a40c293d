"""Ids of messages and sequences, whose random octets are drawn for many at a time."""

import subprocess
import sys
import uuid

from gateway.client.reliable.endpoint_base import new_id

FORKS = """
import os
from gateway.client.reliable.endpoint_base import new_id
new_id()
child = os.fork()
if child:
    os.waitpid(child, 0)
print(*(new_id() for _ in range(300)), sep="\\n", flush=True)
os._exit(0)
"""


def test_an_id_is_a_random_uuid_and_comes_once() -> None:
    ids = [new_id() for _ in range(2000)]
    assert len(set(ids)) == len(ids)
    assert {uuid.UUID(each.removeprefix("urn:uuid:")).version for each in ids} == {4}


def test_processes_that_fork_have_ids_of_their_own() -> None:
    ran = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=60)
    ids = ran.stdout.split()
    assert (ran.returncode, len(ids), len(set(ids))) == (0, 600, 600), ran.stderr
