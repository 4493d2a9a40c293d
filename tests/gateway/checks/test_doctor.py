"""``dragoman doctor``: what it says of each thing that can be wrong, provoked for real."""

import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from filters import engine, engine_note
from gateway import checks
from gateway.checks import Finding, Verdict
from gateway.checks.findings import Check, ok
from gateway.cli import app
from gateway.store import migrations
from tests.gateway.store.test_migrations import make_0023
from tests.rigs.certificates import Authority
from tests.rigs.ports import free_ports
from tests.rigs.programs import RunningGateway, run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("DRAGOMAN_")]:
        monkeypatch.delenv(name)
    return tmp_path


def doctor(*arguments: str, **variables: str) -> tuple[int, list[str]]:
    """Its exit code and lines."""
    port = () if "--port" in arguments else ("--port", "0")
    done = CliRunner().invoke(app, ["doctor", *port, *arguments], env=variables)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert all(line.split()[0] in ("ok", "warn", "FAIL") and ": " in line for line in lines)
    return done.exit_code, lines


def only_failure(*arguments: str, **variables: str) -> str:
    """The one line that fails."""
    code, lines = doctor(*arguments, **variables)
    failed = [line for line in lines if line.startswith("FAIL")]
    assert (code, len(failed)) == (1, 1), lines
    assert ";" in failed[0], "it does not say how to mend it"
    return failed[0]


def of(lines: list[str], what: str) -> str:
    """The one line about *what*."""
    [found] = [line for line in lines if line[6:].startswith(f"{what}:")]
    return found


def made(folder: Path) -> Path:
    """A data folder as a gateway leaves it."""
    with RunningGateway("--data", "data", cwd=folder) as gateway:
        gateway.stop()
    return folder / "data"


# Where all is well.


def test_before_the_first_start(folder: Path) -> None:
    code, lines = doctor("--archive", "archive")
    assert code == 0
    told = [line.split(":")[0].split(maxsplit=1)[1] for line in lines]
    assert told == [
        "settings", "data", "store", "adapter", "port", "administration", "public URL", "egress",
        "identities", "mailboxes",
        "archive", "clock", "versions", "filter engine",
    ]  # fmt: skip
    assert list(folder.iterdir()) == [], "it made something"


def test_a_gateway_that_runs_is_left_alone(folder: Path) -> None:
    with RunningGateway("--data", "data", cwd=folder) as gateway:
        port = gateway.url.rpartition(":")[2]
        done = run("doctor", "--data", "data", "--port", port, cwd=folder)
        assert (done.returncode, done.stderr) == (0, "")
        lines = done.stdout.splitlines()
        assert "a gateway uses it" in of(lines, "data")
        assert "a gateway answers, and is ready" in of(lines, "port")
        for what in ("store", "adapter"):
            assert "is sound" in of(lines, what)
        assert gateway.stop() == 0
    code, lines = doctor("--data", "data", "--port", port)
    assert code == 0
    assert "no gateway uses it" in of(lines, "data")
    assert "is free" in of(lines, "port")


# Settings.


def test_a_failure_ends_the_process_with_1(folder: Path) -> None:
    done = run("doctor", "--port", "0", "--adapter", "nothing:", cwd=folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert "\nFAIL  adapter: " in done.stdout


def test_an_unknown_setting_in_the_file(folder: Path) -> None:
    (folder / "dragoman.toml").write_text('publik_url = "http://x"\n')
    assert "did you mean public_url?" in only_failure()


def test_several_settings_are_told_at_once(folder: Path) -> None:
    (folder / "dragoman.toml").write_text('slots = 0\nzzz = 1\nlog = "loud"\n')
    code, lines = doctor(DRAGOMAN_GRACE="soon")
    failed = [line for line in lines if line.startswith("FAIL")]
    assert code == 1 and len(failed) == 4
    for said in (
        "dragoman.toml: slots: ",
        "dragoman.toml: zzz: there is no such setting; remove it",
        "dragoman.toml: log: ",
        "DRAGOMAN_GRACE: grace: ",
    ):
        assert sum(said in line for line in failed) == 1, said
    assert "mend the settings first" in of(lines, "the rest")
    assert of(lines, "clock").startswith("ok")


def test_a_file_that_is_no_toml(folder: Path) -> None:
    (folder / "dragoman.toml").write_text("port: 80\n")
    assert "dragoman.toml" in only_failure()


def test_an_option(folder: Path) -> None:
    assert "--public-url: " in only_failure("--public-url", "ftp://x")


def test_settings_that_do_not_go_together(folder: Path) -> None:
    """It is said of the one that asks for the other, where that was set."""
    said = "it needs tls_certificate; correct it there"
    assert f"settings: --soap-tcps-port: {said}" in only_failure("--soap-tcps-port", "0")
    line = only_failure(DRAGOMAN_SOAP_TCPS_PORT="0")
    assert f"settings: DRAGOMAN_SOAP_TCPS_PORT: soap_tcps_port: {said}" in line


def test_a_row_with_a_setting_that_is_none(folder: Path) -> None:
    (folder / "dragoman.toml").write_text('[[consumers]]\naddress = "x.org"\nhttps = "1.0"\n')
    assert "dragoman.toml: consumers.0.https: there is no such setting" in only_failure()


def test_words_to_choose_from(folder: Path) -> None:
    line = only_failure(DRAGOMAN_MAILBOX_OVERFLOW="drop")
    assert "mailbox_overflow: must be dead-letter-oldest or refuse" in line


def test_variables_of_the_environment(folder: Path) -> None:
    """One that is none is a warning; those of other commands and of the adapter are known."""
    code, lines = doctor(
        DRAGOMAN_PUBLIC_ULR="http://x",
        DRAGOMAN_GATEWAY="http://x",
        DRAGOMAN_ADAPTER_SETTINGS__PREFETCH="8",
        DRAGOMAN_SLOTS="8",
    )
    assert code == 0
    warned = [line for line in lines if line.startswith("warn") and "DRAGOMAN" in line]
    assert len(warned) == 1
    assert "DRAGOMAN_PUBLIC_ULR is not a setting" in warned[0]
    assert "did you mean DRAGOMAN_PUBLIC_URL?" in warned[0]


# Folders.


@pytest.mark.parametrize("option", ["--data", "--archive"])
def test_a_file_in_the_way(folder: Path, option: str) -> None:
    (folder / "file").write_text("")
    for path in ("file", "file/below"):
        line = only_failure(option, path)
        assert f"{option[2:]}: " in line and f"choose another with {option}" in line


def test_a_folder_that_may_not_be_written(folder: Path) -> None:
    """As another user where this one may write everywhere."""
    unwritable = folder / "data"
    unwritable.mkdir()
    unwritable.chmod(0o555)
    if os.getuid() != 0:
        line = only_failure("--data", "data")
    else:
        mount = shutil.which("mount")
        assert mount is not None
        tmpfs = [mount, "-t", "tmpfs", "-o", "ro", "tmpfs", str(unwritable)]
        done = subprocess.run(tmpfs, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"root writes everywhere, and may not mount here: {done.stderr.strip()}")
        try:
            line = only_failure("--data", "data")
        finally:
            subprocess.run(["umount", str(unwritable)], check=True)
    assert "cannot be written" in line


def test_little_room(folder: Path) -> None:
    mount = shutil.which("mount")
    small = folder / "small"
    small.mkdir()
    if mount is None or os.getuid() != 0:
        pytest.skip("only root may mount a small file system")
    tmpfs = [mount, "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)]
    done = subprocess.run(tmpfs, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no small file system here: {done.stderr.strip()}")
    try:
        assert "8 MiB are free" in only_failure("--data", "small")
    finally:
        subprocess.run(["umount", str(small)], check=True)


# Databases.


@pytest.mark.parametrize(("file", "what"), [("store.db", "store"), ("journal.db", "adapter")])
def test_a_database(folder: Path, file: str, what: str) -> None:
    """Damaged in its middle; overwritten; replaced by something else; locked."""
    data = made(folder)
    path = data / file
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    line = only_failure("--data", "data")
    assert f"{what}: " in line and "is damaged" in line and file in line
    path.write_bytes(b"not a database, but long enough to be taken for one" * 100)
    line = only_failure("--data", "data")
    assert "is damaged" in line and file in line
    path.unlink()
    path.mkdir()
    assert "cannot be read" in only_failure("--data", "data")
    path.rmdir()
    path.write_bytes(whole)
    assert doctor("--data", "data")[0] == 0


def test_what_a_crash_leaves_is_sound(folder: Path) -> None:
    """And is read without being changed: the next start does that."""
    with RunningGateway("--data", "data", cwd=folder) as gateway:
        gateway.stop(signal.SIGKILL)
    log = folder / "data" / "journal.db-wal"
    before = log.read_bytes()
    assert before
    code, lines = doctor("--data", "data")
    assert code == 0
    for what in ("store", "adapter"):
        assert "is sound" in of(lines, what)
    assert log.read_bytes() == before


def test_a_store_in_memory() -> None:
    code, lines = doctor("--store", "sqlite://")
    assert code == 0 and of(lines, "store").startswith("warn")


@pytest.mark.parametrize(
    ("revision", "why"),
    [
        ("9999", "which a newer Dragoman wrote"),
        ("0022", "upgrades from 0023 on; open it once with"),
    ],
)
def test_a_store_of_another_schema(folder: Path, revision: str, why: str) -> None:
    with contextlib.closing(sqlite3.connect(made(folder) / "store.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        connection.execute("UPDATE versions SET version = 9999 WHERE name = 'oldest_schema'")
        connection.commit()
    line = only_failure("--data", "data")
    assert f"schema {revision}, " in line and why in line


def test_a_store_that_a_start_migrates(folder: Path) -> None:
    make_0023(f"sqlite:///{folder / 'store.db'}")
    code, lines = doctor("--store", f"sqlite:///{folder / 'store.db'}")
    assert (code, of(lines, "schema")) == (
        0,
        f"warn  schema: a start migrates the store from schema 0023 to {migrations.newest()}, and an "
        "older Dragoman cannot use it afterwards: the only way back is the copy that it puts beside "
        "it, store-schema-0023.db",
    )


def test_a_restore_that_did_not_end(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "restoring").touch()
    assert "holds half of a backup" in only_failure("--data", "data")


def test_a_newer_journal(folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(made(folder) / "journal.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    assert "version 99, which a newer Dragoman wrote" in only_failure("--data", "data")


def test_a_store_of_another_program(folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "other.db")) as connection:
        connection.execute("CREATE TABLE x (y)")
    line = only_failure("--store", f"sqlite:///{folder / 'other.db'}")
    assert "another program" in line


def test_a_large_database_is_read_for_some_time_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(sqlite3.connect(folder / "store.db")) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num)")
        connection.executemany("INSERT INTO alembic_version VALUES (?)", [("0001",)] * 100_000)
        connection.commit()
    monkeypatch.setattr(checks.files, "CHECKED", 0.0)
    [finding] = checks.files.check_file("store", folder / "store.db", lambda _: None)
    assert finding.verdict is Verdict.OK and "as far as it was read" in finding.text


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u:hunter2@127.0.0.1:1/d", "cannot be reached"),
        ("nonsense", "its URL cannot be read"),
        ("oracle://u:hunter2@127.0.0.1/d", "store: "),
    ],
)
def test_a_store_that_is_not_there(folder: Path, url: str, said: str) -> None:
    line = only_failure(DRAGOMAN_STORE=url)
    assert said in line and "hunter2" not in line


# What is connected to.


@pytest.mark.parametrize(
    ("url", "settings", "said"),
    [
        ("embeded:", "{}", "did you mean embedded:?"),
        ("kafka://u:hunter2@x", "{}", "no adapter has the scheme 'kafka'"),
        ("embedded:", '{"prefech": "1"}', "did you mean 'prefetch'?"),
        ("embedded:", '{"prefetch": "many"}', "must be a number"),
    ],
)
def test_an_adapter(folder: Path, url: str, settings: str, said: str) -> None:
    line = only_failure(DRAGOMAN_ADAPTER=url, DRAGOMAN_ADAPTER_SETTINGS=settings)
    assert said in line and "hunter2" not in line


def test_a_broker_is_connected_to() -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as broker:
        port = broker.getsockname()[1]
        assert checks.peers.knock("amqp", "127.0.0.1", port).verdict is Verdict.OK
    finding = checks.peers.knock("amqp", "127.0.0.1", port)
    assert finding.verdict is Verdict.FAIL and "cannot be connected to" in finding.text


def test_a_proxy_is_connected_to(folder: Path) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as proxy:
        where = f"127.0.0.1:{proxy.getsockname()[1]}"
        url = f"http://user:hunter2@{where}"
        code, lines = doctor(DRAGOMAN_EGRESS_PROXY=url)
        assert (code, of(lines, "proxy")) == (0, f"ok    proxy: {where} can be connected to")
    line = only_failure(DRAGOMAN_EGRESS_PROXY=url)
    assert f"proxy: {where} cannot be connected to" in line and "hunter2" not in line


def test_a_port_that_another_program_has(folder: Path) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as other:
        line = only_failure("--port", str(other.getsockname()[1]))
    assert "stop the program that has it" in line


def test_a_port_with_another_web_server(folder: Path) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        try:
            line = only_failure("--port", str(other.server_port))
        finally:
            other.shutdown()
            thread.join()
    assert "stop the program that has it" in line


def test_a_port_with_another_gateway(folder: Path) -> None:
    with RunningGateway("--data", "theirs", cwd=folder) as gateway:
        port = gateway.url.rpartition(":")[2]
        line = only_failure("--data", "ours", "--port", port)
        gateway.stop()
    assert "a gateway with other data answers" in line


# SOAP.TCP.


def test_soap_tcp_of_a_gateway_that_runs_and_of_another(folder: Path) -> None:
    port = str(free_ports(1)[0])
    with RunningGateway("--data", "data", "--soap-tcp-port", port, cwd=folder) as gateway:
        code, lines = doctor("--data", "data", "--soap-tcp-port", port)
        assert (code, of(lines, "SOAP.TCP")[:2]) == (0, "ok")
        assert "a gateway answers" in of(lines, "SOAP.TCP")
        assert "with other data" in only_failure("--data", "ours", "--soap-tcp-port", port)
        assert gateway.stop() == 0
    code, lines = doctor("--data", "data", "--soap-tcp-port", port)
    assert (code, f"127.0.0.1:{port} is free" in of(lines, "SOAP.TCP")) == (0, True)


def test_soap_tcp_over_tls(folder: Path) -> None:
    certificate, key = Authority(folder).issue("localhost", "127.0.0.1")
    port = str(free_ports(1)[0])
    shown = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    given = ("--data", "data", "--soap-tcps-port", port, *shown)
    with RunningGateway(*given, cwd=folder) as gateway:
        code, lines = doctor(*given)
        assert (code, "a gateway answers" in of(lines, "SOAP.TCP")) == (0, True), lines
        asked = doctor(*given, "--tls-client-ca", str(certificate))[1]
        assert "was not asked" in of(asked, "SOAP.TCP")
        assert gateway.stop() == 0


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x0c"])
def test_a_port_of_soap_tcp_that_another_program_has(
    folder: Path, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that says nothing, or something else."""
    monkeypatch.setattr(checks.soap_tcp, "ANSWER", 0.3)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as other:

        def answer() -> None:
            with other.accept()[0] as connection, contextlib.suppress(OSError):
                connection.sendall(said)
                while connection.recv(2**16):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        line = only_failure("--soap-tcp-port", str(other.getsockname()[1]))
        thread.join()
    assert "another program has it" in line


def test_one_port_for_two(folder: Path) -> None:
    port = str(free_ports(1)[0])
    line = only_failure("--port", port, "--soap-tcp-port", port)
    assert f"soap_tcp_port is {port}, as port is" in line
    lines = doctor("--host", "203.0.113.1", "--soap-tcp-port", "0")[1]
    assert "Cannot listen on 203.0.113.1" in of(lines, "SOAP.TCP")


# Mailboxes.


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "10000 messages in each, for 2 days"),
        ({"DRAGOMAN_MAILBOXES_ONLY": "true"}, "nothing else is offered"),
        ({"DRAGOMAN_MAILBOX_OCTETS": "4194303"}, "is refused for ever"),
        ({"DRAGOMAN_MAILBOX_IDLE": "PT47H"}, "raise mailbox_idle"),
        ({"DRAGOMAN_MAX_MAILBOXES": "100"}, "lower max_mailboxes_per_owner"),
        (
            {"DRAGOMAN_MAILBOXES_ONLY": "true", "DRAGOMAN_ARCHIVE": "archive"},
            "archive is set, but nothing is published",
        ),
    ],
)
def test_mailboxes(folder: Path, variables: dict[str, str], said: str) -> None:
    code, lines = doctor(**variables)
    line = of(lines, "mailboxes")
    assert code == 0 and said in line
    assert line.startswith("ok" if ";" not in line or "nothing else" in line else "warn")


def test_an_address_that_is_not_ours(folder: Path) -> None:
    assert "Cannot listen on 203.0.113.1" in only_failure(
        "--host", "203.0.113.1", "--without-identities"
    )


@pytest.mark.parametrize(
    ("url", "host", "start"),
    [
        ("http://no-such-host.invalid", "127.0.0.1", "FAIL"),
        ("http://localhost:8080", "127.0.0.1", "ok"),
        ("http://localhost:8080", "0.0.0.0", "warn"),
        ("http://192.0.2.1", "0.0.0.0", "warn"),
        ("https://192.0.2.1", "0.0.0.0", "ok"),
    ],
)
def test_public_urls(folder: Path, url: str, host: str, start: str) -> None:
    code, lines = doctor("--public-url", url, "--host", host, "--without-identities")
    assert of(lines, "public URL").startswith(start)
    assert code == (start == "FAIL")


# The machine.


def test_a_clock_that_was_set_back(folder: Path) -> None:
    store = made(folder) / "store.db"
    os.utime(store, (time.time() + 7200,) * 2)
    code, lines = doctor("--data", "data")
    assert code == 0
    assert of(lines, "clock").startswith("warn") and "newer than now" in of(lines, "clock")


def test_the_engine() -> None:
    _, lines = doctor()
    line = of(lines, "filter engine")
    note = engine_note()
    assert line == (
        f"warn  filter engine: {engine()}: {note}" if note else "ok    filter engine: native"
    )


# The checks as such.


def findings_of(monkeypatch: pytest.MonkeyPatch, check: Check) -> Finding:
    monkeypatch.setattr(checks, "DEADLINE", 0.2)
    [finding] = checks.run([("it", check)])
    return finding


def test_one_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()

    def hang() -> Iterator[Finding]:
        never.wait()
        yield ok("it", "")

    try:
        finding = findings_of(monkeypatch, hang)
        assert finding.verdict is Verdict.FAIL and "no answer within" in finding.text
    finally:
        never.set()


def test_one_that_raises_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check() -> Iterator[Finding]:
        yield ok("it", (folder / "missing").read_text())

    finding = findings_of(monkeypatch, check)
    assert finding.verdict is Verdict.FAIL and "No such file" in finding.text
