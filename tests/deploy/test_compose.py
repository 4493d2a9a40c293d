"""compose.yaml: it fits the specification, and its gateways start with what it gives them."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from adapters import load
from gateway.settings.settings import Settings, read_settings
from tests.conftest import ROOT

helm = pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel for this machine")
VARIABLE = re.compile(r"\$\{(\w+):-((?:[^{}]|\$\{[^}]*\})*)\}")
GATEWAYS = ["gateway-a", "gateway-b"]


def read_yaml(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = helm.values_from_yaml(path.read_text())
    return found


COMPOSE = read_yaml(ROOT / "compose.yaml")


def interpolated(text: str, environment: dict[str, str]) -> str:
    """A value as Compose gives it to a container."""
    while VARIABLE.search(text):
        text = VARIABLE.sub(lambda found: environment.get(found[1], found[2]), text)
    return text


def settings_of(
    name: str, monkeypatch: pytest.MonkeyPatch, folder: Path, **environment: str
) -> Settings:
    monkeypatch.chdir(folder)
    for variable, value in COMPOSE["services"][name]["environment"].items():
        monkeypatch.setenv(variable, interpolated(value, environment))
    return read_settings()


def test_it_fits_the_specification() -> None:
    # From https://github.com/compose-spec/compose-spec, schema/compose-spec.json (Apache-2.0).
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text())
    check = jsonschema_rs.validator_for(schema)
    check.validate(COMPOSE)
    wrong = {**COMPOSE["services"]["rabbitmq"], "port": []}
    with pytest.raises(jsonschema_rs.ValidationError):
        check.validate({"services": {"rabbitmq": wrong}})


def test_every_file_that_is_mounted_is_there() -> None:
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            if source.startswith("."):
                assert (ROOT / source).is_file(), source
            else:
                assert source in COMPOSE["volumes"]


def test_every_image_has_a_version() -> None:
    for name, service in COMPOSE["services"].items():
        assert re.search(r":v?\d+(\.\d+)*(-\w+)?\Z", service["image"]), name


def test_each_profile_is_whole() -> None:
    services = COMPOSE["services"]
    for profile in ("rabbitmq", "activemq", "monitoring"):
        of_it = {name for name, service in services.items() if profile in service["profiles"]}
        for name in of_it:
            assert set(services[name].get("depends_on", {})) <= of_it
    assert all(service["profiles"] for service in services.values())
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len({port.rpartition(":")[0] for port in ports}) == len(ports)
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("name", GATEWAYS)
@pytest.mark.parametrize(
    "adapter",
    ["", *re.findall(r"DRAGOMAN_ADAPTER=(\S+)", (ROOT / "docs" / "compose.md").read_text())],
)
def test_a_gateway_takes_its_settings(
    name: str, adapter: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {"PASSWORD": "secret"} | ({"DRAGOMAN_ADAPTER": adapter} if adapter else {})
    settings = settings_of(name, monkeypatch, tmp_path, **given)
    url = adapter or "amqp://dragoman:secret@rabbitmq:5672/"
    assert settings.adapter.get_secret_value() == url
    assert settings.store and "secret@postgresql/" in settings.store.get_secret_value()
    load(url, data=tmp_path, settings=settings.adapter_settings)
    # Or it would not start: its administration leaves the container.
    assert settings.identities or settings.admin_without_identities
    assert settings.without_identities or not settings.open_to_everybody
    # Prometheus asks for it by that name, or it would be answered 421.
    assert name in settings.hosts
    targets = read_yaml(ROOT / "deploy" / "compose" / "prometheus.yml")["scrape_configs"][0]
    assert f"{name}:{settings.admin_port}" in targets["static_configs"][0]["targets"]
    service = COMPOSE["services"][name]
    assert {port.rpartition(":")[2] for port in service["ports"]} == {"8080", "8090"}
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    image = (ROOT / "Dockerfile").read_text()
    [data] = re.findall(r"^VOLUME (\S+)$", image, re.MULTILINE)
    assert service["volumes"] == [f"{name}:{data}"]
    assert re.findall(r"DRAGOMAN_PORT=(\d+)", image) == ["8080"]


def test_both_gateways_are_one_to_peers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one, other = (settings_of(name, monkeypatch, tmp_path) for name in GATEWAYS)
    assert one == other
    volumes = [COMPOSE["services"][name]["volumes"] for name in GATEWAYS]
    assert volumes[0] != volumes[1], "each has a data folder of its own"


def test_prometheus_and_grafana_find_each_other_and_their_files() -> None:
    services, folder = COMPOSE["services"], ROOT / "deploy" / "compose"
    prometheus, grafana = (services[name]["volumes"] for name in ("prometheus", "grafana"))
    inside = {volume.split(":")[1] for volume in prometheus + grafana}
    [rules] = read_yaml(folder / "prometheus.yml")["rule_files"]
    assert rules in inside
    [source] = read_yaml(folder / "grafana" / "datasources.yaml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    [provider] = read_yaml(folder / "grafana" / "dashboards.yaml")["providers"]
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home in inside and str(Path(home).parent) == provider["options"]["path"]


def test_rabbitmq_has_the_plug_in_that_partitions_need() -> None:
    text = (ROOT / "deploy" / "compose" / "enabled_plugins").read_text()
    assert re.fullmatch(r"\[\w+(,\w+)*\]\.\n", text)
    assert "rabbitmq_consistent_hash_exchange" in text
