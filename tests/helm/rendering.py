"""Renders the chart with Helm's own engine, as `helm template` does."""

import base64
import re
from collections.abc import Mapping
from typing import Any

import helm_python as helm

from tests.helm.paths import CHART

RELEASE, NAMESPACE = "dragoman", "events"


def read_yaml(name: str) -> dict[str, Any]:
    """A file of the chart."""
    values: dict[str, Any] = helm.values_from_yaml((CHART / name).read_text())
    return values


def _is_hook(manifest: dict[str, Any]) -> bool:
    return "helm.sh/hook" in manifest["metadata"].get("annotations", {})


class Rendered:
    """The manifests of one release."""

    def __init__(self, values: Mapping[str, Any] | None = None, *, name: str = RELEASE) -> None:
        with helm.Chart.load(CHART) as chart:
            files = chart.render(dict(values or {}), name=name, namespace=NAMESPACE)
        self.notes = files.pop("dragoman/templates/NOTES.txt")
        texts = [part for text in files.values() for part in re.split(r"^---$", text, flags=re.M)]
        documents: list[dict[str, Any]] = [
            found for text in texts if (found := helm.values_from_yaml(text))
        ]
        self.manifests = [one for one in documents if not _is_hook(one)]
        """What is installed."""
        self.hooks = {one["kind"]: one for one in documents if _is_hook(one)}
        """What runs before an upgrade, and for `helm test`."""

    @property
    def kinds(self) -> list[str]:
        """The kinds, sorted."""
        return sorted(manifest["kind"] for manifest in self.manifests)

    def __getitem__(self, kind: str) -> dict[str, Any]:
        """The one manifest of *kind*; the Service is that of peers."""
        (found,) = (
            manifest
            for manifest in self.manifests
            if manifest["kind"] == kind
            and not manifest["metadata"]["name"].endswith(("-admin", "-soap-tcp", "-dashboard"))
        )
        return found

    @property
    def admin(self) -> dict[str, Any]:
        """The Service of the administration."""
        (found,) = (one for one in self.manifests if one["metadata"]["name"].endswith("-admin"))
        return found

    @property
    def soap_tcp_ports(self) -> list[dict[str, Any]]:
        """The ports of the Service of SOAP.TCP, where it has one of its own."""
        names = [m for m in self.manifests if m["metadata"]["name"].endswith("-soap-tcp")]
        return [port for found in names for port in found["spec"]["ports"]]

    @property
    def pod(self) -> dict[str, Any]:
        """The template of the pods: ``metadata`` and ``spec``."""
        template: dict[str, Any] = self["Deployment"]["spec"]["template"]
        return template

    @property
    def container(self) -> dict[str, Any]:
        """The one container."""
        (found,) = self.pod["spec"]["containers"]
        assert isinstance(found, dict)
        return found

    @property
    def toml(self) -> str:
        """dragoman.toml."""
        return str(self["ConfigMap"]["data"]["dragoman.toml"])

    @property
    def volumes(self) -> dict[str, dict[str, Any]]:
        """The volumes by name."""
        return {volume["name"]: volume for volume in self.pod["spec"]["volumes"]}

    def environment(self, secrets: Mapping[tuple[str, str], str] | None = None) -> dict[str, str]:
        """The environment of the container, as the kubelet would make it.

        Args:
            secrets: What Secrets that exist already hold, by name and key.
        """
        held = dict(secrets or {})
        for manifest in self.manifests:
            if manifest["kind"] == "Secret":
                for key, value in manifest["data"].items():
                    held[manifest["metadata"]["name"], key] = base64.b64decode(value).decode()
        found = {}
        for variable in self.container["env"]:
            if "value" in variable:
                found[variable["name"]] = variable["value"]
            else:
                reference = variable["valueFrom"]["secretKeyRef"]
                found[variable["name"]] = held[reference["name"], reference["key"]]
        return found
