"""``listen`` and ``publish`` in Grid SOAP Events, as their users run them."""

import json
from pathlib import Path

import pytest

from tests.rigs.programs import Program, RunningGateway, run

pytestmark = pytest.mark.slow
WARNING = b'<w:Warning xmlns:w="http://example.org/weather"><w:speed>%d</w:speed></w:Warning>'


@pytest.mark.parametrize(
    ("publishing", "listening"),
    [("grid-events", "grid-events"), ("wsn-1.3", "grid-events"), ("grid-events", "wsn-1.3")],
)
def test_between_the_worlds(tmp_path: Path, publishing: str, listening: str) -> None:
    with RunningGateway("--adapter", "memory:", cwd=tmp_path) as gateway:
        topic = "storms//." if listening == "grid-events" else "storms/coast"
        options = ("--gateway", gateway.url, "--topic", topic, "--output", "json")
        listener = Program("listen", *options, "--count", "1", "--spec", listening, cwd=tmp_path)
        with listener:
            listener.wait_for("Subscribed to ", lines=listener.err)
            done = run(
                "publish", "--gateway", gateway.url, "--topic", "storms/coast", "--spec",
                publishing, "-", cwd=tmp_path, stdin=WARNING % 7,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert listener.end() == 0
        [record] = [json.loads(line) for line in listener.out]
        assert record["topic"] == "storms/coast"
        # A call carries the payload as text; what a gateway put into one is taken out again.
        carried = "<w:speed>7" if publishing == "wsn-1.3" else "&lt;w:speed&gt;7"
        assert carried in record["payload"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--pull",), "--pull fetches SOAP"),
        (("--xpath", "/a"), "there is no XPath"),
        (("--topic", "a/*"), "is one topic, and all below"),
        (("--reliable",), "cannot be asked for in grid-events"),
        (("--assurance", "exactly-once"), "cannot be asked for in grid-events"),
        (("--assurance", "at-most-once"), "cannot be asked for in grid-events"),
    ],
)
def test_what_cannot_be(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    done = run("listen", "--spec", "grid-events", *options, cwd=tmp_path)
    assert done.returncode != 0
    assert said in done.stderr
