"""Settings: where they come from, which counts, and what is said of one that cannot be read."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from adapters import load
from gateway.settings.settings import Settings, SettingsError, place_of, read_settings
from tests.conftest import ROOT
from tests.rigs.cases import for_each
from tests.rigs.processes import gateway_process

DEADLINE = 90.0


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("DRAGOMAN_")]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.mark.parametrize("host", ["soap.tcp://x.org", "x.org:8081", "10.1.2.3:8081", "", "x/y"])
def test_a_host_of_soap_tcp_that_is_more(host: str) -> None:
    with pytest.raises(SettingsError, match=r"soap_tcp_host: .* a name or an address"):
        read_settings(soap_tcp_host=host)


@pytest.mark.parametrize("host", ["x.org", "line-7", "10.1.2.3", "fd00::7"])
def test_a_host_of_soap_tcp(host: str) -> None:
    assert read_settings(soap_tcp_host=host).soap_tcp_host == host


def test_defaults() -> None:
    settings = read_settings()
    assert (settings.host, settings.port, settings.on_loopback) == ("127.0.0.1", 8080, True)
    assert settings.adapter.get_secret_value() == "embedded:"
    assert settings.trusted is None and settings.egress_allow == ()
    assert settings.default_lease == settings.longest_lease == timedelta(hours=24)


# What docs/settings.md says.

DOCUMENTATION = (ROOT / "docs" / "settings.md").read_text()
IN_WORDS = {
    "adapter_settings", "amqp_copies", "admin_host", "admin_port", "admin_without_identities", "without_identities", "archive", "audit", "audit_days", "consumers", "destinations", "egress_agreed", "egress_allow", "egress_forbidden", "egress_ca",
    "egress_certificate", "egress_key", "egress_ports", "egress_proxy", "egress_schemes", "hosts", "public_url", "retry_delays",
    "discovery", "engine", "mail", "mailbox_overflow", "messenger_prefixes", "soap_tcp_host", "soap_tcp_port",
    "soap_tcps_port", "store",
    "store_reserve", "strangers_bytes", "tls_certificate",
    "atna", "channels", "client_certificate_header", "console_frame_ancestors", "console_mask", "directory", "grid_events", "identities", "links", "prefixes", "relays", "signed_topics", "source_key", "sources", "tls_client_ca", "tls_key", "tls_names", "topic_namespaces", "transports", "trusted", "trusted_proxies",
    "windows_events", "ws_security", "wsrm_at",
}  # fmt: skip
"""Their defaults are told in words: nothing, or what follows from something else."""


def documented() -> dict[str, str]:
    """The settings in the table, and what it says of their defaults."""
    found: dict[str, str] = {}
    for names, default in re.findall(r"^\| (`.*?`) \| (.*?) \| ", DOCUMENTATION, re.MULTILINE):
        those = re.findall(r"`(\w+)`", names)
        defaults = re.split(r"; |(?<=`), ", default) if len(those) > 1 else [default]
        for number, name in enumerate(those):
            assert name not in found
            found[name] = defaults[min(number, len(defaults) - 1)].strip("`")
    return found


def test_every_setting_is_documented() -> None:
    assert set(documented()) == set(Settings.model_fields)


@for_each("name", sorted(set(Settings.model_fields) - IN_WORDS))
def test_defaults_are_as_documented(name: str) -> None:
    said, value = documented()[name], getattr(read_settings(), name)
    if isinstance(value, timedelta):
        number, unit = said.split()
        assert timedelta(**{unit: int(number)}) == value
    elif isinstance(value, bool):
        assert said == str(value).lower()
    elif isinstance(value, int | float):
        assert float(said.replace(",", "")) == value
    else:
        assert said == (value.get_secret_value() if name == "adapter" else str(value))


def test_the_example(folder: Path) -> None:
    [example] = re.findall(r"^    # dragoman.toml\n((?:    .*\n|\n)+)", DOCUMENTATION, re.MULTILINE)
    (folder / "dragoman.toml").write_text(textwrap.dedent(example))
    settings = read_settings()
    assert settings.public_url == "https://events.example.org"
    assert settings.egress_allow == ("10.1.0.0/16", "*.plant.example.org")
    assert (settings.soap_tcp_port, settings.mailbox_age) == (8081, timedelta(days=1))
    load(settings.adapter.get_secret_value(), data=folder, settings=settings.adapter_settings)


@pytest.mark.parametrize("adapter", ["memory:", "embedded:"])
async def test_only_what_flushes_is_told_not_to(folder: Path, adapter: str) -> None:
    """Another adapter would refuse a setting that it does not know."""
    environment = {
        "DRAGOMAN_ADAPTER": adapter,
        "DRAGOMAN_SURVIVE_POWER_LOSS": "false",
        "PYTHONPATH": str(ROOT),
    }
    async with gateway_process(folder / "data", environment) as gateway:
        assert (await gateway.request("GET", "/readyz")).status == 200


def test_precedence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "dragoman.toml").write_text('port = 1111\nhost = "::1"\nlog = "debug"\n')
    assert read_settings().port == 1111
    monkeypatch.setenv("DRAGOMAN_PORT", "2222")
    monkeypatch.setenv("DRAGOMAN_LOG", "error")
    assert read_settings().port == 2222
    settings = read_settings(port=3333, host=None)
    assert (settings.port, settings.host, settings.log) == (3333, "::1", "error")


ENVIRONMENT = [
    ("default_lease", "60", timedelta(minutes=1)),
    ("default_lease", " 1.5 ", timedelta(seconds=1.5)),
    ("longest_lease", "PT1H30M", timedelta(minutes=90)),
    ("grace", "0", timedelta()),
    ("trusted", "", ()),
    ("trusted", "10.0.0.0/8, ::1", ("10.0.0.0/8", "::1")),
    ("trusted_proxies", "10.0.0.1", ("10.0.0.1",)),
    ("egress_allow", "10.1.0.0/16,*.lan,consumer.example.org", ("10.1.0.0/16", "*.lan", "consumer.example.org")),
    ("egress_allow", '["127.0.0.0/8"]', ("127.0.0.0/8",)),
    ("hosts", "a.example, b.example", ("a.example", "b.example")),
    ("retry_delays", "1, 2.5,3", (1.0, 2.5, 3.0)),
    ("retry_delays", "[1, 2]", (1.0, 2.0)),
    ("retry_delays", "none", ()),
    ("slots", "serial", 1),
    ("slots", "parallel", 512),
    ("slots", "pcrew", 4),
    ("slots", "7", 7),
    ("public_url", "https://events.example.org:8443/base", "https://events.example.org:8443/base"),
    ("survive_power_loss", "false", False),
    ("adapter_settings", '{"prefetch": "64"}', {"prefetch": "64"}),
    ("max_subscriptions_per_owner", "5", 5),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "value"), ENVIRONMENT)
def test_environment(name: str, text: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"DRAGOMAN_{name.upper()}", text)
    assert getattr(read_settings(), name) == value


def test_former_names(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "dragoman.toml").write_text("mailbox_octets = 7\nspool_octets = 7\n")
    assert (read_settings().mailbox_bytes, read_settings().spool_bytes) == (7, 7)
    assert place_of("mailbox_bytes", ()) == "dragoman.toml"
    monkeypatch.setenv("DRAGOMAN_SPOOL_OCTETS", "8")
    assert (read_settings().mailbox_bytes, read_settings().spool_bytes) == (7, 8)
    assert place_of("spool_bytes", ()) == "DRAGOMAN_SPOOL_OCTETS"
    (folder / "dragoman.toml").write_text("mailbox_octets = 7\nmailbox_bytes = 9\n")
    assert read_settings(spool_bytes=10).spool_bytes == 10
    assert read_settings().mailbox_bytes == 9, "the name of today counts"


def test_nested_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_ADAPTER_SETTINGS__PREFETCH", "64")
    assert read_settings().adapter_settings == {"prefetch": "64"}


def test_file(folder: Path) -> None:
    (folder / "dragoman.toml").write_text(
        'default_lease = 60\nlongest_lease = "PT2H"\ntrusted = ["10.0.0.0/8"]\n'
        'retry_delays = [1, 2]\negress_allow = "127.0.0.0/8"\n[adapter_settings]\nprefetch = "64"\n'
    )
    settings = read_settings()
    assert settings.default_lease == timedelta(minutes=1)
    assert settings.longest_lease == timedelta(hours=2)
    assert settings.trusted == ("10.0.0.0/8",)
    assert settings.retry_delays == (1.0, 2.0)
    assert settings.egress_allow == ("127.0.0.0/8",)
    assert settings.adapter_settings == {"prefetch": "64"}


WRONG = [
    ("port", "x"), ("port", "65536"), ("port", "-1"), ("port", ""),
    ("default_lease", "x"), ("default_lease", "-5"), ("default_lease", "0"), ("default_lease", ""),
    ("default_lease", "PTX"), ("longest_lease", "99999999999"), ("grace", "1e400"), ("drain", "nan"),
    ("drain", "61"), ("trusted", "10.0.0.0/8,x"), ("trusted_proxies", "proxy.lan"),
    ("egress_allow", "10.0.0.0/99"), ("egress_allow", "http://x/"), ("egress_allow", "a b"),
    ("egress_allow", "[1"), ("retry_delays", ""), ("retry_delays", "1,x"), ("retry_delays", "-1"),
    ("retry_delays", "inf"), ("public_url", "events.example.org"), ("public_url", "http://"),
    ("public_url", "ftp://x"), ("public_url", "http://x:99999"), ("public_url", "http://x/?a"),
    ("public_url", "http://x/#a"), ("public_url", "http://u:p@x/"), ("public_url", "http://a b/"),
    ("public_url", "http://[::1"), ("public_url", "http://ä.example/"), ("log", "loud"),
    ("log_format", "xml"), ("slots", "0"), ("slots", "many"), ("retry_delays", "[]"), ("max_subscriptions", "0"),
    ("max_subscriptions_per_owner", "0"), ("survive_power_loss", "perhaps"),
    ("adapter_settings", "x"), ("adapter_settings", "[1]"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), WRONG)
def test_wrong(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"DRAGOMAN_{name.upper()}", text)
    with pytest.raises(SettingsError) as caught:
        read_settings()
    said = str(caught.value)
    assert name in said and "\n" not in said and len(said) < 300


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b"port = ", "dragoman.toml"),
        (b"port = 1\nport = 2\n", "dragoman.toml"),
        (b"\xff\xfe", "dragoman.toml"),
        (b"ports = 1\n", "ports"),
        (b"[adapter]\nurl = 'x'\n", "adapter"),
        (b"port = 'x'\n", "port"),
    ],
)
def test_wrong_file(folder: Path, text: bytes, named: str) -> None:
    (folder / "dragoman.toml").write_bytes(text)
    with pytest.raises(SettingsError) as caught:
        read_settings()
    assert named in str(caught.value) and "\n" not in str(caught.value)


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_ADAPTER", "amqp://user:hunter2@broker")
    monkeypatch.setenv("DRAGOMAN_STORE", "postgresql://user:hunter2@db/x")
    settings = read_settings()
    for text in (repr(settings), str(settings), str(settings.model_dump())):
        assert "hunter2" not in text
    monkeypatch.setenv("DRAGOMAN_PORT", "hunter2")
    with pytest.raises(SettingsError) as caught:
        read_settings()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("127.evil.example.org", False),
        ("", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert Settings(host=host).on_loopback is loopback


# The command itself.


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)} | more


COMMAND = [sys.executable, "-m", "gateway", "serve"]


@pytest.mark.parametrize(
    ("arguments", "more", "named"),
    [
        (["--port", "0"], {"DRAGOMAN_TRUSTED": "x"}, "trusted"),
        (["--port", "0"], {"DRAGOMAN_ADAPTER_SETTINGS": "x"}, "adapter_settings"),
        (["--port", "0", "--adapter", "kafka://user:hunter2@x"], {}, "kafka"),
        (["--port", "0", "--public-url", "x"], {}, "--public-url"),
        (["--port", "x"], {}, "port"),
        (["--port", "0", "--host", "203.0.113.1"], {}, "203.0.113.1"),
    ],
)
def test_one_line(folder: Path, arguments: list[str], more: dict[str, str], named: str) -> None:
    done = subprocess.run(
        [*COMMAND, *arguments], env=environment(**more), cwd=folder, capture_output=True,
        text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode in (1, 2)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert len(lines) == 1 and lines[0].startswith("dragoman: ") and named in lines[0]
    assert "hunter2" not in done.stdout + done.stderr
    assert done.stdout == ""


@pytest.fixture
def served(folder: Path) -> Iterator[str]:
    """The address of a gateway that runs in a process of its own."""
    (folder / "dragoman.toml").write_text('port = 1\nadapter = "memory:"\nlog_format = "json"\n')
    process = subprocess.Popen(
        [*COMMAND, "--port", "0"], env=environment(DRAGOMAN_PORT="2", DRAGOMAN_DATA="elsewhere"),
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found is not None, line + process.stderr.read()
        yield found[0]
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, errors


def test_the_command_line_wins(folder: Path, served: str) -> None:
    with urlopen(f"{served}/readyz", timeout=DEADLINE) as answer:
        assert b'"adapter":"memory"' in answer.read()
    assert (folder / "elsewhere" / "store.db").exists()
