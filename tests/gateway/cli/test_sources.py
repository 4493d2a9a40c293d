"""``dragoman sources`` as its users run it."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mediation.client import SPECS
from mediation.profiles import PRODUCERS
from tests.rigs.programs import RunningGateway, run
from tests.rigs.waiting import wait_until


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli-sources")


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[RunningGateway]:
    with RunningGateway("--adapter", "memory:", "--data", "own", cwd=folder) as running:
        yield running
        assert running.stop(signal.SIGTERM) == 0


@pytest.fixture(scope="module")
def producer(folder: Path) -> Iterator[RunningGateway]:
    """Another gateway, which is a producer like any other."""
    with RunningGateway("--adapter", "memory:", "--data", "other", cwd=folder) as running:
        yield running
        assert running.stop(signal.SIGTERM) == 0


def sources(gateway: RunningGateway, *arguments: str, cwd: Path) -> str:
    done = run("sources", *arguments, "--gateway", gateway.url, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_source_from_its_beginning_to_its_end(
    gateway: RunningGateway, producer: RunningGateway, folder: Path
) -> None:
    none = run("sources", "list", "--gateway", gateway.url, cwd=folder)
    assert (none.returncode, none.stdout) == (0, "")
    assert none.stderr == "There are no sources.\n"
    url = f"{producer.url}/soap"
    said = sources(gateway, "add", url, "--topic", "storms//.", "--lease", "PT10M", cwd=folder)
    assert said.startswith("added ")
    id_ = said.split()[1]
    seen: dict[str, object] = {}

    def is_live() -> bool:
        text = sources(gateway, "show", id_, "--output", "json", cwd=folder)
        seen.update(json.loads(text))
        return seen["state"] == "live"

    wait_until(is_live)
    assert (seen["url"], seen["topic"], seen["lease"]) == (url, "storms//.", 600.0)
    [listed] = json.loads(sources(gateway, "list", "--output", "json", cwd=folder))
    assert listed["id"] == id_
    table = sources(gateway, "list", cwd=folder).splitlines()
    assert table[0].split()[:4] == ["ID", "STATE", "SPEC", "PRODUCER"]
    assert id_ in table[1] and "live" in table[1]
    assert f"id            {id_}".split() == sources(gateway, "show", id_, cwd=folder).split()[:2]
    assert sources(gateway, "remove", id_, cwd=folder) == f"deleted {id_}\n"
    deadline = time.monotonic() + 60
    while run("sources", "show", id_, "--gateway", gateway.url, cwd=folder).returncode == 0:
        assert time.monotonic() < deadline


REFUSED = [
    (("add", "http://10.1.2.3/"), "refused: The policy of this gateway does not allow"),
    (("add", "http://127.0.0.1:9/", "--spec", "x"), "--spec"),
    (
        ("add", "http://127.0.0.1:9/", "--spec", "cloudevents"),
        "--spec: 'cloudevents' is not offered",
    ),
    (("add", "http://127.0.0.1:9/", "--xpath", "/a["), "--xpath"),
    (("add", "http://127.0.0.1:9/", "--ns", "w"), "--ns"),
    (("add", "http://127.0.0.1:9/", "--lease", "soon"), "lease: must be seconds"),
    (("add", "http://127.0.0.1:9/", "--allow-http"), "it goes with --bearer-file"),
    (("add", "http://127.0.0.1:9/", "--user", "u", "--bearer-file", "t"), "without --user"),
    (("add", "http://127.0.0.1:9/", "--bearer-file", "none"), "none cannot be read"),
    (("show", "0123456789ab"), "There is no such source."),
    (("remove", "0123456789ab"), "There is no such source"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED)
def test_an_error_is_one_line(
    gateway: RunningGateway, folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = run("sources", *arguments, "--gateway", gateway.url, cwd=folder)
    assert done.returncode in (1, 2)
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


@pytest.mark.parametrize("made", [("sources", "add"), ("channels", "link")], ids=" ".join)
def test_a_token_comes_from_a_file(
    gateway: RunningGateway, folder: Path, made: tuple[str, str]
) -> None:
    file = folder / "a.key"
    file.write_text("drg_a-token\nand more\n")
    at = ("--gateway", gateway.url)
    done = run(*made, "http://127.0.0.1:9/", "--bearer-file", str(file), *at, cwd=folder)
    assert done.returncode == 0, done.stderr
    id_ = done.stdout.split()[1]
    try:
        shown = sources(gateway, "show", id_, "--output", "json", cwd=folder)
        assert json.loads(shown)["credential"] == "bearer" and "drg_" not in shown
    finally:
        sources(gateway, "remove", id_, cwd=folder)


def test_the_help_names_what_a_producer_may_speak(folder: Path) -> None:
    said = " ".join(run("sources", "add", "--help", cwd=folder).stdout.split())
    assert ", ".join(version.value for version in SPECS) in said
    assert "cloudevents" not in said
    unbroken = said.replace(" ", "")  # A line may end behind any hyphen.
    for name, profile in PRODUCERS.items():
        assert f"{name}: {profile.text}".replace(" ", "") in unbroken


@pytest.mark.slow
def test_what_a_service_has_kept_is_asked_for(
    gateway: RunningGateway, producer: RunningGateway, folder: Path
) -> None:
    """The other gateway keeps nothing for who has not subscribed: then it begins now."""
    asked = ("--spec", "wse-2004-08", "--profile", "wsman", "--resource", "urn:alarms")
    said = sources(gateway, "add", f"{producer.url}/wsman", *asked, "--existing", cwd=folder)
    id_ = said.split()[1]
    seen: dict[str, object] = {}

    def is_live() -> bool:
        text = sources(gateway, "show", id_, "--output", "json", cwd=folder)
        seen.update(json.loads(text))
        return seen["state"] == "live"

    wait_until(is_live)
    assert seen["existing"] is True
    sources(gateway, "remove", id_, cwd=folder)
