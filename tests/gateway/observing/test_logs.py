"""The log as machines read it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rigs.gateways import running

PROGRAM = """
import logging, structlog
from gateway.observing.logs import set_up_logs
from adapters.broker.outages import Outages

set_up_logs("info", {style!r})
structlog.get_logger().info("dragoman.started", adapter="rabbitmq")
outages = Outages("rabbitmq")
outages.down("consuming", "Connection refused")
outages.up("consuming")
try:
    raise ValueError("odd")
except ValueError:
    logging.getLogger("adapters.broker.reconnecting").exception("adapter.failed", extra={{"adapter": "a"}})
"""


def lines(style: str) -> list[str]:
    command = [sys.executable, "-c", PROGRAM.format(style=style)]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=60
    ).stderr.splitlines()


def test_an_adapter_logs_events_with_fields_as_the_gateway_does() -> None:
    started, lost, there, failed = (json.loads(line) for line in lines("json"))
    for each in (started, lost, there, failed):
        assert each.pop("timestamp")
    assert started == {"event": "dragoman.started", "level": "info", "adapter": "rabbitmq"}
    assert lost == {
        "event": "adapter.disconnected",
        "level": "warning",
        "adapter": "rabbitmq",
        "connection": "consuming",
        "reason": "Connection refused",
    }
    assert (there["event"], there["seconds"]) == ("adapter.connected", 0.0)
    assert (failed["event"], failed["level"]) == ("adapter.failed", "error")
    assert "ValueError: odd" in failed["exception"]


@pytest.mark.parametrize("word", ["adapter.disconnected", "Connection refused"])
def test_people_read_the_same(word: str) -> None:
    assert word in "\n".join(lines("console"))


STRANGE = """
import logging, sys, structlog
from gateway.observing.logs import set_up_logs

sys.stderr.isatty = lambda: {terminal}
set_up_logs("info", "console")
told = "a\\x9b2Jb\\x1b[2Jc\\u202ed\\u200fe\\nf\\x1b[31mg"
structlog.get_logger().info("strange", text=told, **{{"odd": [told]}})
logging.getLogger("x").warning(told, extra={{"text": told}})
try:
    raise ValueError(told)
except ValueError:
    structlog.get_logger().exception("failed", text=told)
"""


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_obeys_no_stranger(terminal: bool) -> None:
    command = [sys.executable, "-c", STRANGE.format(terminal=terminal)]
    said = subprocess.run(command, check=True, capture_output=True, timeout=60).stderr.decode()
    assert "strange" in said and "failed" in said and "ValueError" in said
    for obeyed in ("\x9b", "\x1b[2J", "\u202e", "\u200f"):
        assert obeyed not in said, repr(said)
    for written in ("\\x9b2J", "\\x1b[2J", "\\u202e", "\\u200f"):
        assert written in said, repr(said)


async def test_who_was_refused_and_why(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        answer = await run.request(
            "POST", "/soap", b"<a", source="127.0.0.9", content_type="text/xml"
        )
        assert answer.status >= 400
        [told] = [row for row in run.logs if row["event"] == "soap.refused"]
    assert told["peer"] == "127.0.0.9"
    assert "XML" in told["text"], told
