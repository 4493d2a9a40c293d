"""Messages that threads send at the same time share a transaction."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gateway.client.reliable import ReliableClient
from gateway.reliability.source import SourceFull
from mediation.reliable_messaging.policy import Policy


def test_messages_of_threads_share_transactions(tmp_path: Path) -> None:
    client = ReliableClient(f"sqlite:///{tmp_path / 'client.db'}", policy=Policy(stored=3))
    store: Any = client.store
    turn = store._turns.wait()  # The first commit has to wait for it, and the others for that.

    def send(key: str) -> str:
        return client.send("http://127.0.0.1:9/", b"<a/>", action="urn:a", key=key)

    with ThreadPoolExecutor(8) as threads:
        sent = [threads.submit(send, "one" if number < 5 else f"{number}") for number in range(8)]
        while len(client._commits) < 7:
            pass
        turn()
        full = [each.exception(50) for each in sent]
    assert [type(each) for each in full if each is not None] == [SourceFull, SourceFull]
    assert client.waiting() == 6
    assert len({each.result() for each in sent if each.exception() is None}) == 6
    client.close()


def test_a_message_that_nobody_takes_is_refused_at_once(tmp_path: Path) -> None:
    client = ReliableClient("memory:")
    with pytest.raises(ValueError, match="action"):
        client.send("http://127.0.0.1:9/", b"<a/>")
    assert client.waiting() == 0
    client.close()
