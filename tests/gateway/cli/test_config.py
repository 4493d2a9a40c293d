"""``dragoman config``, and what `serve` says of settings and of where it listens."""

import json
import os
from pathlib import Path

import pytest

from gateway.settings.effective import in_force, masked_url
from gateway.settings.settings import read_settings
from tests.rigs.programs import RunningGateway, run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("DRAGOMAN_")]:
        monkeypatch.delenv(name)
    return tmp_path


WRONG = 'slots = 0\nprot = 1\nretry_delays = "x"\n'
SAID = [
    "dragoman.toml: slots: must be 1 or more",
    "dragoman.toml: prot: there is no such setting; did you mean port?",
    "dragoman.toml: retry_delays.0: must be a number",
    "DRAGOMAN_LOG: log: must be debug or info or warning or error",
    "--port: must be 65535 or less",
]


def test_serve_names_all_settings_that_are_wrong(folder: Path) -> None:
    (folder / "dragoman.toml").write_text(WRONG)
    done = run("serve", "--port", "99999", cwd=folder, DRAGOMAN_LOG="loud")
    assert (done.returncode, done.stdout) == (1, "")
    assert sorted(done.stderr.splitlines()) == sorted(f"dragoman: {text}" for text in SAID)


def test_check_names_the_same(folder: Path) -> None:
    (folder / "dragoman.toml").write_text(WRONG)
    arguments = ("config", "check", "--port", "99999", "--output", "json")
    done = run(*arguments, cwd=folder, DRAGOMAN_LOG="loud")
    assert (done.returncode, done.stderr) == (1, "")
    found = json.loads(done.stdout)
    assert all((one["verdict"], one["what"]) == ("fail", "settings") for one in found)
    assert sorted(one["text"] for one in found) == sorted(
        f"{text}; correct it there" for text in SAID
    )


def test_check_connects_to_nothing(folder: Path) -> None:
    addresses = {
        "DRAGOMAN_ADAPTER": "stomp://u:p@127.0.0.1:1",
        "DRAGOMAN_STORE": "postgresql://h/d",
    }
    done = run("config", "check", "--data", "data", cwd=folder, stdin=b"", **addresses)
    assert done.returncode == 0, done.stdout
    assert all(line.startswith("ok ") for line in done.stdout.splitlines())
    assert list(folder.iterdir()) == []
    done = run("config", "check", "--adapter", "kafka://h", cwd=folder)
    assert done.returncode == 1 and "no adapter has the scheme 'kafka'" in done.stdout


def test_show_says_where_each_comes_from(folder: Path) -> None:
    (folder / "dragoman.toml").write_text(
        'slots = 9\nport = 1\n[adapter_settings]\nprefetch = "5"\napi-token = "hunter2"\n'
    )
    variables = {"DRAGOMAN_ADAPTER": "amqp://u:hunter2@h:5672/?password=hunter2&x=1"}
    done = run(
        "config", "show", "--port", "9000", "--output", "json", cwd=folder, stdin=b"", **variables
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "hunter2" not in done.stdout
    found = {one["name"]: (one["value"], one["source"]) for one in json.loads(done.stdout)}
    assert found["port"] == (9000, "--port")
    assert found["slots"] == (9, "dragoman.toml")
    assert found["adapter"] == ("amqp://u:***@h:5672/?password=***&x=1", "DRAGOMAN_ADAPTER")
    assert found["adapter_settings"] == ({"prefetch": "5", "api-token": "***"}, "dragoman.toml")
    assert found["host"] == ("127.0.0.1", "default")
    people = run("config", "show", cwd=folder, stdin=b"", **variables).stdout
    assert "hunter2" not in people and len(people.splitlines()) == len(found)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("embedded:", "embedded:"),
        ("stomp://user@h", "stomp://user@h"),
        ("stomp://user:p%40ss@h:1/x", "stomp://user:***@h:1/x"),
        ("amqp://:p@h", "amqp://:***@h"),
        ("amqp://[::1", "***"),
    ],
)
def test_what_is_seen_of_an_address(url: str, shown: str) -> None:
    assert masked_url(url) == shown


def test_tokens_of_relays_are_not_seen() -> None:
    token = "desk-5-9f86d081884c7d65"
    settings = read_settings(
        links=[{"url": f"https://h.example/relay/{token}"}],
        relays=[{"token": token, "location": f"http://h.example/relay/{token}/"}],
        public_url=f"https://h.example/relay/{token}",
    )
    seen = list(in_force(settings, {}))
    assert not any(token in str(one.value) for one in seen)
    [links] = [one.value for one in seen if one.name == "links"]
    assert links[0]["url"].startswith("https://h.example/relay/")


def test_where_a_gateway_listens(folder: Path) -> None:
    shown = ("--public-url", "https://events.example.org", "--data", "data")
    with RunningGateway(*shown, cwd=folder) as gateway:
        assert gateway.url == "https://events.example.org"
        [ready] = [line for line in gateway.out if "is ready" in line]
        assert not any("Try, in another" in line for line in gateway.out)
        place = ready.partition("(listens on ")[2].partition(",")[0]
        assert place.startswith("127.0.0.1:") and not place.endswith(":0")
        done = run("doctor", "--data", "data", "--port", "0", "--output", "json", cwd=folder)
        texts = {one["what"]: one["text"] for one in json.loads(done.stdout)}
        assert texts["data"].endswith(f"a gateway uses it, which listens on http://{place}")
        assert texts["port"].endswith(f"the gateway with this data listens on http://{place}")
        gateway.stop()


def test_a_password_on_the_command_line_is_warned_of(folder: Path) -> None:
    url = "sqlite://u:hunter2@/"
    done = run("serve", "--store", url, "--adapter", "kafka://u:hunter2@h", cwd=folder)
    warned = [line for line in done.stderr.splitlines() if "password-on-command-line" in line]
    assert [json.loads(line)["option"] for line in warned] == ["--adapter", "--store"]
    assert "DRAGOMAN_ADAPTER" in warned[0] and "hunter2" not in done.stderr
