import json
import re
import textwrap
import tomllib
from base64 import b64decode
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from adapters import load
from gateway.mailboxes.quotas import MailboxQuotas
from gateway.model.mailboxes import MailboxBounds
from gateway.security.resource_addresses import ResourceKind
from gateway.server.process import IN_ALL
from gateway.settings.settings import FORMER_NAMES, Settings, read_settings
from tests.helm.paths import CHART, ROOT
from tests.helm.releases import (
    EVERYTHING,
    EXISTING,
    EXISTING_SECRETS,
    INGRESS,
    MAILBOXES,
    MEMORY,
    OPERATED,
    PERSISTENCE,
    POSTGRESQL,
    PROXY,
    RABBITMQ,
    RELEASES,
    SEVERAL,
    SOAP_TCP,
    TLS,
)

helm = pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel for this machine")
kubernetes_validate = pytest.importorskip("kubernetes_validate")

from tests.helm.rendering import Rendered, read_yaml  # noqa: E402 - what it needs may be missing

KUBERNETES = ["1.25", "1.31", "1.37"]
"""The oldest that the chart is for, the newest whose schemas there are, and one between."""
OF_OPERATORS = {"monitoring.coreos.com/v1", "gateway.networking.k8s.io/v1"}
"""What is not Kubernetes' own has no schema here."""
# What the chart decides, or has a value of its own for.
OF_THE_CHART = {
    "adapter",
    "adapter_settings",
    "admin_host",
    "admin_port",
    "admin_without_identities",
    "without_identities",
    "audit",
    "data",
    "egress_allow",
    "egress_ca",
    "egress_proxy",
    "host",
    "hosts",
    "identities",
    "mailbox_age",
    "mailbox_idle",
    "mailbox_messages",
    "mailbox_bytes",
    "mailbox_overflow",
    "mailboxes_only",
    "port",
    "public_url",
    "soap_tcp_host",
    "soap_tcp_port",
    "soap_tcps_port",
    "store",
    "tls_certificate",
    "tls_client_ca",
    "tls_key",
    "trusted_proxies",
}
every_release = pytest.mark.parametrize("values", RELEASES.values(), ids=RELEASES.keys())


def settings_of(
    release: Rendered, folder: Path, monkeypatch: pytest.MonkeyPatch, **secrets: Any
) -> Settings:
    """The settings that a gateway has in the pod."""
    (folder / "dragoman.toml").write_text(release.toml)
    monkeypatch.chdir(folder)
    for name, value in release.environment(**secrets).items():
        monkeypatch.setenv(name, value)
    return read_settings()


# ------------------------------------------------------------------------------- what is rendered


@every_release
def test_lint_finds_nothing(values: dict[str, Any]) -> None:
    report = helm.lint(CHART, values, strict=True, namespace="events")
    findings = [message for message in report["messages"] if message["severity"] > 1]
    assert (findings, report["errors"]) == ([], [])


@pytest.mark.parametrize("version", KUBERNETES)
@every_release
def test_kubernetes_knows_every_field(values: dict[str, Any], version: str) -> None:
    release = Rendered(values)
    for manifest in (*release.manifests, *release.hooks.values()):
        if manifest["apiVersion"] not in OF_OPERATORS:
            kubernetes_validate.validate(manifest, version, strict=True)


def test_an_unknown_field_would_be_found() -> None:
    deployment = Rendered()["Deployment"]
    deployment["spec"]["template"]["spec"]["automountServiceAccountTokens"] = False
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, KUBERNETES[-1], strict=True)


def test_the_chart_is_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert read_yaml("Chart.yaml")["appVersion"] == project["version"]


@every_release
def test_a_pod_is_restricted(values: dict[str, Any]) -> None:
    # "Pod Security Standards", Restricted
    release = Rendered(values)
    pod, container = release.pod["spec"], release.container
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert not any("hostPath" in volume for volume in pod["volumes"])


@every_release
def test_a_service_of_that_name_sets_no_setting(values: dict[str, Any]) -> None:
    release = Rendered(values)
    assert release.pod["spec"]["enableServiceLinks"] is False
    assert release.environment(EXISTING_SECRETS)["DRAGOMAN_PORT"] == "8080"


@every_release
def test_selectors_find_the_pods(values: dict[str, Any]) -> None:
    release = Rendered(values, name="one")
    labels = release.pod["metadata"]["labels"].items()
    found = 0
    for manifest in release.manifests:
        spec = manifest.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        if selector is not None and manifest["kind"] != "ServiceMonitor":
            assert selector.get("matchLabels", selector).items() <= labels, manifest["kind"]
            found += 1
    assert found >= 2  # Deployment, Service


@every_release
def test_ports_and_probes_meet(values: dict[str, Any]) -> None:
    release = Rendered(values)
    names = {port["name"]: port["containerPort"] for port in release.container["ports"]}
    scheme = "https" if "tls" in values else "http"
    assert names[scheme] == 8080 and len(names.keys() & {"http", "https"}) == 1
    ports = release["Service"]["spec"]["ports"] + release.soap_tcp_ports
    assert ports[0]["name"] == ports[0]["targetPort"] == scheme
    assert len({port["port"] for port in ports}) == len(ports) == len(names) - 1
    # The administration is on a port that no Service for peers has.
    assert "admin" not in {port["targetPort"] for port in ports}
    (admin,) = release.admin["spec"]["ports"]
    assert (admin["targetPort"], admin["port"]) == ("admin", names["admin"])
    assert release.admin["spec"]["type"] == "ClusterIP"
    for port in ports[1:]:  # Addresses are given out with the port that is listened on.
        assert port["port"] == names[port["targetPort"]]
    for probe, path in (
        ("startup", "/healthz"),
        ("liveness", "/healthz"),
        ("readiness", "/readyz"),
    ):
        asked = {"path": path, "port": scheme} | ({"scheme": "HTTPS"} if "tls" in values else {})
        expected = {"httpGet": asked}
        if values.get("tls", {}).get("clientCaKey"):
            expected = {"tcpSocket": {"port": scheme}}
        assert release.container[f"{probe}Probe"].items() >= expected.items()
        assert len(release.container[f"{probe}Probe"].keys() & {"httpGet", "tcpSocket"}) == 1


@pytest.mark.parametrize("wait", [0, 5, 60])
def test_a_pod_gets_the_time_to_stop(wait: int) -> None:
    release = Rendered({"preStopSeconds": wait})
    assert release.pod["spec"]["terminationGracePeriodSeconds"] >= wait + IN_ALL + 5
    stop = release.container.get("lifecycle")
    assert stop == ({"preStop": {"exec": {"command": ["sleep", str(wait)]}}} if wait else None)


def test_by_default_one_gateway_keeps_all_in_a_volume() -> None:
    release = Rendered()
    assert release.kinds == [
        "ConfigMap",
        "Deployment",
        "PersistentVolumeClaim",
        "Service",
        "Service",
    ]
    assert release["Deployment"]["spec"]["replicas"] == 1
    assert release["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    claim = release["PersistentVolumeClaim"]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert (
        release.volumes["data"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    )


def test_several_gateways_roll_and_share_no_volume() -> None:
    release = Rendered(SEVERAL)
    assert release.kinds == [
        "ConfigMap",
        "Deployment",
        "PodDisruptionBudget",
        "Secret",
        "Service",
        "Service",
    ]
    assert release["Deployment"]["spec"]["replicas"] == 3
    assert release["Deployment"]["spec"]["strategy"]["type"] == "RollingUpdate"
    assert release["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert release.volumes["data"] == {"name": "data", "emptyDir": {}}
    assert release.pod["spec"]["topologySpreadConstraints"][0]["whenUnsatisfiable"] == (
        "ScheduleAnyway"
    )


def test_a_broker_without_a_database_needs_the_volume() -> None:
    release = Rendered({"adapter": {"url": RABBITMQ}})
    assert release["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    assert "persistentVolumeClaim" in release.volumes["data"]


def test_a_claim_that_exists() -> None:
    release = Rendered({"persistence": {"existingClaim": "mine"}})
    assert "PersistentVolumeClaim" not in release.kinds
    assert release.volumes["data"]["persistentVolumeClaim"] == {"claimName": "mine"}


def test_persistence() -> None:
    claim = Rendered(PERSISTENCE)["PersistentVolumeClaim"]
    assert claim["spec"]["resources"] == {"requests": {"storage": "20Gi"}}
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["metadata"]["annotations"]["backup"] == "daily"


def test_credentials_are_in_the_secret_alone() -> None:
    release = Rendered(SEVERAL)
    environment = release.environment()
    assert environment["DRAGOMAN_ADAPTER"] == RABBITMQ
    assert environment["DRAGOMAN_STORE"] == POSTGRESQL
    shown = (*release.manifests, *release.hooks.values())
    rest = json.dumps([one for one in shown if one["kind"] != "Secret"])
    for secret in ("p%40ss", "secret@"):
        assert secret not in rest + release.notes


def test_secrets_that_exist() -> None:
    release = Rendered(EXISTING)
    assert "Secret" not in release.kinds
    environment = release.environment(EXISTING_SECRETS)
    assert environment["DRAGOMAN_ADAPTER"] == RABBITMQ
    assert environment["DRAGOMAN_STORE"] == POSTGRESQL


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"adapter": {"url": "amqp://dragoman:new@rabbitmq/"}}, id="a credential"),
        pytest.param({"settings": {"log": "debug"}}, id="a setting"),
        pytest.param({"mailboxes": {"messages": 7}}, id="what is offered"),
        pytest.param({"egress": {"proxy": {"url": "http://proxy:3128"}}}, id="the proxy"),
    ],
)
def test_a_change_rolls_the_pods(change: dict[str, Any]) -> None:
    before = {"adapter": {"url": "amqp://dragoman:old@rabbitmq/"}}
    assert Rendered(before).pod == Rendered(before).pod
    assert Rendered(before).pod != Rendered({**before, **change}).pod


def test_an_ingress_offers_what_strangers_need() -> None:
    release = Rendered(INGRESS)
    spec = release["Ingress"]["spec"]
    assert spec["ingressClassName"] == "nginx"
    assert spec["tls"] == [{"hosts": ["events.example.org"], "secretName": "events-tls"}]
    (rule,) = spec["rules"]
    assert rule["host"] == "events.example.org"
    offered = [path["path"] for path in rule["http"]["paths"]]
    for door in ("/soap/topic/", "/events/topic/", *(kind.value for kind in ResourceKind)):
        assert any(door.startswith(f"{path}/") for path in offered), door
    for administration in ("/api", "/metrics", "/docs", "/openapi.json", "/healthz"):
        assert not any(administration.startswith(path) for path in offered)
    service = release["Service"]
    for path in rule["http"]["paths"]:
        assert path["backend"]["service"] == {
            "name": service["metadata"]["name"],
            "port": {"name": service["spec"]["ports"][0]["name"]},
        }


def test_a_network_policy_lets_in_whom_it_names() -> None:
    policy = Rendered(EVERYTHING)["NetworkPolicy"]["spec"]
    ports = [{"port": "https"}, {"port": "soap-tcp"}, {"port": "soap-tcps"}]
    assert policy["ingress"] == [
        {"ports": ports, "from": [{"namespaceSelector": {}}]},
        {"ports": [{"port": "admin"}], "from": [{"podSelector": {}}]},
    ]
    policy = Rendered({"networkPolicy": {"enabled": True, "from": [{"podSelector": {}}]}})
    (rule,) = policy["NetworkPolicy"]["spec"]["ingress"]
    assert rule["ports"] == [{"port": "http"}]
    nobody = Rendered({"networkPolicy": {"enabled": True}})["NetworkPolicy"]["spec"]
    assert (nobody["ingress"], nobody["policyTypes"]) == ([], ["Ingress"])


def test_a_network_policy_lets_out_where_it_says() -> None:
    policy = Rendered(OPERATED)["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    names, internet, broker = policy["egress"]
    assert {port["port"] for port in names["ports"]} == {53} and "to" not in names
    assert broker == OPERATED["networkPolicy"]["egress"]["rules"][0]
    refused = [network for to in internet["to"] for network in to["ipBlock"]["except"]]
    for address in ("10.1.2.3", "169.254.169.254", "192.168.0.1", "fd00::1"):
        assert any(ip_address(address) in ip_network(network) for network in refused), address
    inside = {**OPERATED["networkPolicy"]["egress"], "internet": False}
    policy = Rendered({**OPERATED, "networkPolicy": {"enabled": True, "egress": inside}})
    assert policy["NetworkPolicy"]["spec"]["egress"] == [names, broker]
    assert "egress.rules" not in Rendered(OPERATED).notes
    only = {"networkPolicy": {"enabled": True, "egress": {"enabled": True}}}
    assert "networkPolicy.egress.rules" in Rendered({**SEVERAL, **only}).notes


def test_their_number_follows_the_load() -> None:
    release = Rendered(OPERATED)
    scaler = release["HorizontalPodAutoscaler"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == release["Deployment"]["metadata"]["name"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (3, 16)
    assert "replicas" not in release["Deployment"]["spec"], "an upgrade would undo the scaling"
    assert "PodDisruptionBudget" in release.kinds
    assert release["Deployment"]["spec"]["strategy"]["type"] == "RollingUpdate"
    keys = [one["topologyKey"] for one in release.pod["spec"]["topologySpreadConstraints"]]
    assert keys == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]


def test_a_route_of_the_gateway_api_offers_what_an_ingress_does() -> None:
    release = Rendered(OPERATED)
    route = release["HTTPRoute"]["spec"]
    assert route["parentRefs"] == OPERATED["httpRoute"]["parentRefs"]
    assert route["hostnames"] == ["events.example.org"]
    matches = [one["path"] for rule in route["rules"] for one in rule["matches"]]
    assert [path["value"] for path in matches] == read_yaml("values.yaml")["ingress"]["paths"]
    assert max(len(rule["matches"]) for rule in route["rules"]) <= 8
    for rule in route["rules"]:
        [backend] = rule["backendRefs"]
        assert backend == {"name": release["Service"]["metadata"]["name"], "port": 443}


def test_soap_tcp_may_have_a_service_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = Rendered(OPERATED)
    assert [port["name"] for port in release["Service"]["spec"]["ports"]] == ["https"]
    assert [port["port"] for port in release.soap_tcp_ports] == [8081]
    settings = settings_of(release, tmp_path, monkeypatch, secrets=EXISTING_SECRETS)
    assert settings.soap_tcp_host == "dragoman-soap-tcp.events.svc"


def test_the_operator_of_prometheus_finds_the_administration() -> None:
    release = Rendered(OPERATED)
    monitor = release["ServiceMonitor"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    found = [
        service["metadata"]["name"]
        for service in release.manifests
        if service["kind"] == "Service"
        and monitor["spec"]["selector"]["matchLabels"].items()
        <= service["metadata"]["labels"].items()
    ]
    assert found == [release.admin["metadata"]["name"]]
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["port"] == release.admin["spec"]["ports"][0]["name"]
    assert (endpoint["path"], endpoint["scheme"]) == ("/metrics", "https")
    assert endpoint["tlsConfig"] == {"serverName": "dragoman-admin.events.svc"}
    rules = read_yaml("files/rules.yaml")["groups"]
    assert release["PrometheusRule"]["spec"]["groups"] == rules and rules
    [dashboard] = (m for m in release.manifests if m["metadata"]["name"] == "dragoman-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert dashboard["data"]["dragoman.json"] == (CHART / "files" / "dashboard.json").read_text()


def test_the_store_is_brought_up_to_date_before_an_upgrade() -> None:
    for values, secrets in ((SEVERAL, {}), (EXISTING, EXISTING_SECRETS)):
        hooks = Rendered(values).hooks
        job = hooks["Job"]
        assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-upgrade"
        pod = job["spec"]["template"]
        [container] = pod["spec"]["containers"]
        assert container["args"] == ["store", "migrate"]
        [reference] = [one["valueFrom"] for one in container["env"] if "valueFrom" in one]
        name, key = reference["secretKeyRef"]["name"], reference["secretKeyRef"]["key"]
        # The release's own Secret is that of before the upgrade.
        held = dict(secrets)
        if secret := hooks.get("Secret"):
            weights = [int(hooks[k]["metadata"]["annotations"]["helm.sh/hook-weight"]) for k in
                       ("Secret", "Job")]  # fmt: skip
            assert weights == sorted(set(weights)), "it is there when the Job runs"
            held[secret["metadata"]["name"], "store"] = b64decode(secret["data"]["store"]).decode()
        assert held[name, key] == POSTGRESQL
        selector = Rendered(values)["Service"]["spec"]["selector"].items()
        assert not selector <= pod["metadata"]["labels"].items(), "a Service would send requests"
    assert "Job" not in Rendered().hooks, "SQLite is in use by the gateway that runs"
    assert "Job" not in Rendered({**SEVERAL, "migration": {"enabled": False}}).hooks


@pytest.mark.parametrize("values", [{}, TLS, EVERYTHING], ids=["HTTP", "TLS", "certificates"])
def test_helm_asks_whether_it_is_ready(values: dict[str, Any]) -> None:
    release = Rendered(values)
    pod = release.hooks["Pod"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    [container] = pod["spec"]["containers"]
    assert container["command"][:2] == ["python", "-c"]
    compile(container["command"][2], "ready", "exec")
    host = f"{release.admin['metadata']['name']}.events.svc"
    assert host in container["command"][2]
    assert str(release.admin["spec"]["ports"][0]["port"]) in container["command"][2]
    selector = release["Service"]["spec"]["selector"].items()
    assert not selector <= pod["metadata"]["labels"].items()


def test_further_objects_are_filled_in() -> None:
    names = {one["metadata"]["name"] for one in Rendered(OPERATED).manifests}
    assert {"dragoman-one-dashboard", "dragoman-two-dashboard"} <= names


def test_the_service_account() -> None:
    release = Rendered(OPERATED)
    account = release["ServiceAccount"]
    assert account["automountServiceAccountToken"] is False
    assert account["metadata"]["annotations"] == {"role": "events"}
    assert release.pod["spec"]["serviceAccountName"] == account["metadata"]["name"]
    # It is made after the hook has run.
    assert "serviceAccountName" not in release.hooks["Job"]["spec"]["template"]["spec"]
    given = Rendered({**SEVERAL, "serviceAccount": {"name": "mine"}})
    job = given.hooks["Job"]["spec"]["template"]["spec"]
    assert given.pod["spec"]["serviceAccountName"] == job["serviceAccountName"] == "mine"
    assert Rendered(EVERYTHING).pod["spec"]["serviceAccountName"] == "dragoman"
    assert "serviceAccountName" not in Rendered().pod["spec"]


def test_prometheus_is_told_where_metrics_are() -> None:
    annotations = Rendered(EVERYTHING).pod["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == "9090"
    assert Rendered(EVERYTHING).admin["spec"]["ports"][0]["port"] == 9090
    assert annotations["prometheus.io/scheme"] == "https"
    assert annotations["prometheus.io/path"] == "/metrics"
    assert "prometheus.io/scrape" not in Rendered().pod["metadata"]["annotations"]


def test_two_releases_have_names_of_their_own() -> None:
    one = {(m["kind"], m["metadata"]["name"]) for m in Rendered(EVERYTHING, name="one").manifests}
    two = {(m["kind"], m["metadata"]["name"]) for m in Rendered(EVERYTHING, name="two").manifests}
    assert one.isdisjoint(two)
    assert Rendered(name="one")["Service"]["metadata"]["name"] == "one-dragoman"


def test_the_image_is_of_the_charts_version() -> None:
    version = read_yaml("Chart.yaml")["appVersion"]
    assert Rendered().container["image"] == f"dragoman:{version}"
    given = {"image": {"repository": "registry.example.org/dragoman", "tag": "7"}}
    assert Rendered(given).container["image"] == "registry.example.org/dragoman:7"
    exact = Rendered(OPERATED).container["image"]
    assert exact == f"registry.example.org/dragoman@sha256:{'7' * 64}"


def test_notes_say_what_to_mind() -> None:
    notes = Rendered().notes
    assert "kubectl -n events rollout status deployment/dragoman" in notes
    assert "egressAllow" in notes
    assert "trustedProxies" not in notes
    assert "egressAllow" not in Rendered(INGRESS).notes
    unaware = {"ingress": {"enabled": True, "host": "events.example.org"}}
    assert "trustedProxies" in Rendered(unaware).notes
    assert "lost when the pod ends" in Rendered(MEMORY).notes
    assert "SOAP.TCP" not in notes
    assert "SOAP.TCP dragoman.events.svc:8081\n" in Rendered(SOAP_TCP).notes
    assert "set soapTcp.host" in Rendered({**SOAP_TCP, **INGRESS}).notes
    given = Rendered(EVERYTHING).notes
    assert "SOAP.TCP tcp.example.org:9081, with TLS 9082\n" in given
    assert "--gateway https://127.0.0.1:8080" in given and "set soapTcp.host" not in given


# ----------------------------------------------------------------------- what the gateway makes of it


@every_release
def test_the_gateway_takes_the_settings(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(Rendered(values), tmp_path, monkeypatch, secrets=EXISTING_SECRETS)
    assert (settings.host, settings.port) == ("0.0.0.0", 8080)
    assert settings.data == Path("/var/lib/dragoman")
    assert settings.public_url
    assert {"dragoman", "dragoman.events.svc.cluster.local"} <= set(settings.hosts)
    load(
        settings.adapter.get_secret_value(), data=tmp_path, settings=settings.adapter_settings
    )  # An adapter refuses settings that it does not know.


def test_settings_arrive_as_they_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(Rendered(PERSISTENCE), tmp_path, monkeypatch)
    assert settings.default_lease.total_seconds() == 3600
    assert settings.longest_lease.total_seconds() == 172800
    assert settings.max_subscriptions == 2_000_000
    assert list(settings.retry_delays or ()) == [1, 2.5, 30]
    assert settings.survive_power_loss is False
    assert settings.log_format == "json"


def test_destinations_and_settings_of_the_adapter_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(Rendered(EVERYTHING), tmp_path, monkeypatch)
    assert settings.destinations == [
        {"exchange": "orders", "pattern": "eu.#", "namespace": "urn:o"}
    ]
    assert settings.adapter_settings["queue-type"] == "quorum"


def test_mailboxes_have_the_gateways_own_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(Rendered(), tmp_path, monkeypatch)
    assert settings.mailbox_quotas == Settings.model_construct().mailbox_quotas
    assert not settings.mailboxes_only
    settings = settings_of(Rendered(MAILBOXES), tmp_path, monkeypatch)
    assert settings.mailboxes_only
    assert settings.mailbox_quotas == MailboxQuotas(
        7, 700, MailboxBounds(100, 2**20, refuse=True), 3600.0, 7200.0
    )
    settings = settings_of(Rendered({"mailboxes": {"octets": 77}}), tmp_path, monkeypatch)
    assert settings.mailbox_bytes == 77, "by its former name"


def test_tls_is_spoken_with_the_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = Rendered(TLS)
    settings = settings_of(release, tmp_path, monkeypatch)
    assert settings.web_scheme == "https"
    assert settings.public_url == "https://dragoman.events.svc"
    assert settings.tls_client_ca is None
    assert release.volumes["tls"]["secret"] == {"secretName": "events-tls"}
    assert mounted(release, settings.tls_certificate) == ("tls", "tls.crt")
    assert mounted(release, settings.tls_key) == ("tls", "tls.key")
    settings = settings_of(Rendered(EVERYTHING), tmp_path, monkeypatch)
    assert mounted(Rendered(EVERYTHING), settings.tls_client_ca) == ("tls", "ca.crt")


def test_identities_are_those_of_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = Rendered(EVERYTHING)
    settings = settings_of(release, tmp_path, monkeypatch)
    assert mounted(release, settings.identities) == ("identities", "identities.toml")
    assert settings_of(Rendered(), tmp_path, monkeypatch).identities is None


def test_soap_tcp_is_listened_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(Rendered(SOAP_TCP), tmp_path, monkeypatch)
    assert (settings.soap_tcp_port, settings.soap_tcps_port) == (8081, None)
    settings = settings_of(Rendered(EVERYTHING), tmp_path, monkeypatch)
    assert (settings.soap_tcp_port, settings.soap_tcps_port) == (9081, 9082)
    assert settings.soap_tcp_host == "tcp.example.org"
    assert settings_of(Rendered(), tmp_path, monkeypatch).soap_tcp_port is None


@pytest.mark.parametrize("kind", ["secret", "configMap"])
def test_what_is_sent(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"ca": {kind: "authorities", "key": "bundle.pem"}, "proxy": {"url": PROXY}}
    release = Rendered({"egress": given})
    settings = settings_of(release, tmp_path, monkeypatch)
    assert mounted(release, settings.egress_ca) == ("egress-ca", "bundle.pem")
    name = {"secret": {"secretName": "authorities"}, "configMap": {"name": "authorities"}}[kind]
    assert release.volumes["egress-ca"] == {"name": "egress-ca", kind: name}
    assert settings.egress_proxy is not None
    assert settings.egress_proxy.get_secret_value() == PROXY
    rest = json.dumps([one for one in release.manifests if one["kind"] != "Secret"])
    assert "p%40ss" not in rest + release.notes


def mounted(release: Rendered, path: Path | None) -> tuple[str, str]:
    """The volume in which a file is, which is there to be read, and its name there."""
    assert path is not None
    (mount,) = (
        one for one in release.container["volumeMounts"] if one["mountPath"] == str(path.parent)
    )
    assert mount["readOnly"] is True
    return mount["name"], path.name


@pytest.mark.parametrize(
    ("values", "url"),
    [
        pytest.param({}, "http://dragoman.events.svc", id="the Service"),
        pytest.param({"service": {"port": 8080}}, "http://dragoman.events.svc:8080", id="its port"),
        pytest.param(TLS, "https://dragoman.events.svc", id="TLS"),
        pytest.param(
            {**TLS, "service": {}}, "https://dragoman.events.svc:80", id="TLS on another port"
        ),
        pytest.param(INGRESS, "https://events.example.org", id="the Ingress"),
        pytest.param(
            {"ingress": {"enabled": True, "host": "events.example.org"}},
            "http://events.example.org",
            id="an Ingress without TLS",
        ),
        pytest.param(
            {**INGRESS, "publicUrl": "https://example.org/events"},
            "https://example.org/events",
            id="as given",
        ),
    ],
)
def test_the_public_url(
    values: dict[str, Any], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings_of(Rendered(values), tmp_path, monkeypatch).public_url == url


def test_the_administration_has_a_listener_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = Rendered(EVERYTHING)
    settings = settings_of(release, tmp_path, monkeypatch, secrets=EXISTING_SECRETS)
    assert settings.admin == (settings.host, 9090)
    assert release.admin["metadata"]["name"] in settings.hosts


def test_the_values_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "kubernetes.md").read_text()
    (block,) = re.findall(r"^    # values.yaml\n((?:    .*\n)+)", text, re.MULTILINE)
    release = Rendered(helm.values_from_yaml(textwrap.dedent(block)))
    settings = settings_of(release, tmp_path, monkeypatch, secrets=EXISTING_SECRETS)
    assert release["Deployment"]["spec"]["replicas"] == 3
    assert settings.public_url == "https://events.example.org"
    assert settings.adapter.get_secret_value() == RABBITMQ
    assert settings.default_lease.total_seconds() == 3600


@pytest.mark.parametrize(
    ("name", "value"),
    [("retry_delays", "none"), ("slots", "serial"), ("webhook_handshake", "always")],
)
def test_words_that_settings_take(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = settings_of(Rendered({"settings": {name: value}}), tmp_path, monkeypatch)
    assert name in given.model_fields_set


def test_every_setting_can_be_given() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    offered = schema["properties"]["settings"]["properties"]
    former = {name for name in FORMER_NAMES if FORMER_NAMES[name] not in OF_THE_CHART}
    assert set(offered) == set(Settings.model_fields) - OF_THE_CHART | former


# ------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("values", "says"),
    [
        pytest.param({"replicas": 2}, "embedded: is for one gateway", id="several on embedded:"),
        pytest.param(
            {"replicas": 2, "store": {"url": POSTGRESQL}},
            "embedded: is for one gateway",
            id="several on embedded: with a database",
        ),
        pytest.param(
            {"replicas": 2, "adapter": {"url": "MEMORY:"}, "store": {"url": POSTGRESQL}},
            "memory: is for one gateway",
            id="several on memory:",
        ),
        pytest.param(
            {"replicas": 2, "adapter": {"url": RABBITMQ}},
            "several need PostgreSQL",
            id="several on SQLite",
        ),
        pytest.param(
            {"persistence": {"enabled": False}}, "needs a volume", id="embedded: without a volume"
        ),
        pytest.param(
            {"adapter": {"url": RABBITMQ}, "persistence": {"enabled": False}},
            "SQLite keeps subscriptions on disk",
            id="SQLite without a volume",
        ),
        pytest.param(
            {"adapter": {"url": RABBITMQ, "existingSecret": {"name": "broker"}}},
            "adapter: give url or existingSecret.name, not both",
            id="two URLs",
        ),
        pytest.param(
            {"store": {"url": "mysql://db/dragoman"}},
            "must begin with postgresql://",
            id="another database",
        ),
        pytest.param({"adapter": {"url": "rabbitmq"}}, "must be a URL", id="no URL"),
        pytest.param(
            {"ingress": {"enabled": True}}, "ingress.host", id="an Ingress without a name"
        ),
        pytest.param({"tls": {"clientCaKey": "ca.crt"}}, "tls.clientCaKey", id="no certificate"),
        pytest.param(
            {"soapTcp": {"enabled": True, "tlsPort": 8082}},
            "soapTcp.tlsPort: TLS needs a certificate",
            id="SOAP.TCP without one",
        ),
        pytest.param(
            {**TLS, "soapTcp": {"tlsPort": 8082}}, "SOAP.TCP is off", id="SOAP.TCP over TLS alone"
        ),
        pytest.param(
            {"soapTcp": {"enabled": True, "port": 8080}}, "that of HTTP", id="one port for two"
        ),
        pytest.param(
            {**SOAP_TCP, "service": {"port": 8081}}, "service.port", id="a port of the Service's"
        ),
        pytest.param({"admin": {"port": 8080}}, "that of SOAP", id="administration with SOAP"),
        pytest.param(
            {"admin": {"port": 8081}, "soapTcp": {"enabled": True}},
            "SOAP.TCP has it",
            id="administration with SOAP.TCP",
        ),
        pytest.param({"soapTcp": {"port": 81}}, "/soapTcp/port", id="a port of root's"),
        pytest.param(
            {"egress": {"ca": {"secret": "one", "configMap": "two"}}}, "egress.ca", id="two CAs"
        ),
        pytest.param(
            {"egress": {"proxy": {"url": "socks5://proxy"}}}, "/egress/proxy/url", id="no proxy"
        ),
        pytest.param(
            {"egress": {"proxy": {"url": PROXY, "existingSecret": {"name": "proxy"}}}},
            "egress.proxy: give url or existingSecret.name, not both",
            id="two proxies",
        ),
        pytest.param(
            {"mailboxes": {"only": True}, "adapter": {"url": RABBITMQ}},
            "mailboxes.only: nothing is published",
            id="a broker for mailboxes alone",
        ),
        pytest.param(
            {"mailboxes": {"overflow": "drop"}}, "/mailboxes/overflow", id="an unknown overflow"
        ),
        pytest.param(
            {**SEVERAL, "autoscaling": {"enabled": True, "maxReplicas": 17}},
            "16 partitions",
            id="more gateways than partitions",
        ),
        pytest.param(
            {"autoscaling": {"enabled": True}},
            "embedded: is for one gateway",
            id="a scaled journal",
        ),
        pytest.param(
            {**SEVERAL, "autoscaling": {"enabled": True, "minReplicas": 9}},
            "autoscaling.minReplicas",
            id="fewest above most",
        ),
        pytest.param(
            {"httpRoute": {"enabled": True, "host": "a.example"}}, "parentRefs", id="no Gateway"
        ),
        pytest.param(
            {"soapTcp": {"service": {"enabled": True}}},
            "SOAP.TCP is off",
            id="a Service of nothing",
        ),
        pytest.param({"image": {"digest": "latest"}}, "/image/digest", id="no digest"),
        pytest.param(
            {"serviceAccount": {"name": "one"}, "serviceAccountName": "two"},
            "the former name of serviceAccount.name",
            id="two accounts",
        ),
        pytest.param({"replicas": 0}, "/replicas", id="no gateway"),
        pytest.param({"replica": 2}, "replica", id="a value misspelt"),
        pytest.param({"settings": {"sloots": 1}}, "sloots", id="a setting misspelt"),
        pytest.param({"settings": {"port": 9000}}, "port", id="a setting of the chart's"),
        pytest.param({"settings": {"slots": "many"}}, "/settings/slots", id="a setting's type"),
        pytest.param(
            {"adapter": {"settings": {"prefetch": 8}}}, "/adapter/settings/prefetch", id="a number"
        ),
        pytest.param({"publicUrl": "events.example.org"}, "/publicUrl", id="no public URL"),
        pytest.param({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy", id="a policy"),
    ],
)
def test_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(helm.HelmError, match=re.escape(says)):
        Rendered(values)


# ---------------------------------------------------------------------------------- what is written


def test_every_value_is_described() -> None:
    lines = (CHART / "values.yaml").read_text().splitlines()
    described, path = [], list[str]()
    for number, text in enumerate(lines):
        found = re.match(r"( *)(\w+):", text)
        if found is not None:
            path = [*path[: len(found[1]) // 2], found[2]]
            if lines[number - 1].lstrip().startswith("# --"):
                described.append(".".join(path))
    table = re.findall(r"^\| `([\w.]+)` \|", (CHART / "README.md").read_text(), re.MULTILINE)
    assert described == table
    # Each is in the schema, and each of the schema is described, or something below it.
    schema = json.loads((CHART / "values.schema.json").read_text())

    def leaves(node: dict[str, Any], prefix: str = "") -> list[str]:
        node = schema["definitions"].get(node.get("$ref", "").rpartition("/")[2], node)
        if str(node.get("description", "")).startswith("The former name"):
            return []
        if not node.get("properties") or prefix == "settings.":
            return [prefix.rstrip(".")]
        parts = node["properties"].items()
        return [leaf for name, below in parts for leaf in leaves(below, f"{prefix}{name}.")]

    assert sorted(described) == sorted(set(leaves(schema)) - {"global"})
