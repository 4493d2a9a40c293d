"""Every command as its users run it: a process, against a gateway that is one too."""

import asyncio
import contextlib
import itertools
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from lxml import etree

from gateway.client import Client
from tests.rigs.programs import DRAGOMAN, SECONDS, Program, RunningGateway, environment, run

SPECS = ("wse-2004-08", "wsn-1.3")
NEWER = "wse-2011-03"
PAIRS = [*itertools.product(SPECS, SPECS), (NEWER, SPECS[1]), (SPECS[1], NEWER)]
BODY = {
    "wse-2011-03": "{http://www.w3.org/2011/03/ws-evt}Notify",
    "wse-2004-08": "{http://example.org/weather}Warning",
    "wsn-1.3": "{http://docs.oasis-open.org/wsn/b-2}Notify",
}
WARNING = b'<w:Warning xmlns:w="http://example.org/weather"><w:speed>%d</w:speed></w:Warning>'
NOBODY = "http://127.0.0.1:1"
"""Nobody listens on port 1."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[RunningGateway]:
    with RunningGateway("--adapter", "memory:", cwd=folder) as running:
        yield running
        assert running.stop(signal.SIGTERM) == 0
        assert not [line for line in running.err if "Traceback" in line or '"error"' in line]


def listen(gateway: RunningGateway, *arguments: str, cwd: Path) -> Program:
    """A listener that has subscribed."""
    program = Program("listen", "--gateway", gateway.url, *arguments, cwd=cwd)
    program.wait_for("Subscribed to ", lines=program.err)
    return program


def publish(
    gateway: RunningGateway, *arguments: str, cwd: Path, payload: bytes
) -> subprocess.CompletedProcess[str]:
    done = run("publish", "--gateway", gateway.url, *arguments, "-", cwd=cwd, stdin=payload)
    assert done.returncode == 0, done.stderr
    return done


def subscribed(gateway: RunningGateway, cwd: Path) -> list[dict[str, object]]:
    """What ``subscriptions list`` says there is."""
    done = run("subscriptions", "list", "--gateway", gateway.url, "--output", "json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    records: list[dict[str, object]] = json.loads(done.stdout)
    return records


def only_line(text: str) -> str:
    """The one line that *text* is."""
    assert text.count("\n") == 1 and text.endswith("\n"), text
    return text[:-1]


# Listening and publishing.


@pytest.mark.parametrize("spec", ["wsn-1.3", "grid-events", "cloudevents"])
def test_the_topic_that_is_used_without_one_is_said(
    gateway: RunningGateway, folder: Path, spec: str
) -> None:
    topic = {"grid-events": "{urn:w}Warning"}.get(spec, "wseTopic")
    payload = b"<Warning xmlns='urn:w'/>"
    with listen(
        gateway, "--topic", topic, "--spec", "wsn-1.3", "--count", "1", cwd=folder
    ) as heard:
        done = publish(gateway, "--spec", spec, cwd=folder, payload=payload)
        assert only_line(done.stdout) == f"published standard input to {topic}"
        assert heard.end() == 0


@pytest.mark.parametrize(("from_", "to"), PAIRS)
def test_what_one_publishes_the_other_prints(
    gateway: RunningGateway, folder: Path, from_: str, to: str
) -> None:
    topic = f"both/{from_}/{to}".replace(".", "-")
    with listen(gateway, "--topic", topic, "--spec", to, "--count", "1", cwd=folder) as listener:
        done = publish(
            gateway, "--topic", topic, "--spec", from_, cwd=folder, payload=WARNING % 120
        )
        assert only_line(done.stdout) == f"published standard input to {topic}"
        assert listener.end() == 0
    assert listener.out[0] == topic
    assert listener.out[1:] == [(WARNING % 120).decode()]
    assert listener.err[-1] == "Unsubscribed."
    assert subscribed(gateway, folder) == []


@pytest.mark.parametrize("text", ["current time is : 42", "<foo/> & more", ""])
def test_text_of_messengers_is_printed_as_text(
    gateway: RunningGateway, folder: Path, text: str
) -> None:
    wrapper = "http://org.apache.airavata/ws-messenger/wsmg/2011"
    event = f'<w:plainTextWrapper xmlns:w="{wrapper}">{escape(text)}</w:plainTextWrapper>'
    other = '<plainTextWrapper xmlns="urn:x">a</plainTextWrapper>'
    with listen(gateway, "--topic", "texts", "--count", "2", cwd=folder) as listener:
        for payload in (event, other):
            publish(gateway, "--topic", "texts", cwd=folder, payload=payload.encode())
        assert listener.end() == 0
    assert listener.out == ["texts", text, "texts", other]


@pytest.mark.parametrize("spec", [*SPECS, NEWER])
def test_whole_envelopes(gateway: RunningGateway, folder: Path, spec: str) -> None:
    with listen(gateway, "--whole", "--count", "1", "--spec", spec, cwd=folder) as listener:
        publish(gateway, "--topic", "whole", cwd=folder, payload=WARNING % 1)
        assert listener.end() == 0
    envelope = etree.fromstring("\n".join(listener.out))
    assert etree.QName(envelope).localname == "Envelope"
    assert envelope.find("{*}Body")[0].tag == BODY[spec]  # type: ignore[index]
    assert envelope.find(".//{*}speed") is not None


@pytest.mark.parametrize("spec", SPECS)
def test_json_is_one_object_a_line(gateway: RunningGateway, folder: Path, spec: str) -> None:
    options = ("--topic", "json", "--output", "json", "--whole", "--count", "2", "--spec", spec)
    with listen(gateway, *options, cwd=folder) as listener:
        for speed in (1, 2):
            publish(gateway, "--topic", "json", cwd=folder, payload=WARNING % speed)
        assert listener.end() == 0
    records = [json.loads(line) for line in listener.out]
    assert [etree.fromstring(record["payload"]).findtext("{*}speed") for record in records] == [
        "1",
        "2",
    ]
    for record in records:
        assert record["topic"] == "json"
        assert record["message_id"].startswith("urn:uuid:")
        assert etree.QName(etree.fromstring(record["envelope"])).localname == "Envelope"


@pytest.mark.parametrize("spec", [*SPECS, NEWER])
@pytest.mark.parametrize("topic", [(), ("--topic", "filtered//.")], ids=["no topic", "topic"])
def test_only_what_the_filter_lets_through(
    gateway: RunningGateway, folder: Path, spec: str, topic: tuple[str, ...]
) -> None:
    filters = ("--xpath", "/w:Warning/w:speed > 100", "--ns", "w=http://example.org/weather")
    options = (*topic, *filters, "--spec", spec, "--count", "1")
    with listen(gateway, *options, cwd=folder) as listener:
        for speed in (90, 130):
            publish(gateway, "--topic", "filtered/a", cwd=folder, payload=WARNING % speed)
        assert listener.end() == 0
    printed = "\n".join(listener.out)
    assert "130" in printed and "90" not in printed


@pytest.mark.parametrize("spec", SPECS)
def test_a_topic_of_a_namespace(gateway: RunningGateway, folder: Path, spec: str) -> None:
    topic = "{http://example.org/topics}storms"
    filters = ("--xpath", "/w:Warning", "--ns", "w=http://example.org/weather")
    options = ("--topic", topic, *filters, "--spec", spec, "--count", "1")
    with listen(gateway, *options, cwd=folder) as listener:
        publish(gateway, "--topic", topic, cwd=folder, payload=WARNING % 7)
        assert listener.end() == 0
    assert listener.out[0] == topic


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_unsubscribes(
    gateway: RunningGateway, folder: Path, number: signal.Signals, spec: str
) -> None:
    with listen(gateway, "--spec", spec, cwd=folder) as listener:
        assert len(subscribed(gateway, folder)) == 1
        assert listener.stop(number) == 0
        assert subscribed(gateway, folder) == []
    assert listener.err[-1] == "Unsubscribed."


def test_a_reader_that_has_enough_ends_it(gateway: RunningGateway, folder: Path) -> None:
    reading, writing = os.pipe()
    arguments = ("listen", "--gateway", gateway.url, "--topic", "pipe")
    with subprocess.Popen(
        (*DRAGOMAN, *arguments),
        cwd=folder,
        env=environment(),
        stdout=writing,
        stderr=subprocess.PIPE,
    ) as listener:
        os.close(writing)
        os.close(reading)
        assert listener.stderr is not None
        assert any(b"Subscribed to " in line for line in listener.stderr)
        publish(gateway, "--topic", "pipe", cwd=folder, payload=WARNING % 1)
        assert listener.wait(SECONDS) == 0
        assert b"Traceback" not in listener.stderr.read()
    assert subscribed(gateway, folder) == []


def test_files_are_events_of_their_own(gateway: RunningGateway, folder: Path) -> None:
    for speed in (1, 2):
        (folder / f"storm{speed}.xml").write_bytes(
            b'<?xml version="1.0" encoding="utf-8"?>\n' + WARNING % speed + b"\n"
        )
    (folder / "broken.xml").write_text("<speed>")
    with listen(gateway, "--topic", "files", "--count", "2", cwd=folder) as listener:
        to = ("--gateway", gateway.url, "--topic", "files", "--output", "json")
        refused = run("publish", *to, "storm1.xml", "broken.xml", cwd=folder)
        assert refused.returncode == 1
        assert only_line(refused.stderr).startswith("dragoman: broken.xml: ")
        assert refused.stdout == ""  # Nothing was published before all were read.
        done = run("publish", *to, "storm1.xml", "storm2.xml", cwd=folder)
        assert [json.loads(line)["file"] for line in done.stdout.splitlines()] == [
            "storm1.xml",
            "storm2.xml",
        ]
        assert listener.end() == 0
    assert [line for line in listener.out if line == "files"] == ["files", "files"]


def test_what_a_terminal_would_obey_is_shown(gateway: RunningGateway, folder: Path) -> None:
    with listen(gateway, "--topic", "control", "--count", "1", cwd=folder) as listener:
        payload = "<a>\u009b31m \u202e</a>".encode()
        publish(gateway, "--topic", "control", cwd=folder, payload=payload)
        assert listener.end() == 0
    assert "\\x9b31m \\u202e" in listener.out[1]


def test_a_person_at_a_terminal_sees_it_indented_and_bold(
    gateway: RunningGateway, folder: Path
) -> None:
    ours, theirs = pty.openpty()
    arguments = ("listen", "--gateway", gateway.url, "--topic", "tty", "--count", "1")
    with subprocess.Popen(
        (*DRAGOMAN, *arguments),
        cwd=folder,
        env=environment(),
        stdout=theirs,
        stderr=subprocess.PIPE,
    ) as listener:
        os.close(theirs)
        assert listener.stderr is not None
        assert any(b"Subscribed to " in line for line in listener.stderr)
        publish(gateway, "--topic", "tty", cwd=folder, payload=WARNING % 5)
        printed = b""
        while b"</w:Warning>" not in printed:
            assert select.select([ours], [], [], SECONDS)[0], printed
            printed += os.read(ours, 4096)
        assert listener.wait(SECONDS) == 0
        os.close(ours)
    assert printed.startswith(b"\x1b[1mtty\x1b[0m")
    assert b"\n  <w:speed>5</w:speed>" in printed.replace(b"\r", b"")


def test_what_strangers_send_is_not_the_listeners_concern(
    gateway: RunningGateway, folder: Path
) -> None:
    with listen(gateway, "--topic", "junk", cwd=folder) as listener:
        port = int(listener.err[0].rpartition(":")[2].partition("/")[0])
        for junk in (b"\x16\x03\x01\r\n\r\n", b"POST /%s HTTP/1.1\r\n\r\n" % (b"x" * 20_000)):
            with socket.create_connection(("127.0.0.1", port), SECONDS) as stranger:
                stranger.sendall(junk)
                stranger.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionError):
                    while stranger.recv(4096):
                        pass
        assert listener.stop() == 0
    assert len(listener.err) == 3 and listener.out == []


def test_a_gateway_that_has_gone_is_no_hindrance(tmp_path: Path) -> None:
    with RunningGateway("--adapter", "memory:", cwd=tmp_path) as gateway:
        with listen(gateway, cwd=tmp_path) as listener:
            gateway.process.kill()
            gateway.process.wait(SECONDS)
            assert listener.stop() == 0
        assert listener.err[-1].startswith("Could not unsubscribe (cannot reach ")


# Administration.


def test_subscriptions_are_listed_shown_and_deleted(gateway: RunningGateway, folder: Path) -> None:
    at = ("--gateway", gateway.url)
    empty = run("subscriptions", "list", *at, cwd=folder)
    assert (empty.returncode, empty.stdout) == (0, "")
    assert only_line(empty.stderr) == "There are no subscriptions."
    with (
        listen(gateway, "--topic", "one", "--spec", "wse-2004-08", cwd=folder) as told,
        listen(gateway, "--topic", "two", "--spec", "wsn-1.3", cwd=folder) as untold,
    ):
        records = {str(record["topics"]): record for record in subscribed(gateway, folder)}
        ids = [str(records[f"['{topic}']"]["id"]) for topic in ("one", "two")]
        table = run("subscriptions", "list", *at, cwd=folder).stdout.splitlines()
        assert table[0].split() == [
            *("ID", "SPEC", "CONSUMER", "TOPICS", "CONTENTS", "EXPIRES", "STATE", "WAITING"),
            *("DEAD", "LAST", "ERROR"),
        ]
        assert {line.split()[0] for line in table[1:]} == set(ids)
        shown = run("subscriptions", "show", *at, ids[0], cwd=folder).stdout
        assert re.search(r"^matched +0$", shown, re.MULTILINE)
        counted = run("subscriptions", "show", *at, ids[0], "--output", "json", cwd=folder).stdout
        assert json.loads(counted)["counts"]["matched"] == 0
        deleted = run("subscriptions", "delete", *at, *ids, "nosuch", cwd=folder)
        assert deleted.stdout.splitlines() == [f"deleted {id_}" for id_ in ids]
        assert deleted.returncode == 1
        assert only_line(deleted.stderr) == "dragoman: nosuch: There is no such subscription"
        assert told.end() == 1
        assert "dragoman: the gateway ended the subscription" in told.err[-1]
        assert untold.stop() == 0  # WS-Notification tells nobody; the next Renew would.


def test_a_selection_of_subscriptions(gateway: RunningGateway, folder: Path) -> None:
    at = ("--gateway", gateway.url)
    with (
        listen(gateway, "--topic", "one", "--spec", "wse-2004-08", cwd=folder) as told,
        listen(gateway, "--topic", "two", "--spec", "wsn-1.3", cwd=folder) as other,
    ):
        chosen = ("--topic", "one", "--state", "active")
        found = run("subscriptions", "list", *at, *chosen, "--output", "json", cwd=folder)
        [record] = json.loads(found.stdout)
        assert record["topics"] == ["one"]
        would = run("subscriptions", "delete", *at, *chosen, "--dry-run", cwd=folder)
        assert would.stdout == f"would delete {record['id']}\n"
        done = run("subscriptions", "delete", *at, *chosen, cwd=folder)
        assert done.stdout == f"deleted {record['id']}\n"
        assert told.end() == 1
        none = run("subscriptions", "delete", *at, "--spec", "wse-2004-08", cwd=folder)
        assert only_line(none.stderr) == "There are no such subscriptions."
        for wrong in ((), ("--all", "--spec", "wsn-1.3"), ("x", "--dry-run")):
            assert run("subscriptions", "delete", *at, *wrong, cwd=folder).returncode == 2
        assert other.stop() == 0


class _Consumer(BaseHTTPRequestHandler):
    """Refuses what comes, until it is told to take it."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        taking = self.server.taking.is_set()  # type: ignore[attr-defined]
        self.send_response(202 if taking else 400)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if taking:
            self.server.taken.set()  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def refusing() -> Iterator[HTTPServer]:
    """A consumer; with its event ``taking`` set it takes what comes, and sets ``taken``."""
    with HTTPServer(("127.0.0.1", 0), _Consumer) as server:
        server.taking, server.taken = threading.Event(), threading.Event()  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


NOT_CHOSEN = [
    ((), "say which dead letters"),
    (("--dry-run",), "say which dead letters"),
    (("--all", "--topic", "dead"), "in one way"),
    (("17", "--all"), "in one way"),
    (("--subscription", ""), "is empty"),
    (("--topic", "dead", "--since", "yesterday"), "is not a time"),
]


def dead_letters(gateway: RunningGateway, folder: Path, wanted: int) -> list[dict[str, object]]:
    """What ``deadletters list`` says, once there are *wanted*."""
    deadline = time.monotonic() + SECONDS
    while True:
        done = run("deadletters", "list", "--gateway", gateway.url, "--output", "json", cwd=folder)
        records: list[dict[str, object]] = json.loads(done.stdout)
        if len(records) == wanted:
            return records
        assert time.monotonic() < deadline, records


def test_dead_letters_are_listed_shown_redriven_and_purged(
    gateway: RunningGateway, folder: Path, refusing: HTTPServer
) -> None:
    at = ("--gateway", gateway.url)

    async def subscribe() -> None:
        async with Client(gateway.url) as client:
            await client.subscribe(f"http://127.0.0.1:{refusing.server_port}/", topic="dead")

    asyncio.run(subscribe())
    for speed in (1, 2):
        publish(gateway, "--topic", "dead", cwd=folder, payload=WARNING % speed)
    numbers = [str(record["number"]) for record in dead_letters(gateway, folder, 2)]
    table = run("deadletters", "list", *at, cwd=folder).stdout.splitlines()
    assert table[0].split()[:3] == ["NUMBER", "SUBSCRIPTION", "TOPIC"]
    assert [line.split()[0] for line in table[1:]] == numbers
    shown = run("deadletters", "show", *at, numbers[1], cwd=folder).stdout
    assert re.search(r"^status +400$", shown, re.MULTILINE)
    refusing.taking.set()  # type: ignore[attr-defined]
    assert re.search(r"^payload \([0-9]+ bytes\):$", shown, re.MULTILINE)
    assert re.search(r"^envelope \([0-9]+ bytes\):$", shown, re.MULTILINE)
    detail = run("deadletters", "show", *at, numbers[1], "--output", "json", cwd=folder).stdout
    assert json.loads(detail)["payload"]["whole"]
    [id_] = [str(record["id"]) for record in subscribed(gateway, folder)]
    listed = run("subscriptions", "list", *at, cwd=folder).stdout
    assert re.search(rf"^{id_} .* failing +0 +2 +answered 400", listed, re.MULTILINE), listed
    explained = run("explain", "subscription", id_, *at, cwd=folder)
    assert explained.returncode == 0
    assert re.search(r"^NO  last error +answered 400", explained.stdout, re.MULTILINE)
    (folder / "message.xml").write_text("<a/>")
    asked = ("--message", "message.xml", "--topic", "alive")
    explained = run("explain", "subscription", id_, *asked, *at, cwd=folder)
    assert re.search(r"^NO  filter +does not match", explained.stdout, re.MULTILINE)
    missing = run("explain", "subscription", "0" * 12, *at, cwd=folder)
    assert (missing.returncode, "no such subscription" in missing.stderr) == (1, True)
    redriven = run("deadletters", "redrive", *at, "--rate", "50", numbers[0], cwd=folder)
    assert redriven.stdout == "redriven 1 dead letter (1 rejected)\n"
    assert refusing.taken.wait(SECONDS)  # type: ignore[attr-defined]
    dead_letters(gateway, folder, 1)
    for command in ("purge", "redrive"):
        for words, why in NOT_CHOSEN:
            refused = run("deadletters", command, *at, *words, cwd=folder)
            assert (refused.returncode, refused.stdout) == (2, ""), words
            assert why in only_line(refused.stderr)
    would = run("deadletters", "purge", *at, "--topic", "dead", "--dry-run", cwd=folder)
    assert would.stdout == "1 dead letter would be purged (1 rejected)\n"
    for words in (("--topic", "other"), ("--since", "2999-01-01"), ("--reason", "too-large")):
        purged = run("deadletters", "purge", *at, *words, cwd=folder)
        assert purged.stdout == "purged 0 dead letters\n"
    dead_letters(gateway, folder, 1)
    words = ("--topic", "dead//.", "--reason", "rejected", "--since", "1h")
    purged = run("deadletters", "purge", *at, *words, "--output", "json", cwd=folder)
    assert json.loads(purged.stdout) == {"purged": 1, "reasons": {"rejected": 1}}
    gone = run("deadletters", "show", *at, numbers[1], cwd=folder)
    assert gone.returncode == 1
    assert only_line(gone.stderr) == f"dragoman: there is no dead letter {numbers[1]}"
    ids = [str(record["id"]) for record in subscribed(gateway, folder)]
    assert run("subscriptions", "delete", *at, *ids, cwd=folder).returncode == 0


# The demonstration.


def test_the_demo_shows_both_directions_and_leaves_nothing(folder: Path) -> None:
    temporary = folder / "temporary"
    temporary.mkdir()
    (folder / "dragoman.toml").write_text("port = 'none of the demo's business'")
    try:
        done = run("demo", cwd=folder, TMPDIR=str(temporary), DRAGOMAN_STORE="nowhere://")
    finally:
        (folder / "dragoman.toml").unlink()
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert list(temporary.iterdir()) == []
    wse, wsn = done.stdout.split("=== 2.")
    for text, publisher, subscriber in ((wse, *SPECS), (wsn, *reversed(SPECS))):
        envelopes = [
            etree.fromstring(found[0])
            for found in re.finditer(r"<s:Envelope.*?</s:Envelope>", text, re.DOTALL)
        ]
        _, sent, received = (envelope.find("{*}Body")[0].tag for envelope in envelopes)  # type: ignore[index]
        assert (sent, received) == (BODY[publisher], BODY[subscriber])
        assert "-> answered 202 Accepted" in text


# What goes wrong, and how it is said.


def _closing_server() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                listener.accept()[0].close()
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()
    return listener


COMMANDS = [
    pytest.param(("listen",), id="listen"),
    pytest.param(("publish", "--topic", "a", "good.xml"), id="publish"),
    pytest.param(("subscriptions", "list"), id="subscriptions"),
    pytest.param(("deadletters", "redrive", "--all"), id="deadletters"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_nobody_is_there(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "good.xml").write_bytes(WARNING % 1)
    done = run(*command, "--gateway", NOBODY, cwd=tmp_path)
    assert done.returncode == 1
    assert only_line(done.stderr) == (
        f"dragoman: cannot reach {NOBODY}: connection refused; is the gateway running there?"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_somebody_else_is_there(
    tmp_path: Path, refusing: HTTPServer, command: tuple[str, ...]
) -> None:
    (tmp_path / "good.xml").write_bytes(WARNING % 1)
    url = f"http://127.0.0.1:{refusing.server_port}"
    done = run(*command, "--gateway", url, cwd=tmp_path)
    assert done.returncode == 1
    at = "/soap" if command[0] in ("listen", "publish") else ""
    said = f"dragoman: {url}{at} does not answer as a Dragoman gateway does: "
    assert only_line(done.stderr).startswith(said)


def test_somebody_hangs_up(tmp_path: Path) -> None:
    with _closing_server() as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        done = run("subscriptions", "list", "--gateway", url, cwd=tmp_path)
    assert done.returncode == 1
    assert only_line(done.stderr).startswith(f"dragoman: cannot reach {url}: ")


ERRORS = [
    pytest.param(("listen", "--gateway", "ftp://x"), 1, "is not the URL of a gateway", id="scheme"),
    pytest.param(("listen", "--gateway", "http://[::1"), 1, "is not the URL", id="no URL"),
    pytest.param(("listen", "--gateway", "https://{at}"), 1, "TLS failed", id="no TLS there"),
    pytest.param(("listen", "--gateway", "http://nobody.invalid"), 1, "no address", id="no name"),
    pytest.param(("listen", "--topic", "a b"), 1, '"a b" is not a topic name', id="topic"),
    pytest.param(("listen", "--topic", "{{a"), 1, "refused: ", id="Clark"),
    pytest.param(
        ("listen", "--xpath", "a["), 1, "--xpath: the expression ends too early", id="XPath"
    ),
    pytest.param(("listen", "--ns", "w"), 2, "--ns", id="namespace"),
    pytest.param(("listen", "--spec", "wse-2004"), 2, "did you mean wse-2004-08?", id="spec"),
    pytest.param(("listen", "--spec", "x"), 2, "wse-2004-08, wse-2011-03", id="no such spec"),
    pytest.param(("listen", "--count", "0"), 2, "--count", id="count"),
    pytest.param(("listen", "--port", "{port}"), 1, "cannot listen on", id="port in use"),
    pytest.param(("publish",), 2, "FILE", id="no file"),
    pytest.param(("publish", "nosuch.xml"), 1, "nosuch.xml: No such file", id="missing file"),
    pytest.param(("publish", "."), 1, ".: Is a directory", id="directory"),
    pytest.param(("publish", "-"), 1, "standard input: ", id="empty"),
    pytest.param(("subscriptions", "show", "a/../b"), 1, "no such subscription", id="odd id"),
    pytest.param(("subscriptions", "shwo"), 2, "shwo", id="subcommand"),
    pytest.param(("deadletters", "show", "7"), 1, "no dead letter 7", id="dead letter"),
    pytest.param(("deadletters", "purge", "x"), 2, "NUMBER", id="number"),
    pytest.param(("frob",), 2, "frob", id="command"),
    pytest.param(("serve", "--bogus"), 2, "--bogus", id="option"),
]


@pytest.mark.parametrize(("arguments", "code", "said"), ERRORS)
def test_an_error_is_one_line(
    gateway: RunningGateway, folder: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    at = gateway.url.removeprefix("http://")
    filled = [part.format(at=at, port=at.rpartition(":")[2]) for part in arguments]
    done = run(*filled, cwd=folder, DRAGOMAN_GATEWAY=gateway.url)
    assert done.returncode == code
    line = only_line(done.stderr)
    assert line.startswith("dragoman: ") and said in line
    assert done.stdout == ""


SERVE_ERRORS = [
    pytest.param(("--port", "{port}"), 1, "Cannot listen on 127.0.0.1:", id="port in use"),
    pytest.param(("--data", "data"), 75, "Another Dragoman uses", id="data in use"),
    pytest.param(("--data", "file/in"), 1, "Cannot write to the data folder", id="data"),
    pytest.param(("--adapter", "kafak:x"), 1, "kafak", id="adapter"),
    pytest.param(("--adapter", "nothing"), 1, "adapter", id="no adapter URL"),
    pytest.param(("--store", "nothing"), 1, "The store cannot be opened", id="store"),
    pytest.param(("--port", "70000"), 1, "port: ", id="port"),
    pytest.param(
        ("--host", "nobody.invalid", "--without-identities", ""), 1, "Cannot listen on", id="host"
    ),
    pytest.param(("--host", "0.0.0.0"), 1, "set without_identities", id="open to everybody"),
    pytest.param(("--public-url", "example.org"), 1, "--public-url: ", id="public URL"),
]


@pytest.mark.parametrize(("arguments", "code", "said"), SERVE_ERRORS)
def test_a_gateway_that_cannot_start_says_why(
    gateway: RunningGateway, folder: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    (folder / "file").touch()
    port = gateway.url.rpartition(":")[2]
    filled = [part.format(port=port) for part in arguments]
    free = {"--port": "0", "--data": "other"} | dict(zip(filled[::2], filled[1::2], strict=True))
    words = [part for pair in free.items() for part in pair if part]
    done = run("serve", *words, cwd=folder)
    assert done.returncode == code
    line = only_line(done.stderr)
    assert line.startswith("dragoman: ") and said in line
    assert done.stdout == ""


def test_ipv6(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no IPv6 here")
    with RunningGateway("--host", "::1", cwd=tmp_path) as gateway:
        assert gateway.url.startswith("http://[::1]:")
        with listen(gateway, "--count", "1", cwd=tmp_path) as listener:
            assert listener.err[0].startswith("Notifications come to http://[::1]:")
            publish(gateway, "--topic", "a", cwd=tmp_path, payload=WARNING % 6)
            assert listener.end() == 0
        assert gateway.stop() == 0


# Help.


@pytest.mark.parametrize(
    "command",
    [
        ("serve",),
        ("listen",),
        ("publish",),
        ("demo",),
        *(("subscriptions", name) for name in ("list", "show", "delete")),
        ("explain", "subscription"),
        *(("deadletters", name) for name in ("list", "show", "redrive", "purge")),
    ],
    ids=" ".join,
)
def test_help_has_examples_on_lines_of_their_own(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = run(*command, "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: dragoman {' '.join(command)} ")
    assert re.search(rf"Examples?:\n +dragoman {' '.join(command)}", done.stdout)


def test_alone_it_says_what_there_is(tmp_path: Path) -> None:
    for arguments in ((), ("subscriptions",), ("deadletters",)):
        done = run(*arguments, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "Commands:" in done.stdout


def test_the_version(tmp_path: Path) -> None:
    done = run("--version", cwd=tmp_path)
    assert done.stdout == f"dragoman {metadata.version('dragoman')}\n"
