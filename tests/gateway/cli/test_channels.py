"""``dragoman channels`` as its users run it."""

import json
import signal
from pathlib import Path

import pytest

from tests.rigs.programs import RunningGateway, run
from tests.rigs.waiting import wait_until


@pytest.mark.slow
def test_channels_and_links_from_their_beginning_to_their_end(tmp_path: Path) -> None:
    with RunningGateway("--adapter", "memory:", "--data", "own", cwd=tmp_path) as gateway:

        def channels(*arguments: str) -> str:
            done = run("channels", *arguments, "--gateway", gateway.url, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            return done.stdout

        assert channels("list") == ""
        said = channels("add", "lab", "--event-type", "a", "--source", ".example.org")
        assert said == f"added {gateway.url}/soap/channel/lab\n"
        # Nobody is there: that is said, and tried again.
        linked = channels("link", "http://127.0.0.1:4561/soap", "--channel", "lab", "--lease", "60")
        id_ = linked.split()[1]

        def has_failed() -> bool:
            found = json.loads(channels("list", "--output", "json"))
            (link,) = found["links"]
            assert (link["id"], link["channel"], link["lease"]) == (id_, "lab", 60.0)
            assert found["channels"][0]["example"] == {"eventType": "a", "source": ".example.org"}
            return bool(link["failures"])

        wait_until(has_failed)
        shown = channels("list")
        assert "eventType=a, source=.example.org" in shown and id_ in shown and "operator" in shown
        assert channels("unlink", id_) == f"unlinked {id_}\n"
        assert channels("remove", "lab") == "removed lab\n"
        gone = run("channels", "remove", "lab", "--gateway", gateway.url, cwd=tmp_path)
        assert gone.returncode == 1 and "lab" in gone.stderr
        assert gateway.stop(signal.SIGTERM) == 0
