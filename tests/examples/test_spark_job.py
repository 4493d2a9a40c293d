"""The job of Spark on Kubernetes: its manifest is valid, and it runs a command that there is."""

import re
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.spark import read_conf
from tests.conftest import ROOT
from tests.rigs.programs import run

helm = pytest.importorskip("helm_python")
TEXT = (ROOT / "examples" / "spark" / "kubernetes.yaml").read_text()
MANIFESTS: list[dict[str, Any]] = [helm.values_from_yaml(one) for one in TEXT.split("---\n")]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: one["kind"])
@pytest.mark.parametrize("version", ["1.28", "1.33"])
def test_the_manifest_is_valid(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kubernetes_validate.validate(manifest, version, strict=True)


def test_a_wrong_manifest_is_not() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    [job] = [one for one in MANIFESTS if one["kind"] == "Job"]
    wrong = job | {"spec": job["spec"] | {"backoffLimits": 0}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.33", strict=True)


def test_its_parts_know_each_other_and_the_command_there_is(tmp_path: Path) -> None:
    by_kind = {one["kind"]: one for one in MANIFESTS}
    pod = by_kind["Job"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == by_kind["ServiceAccount"]["metadata"]["name"]
    job = by_kind["Job"]["metadata"]["name"]
    assert by_kind["Service"]["spec"]["selector"] == {"job-name": job}
    [driver] = pod["containers"]
    program, *arguments = driver["args"]
    assert program == "dragoman"
    settings = (one for one in arguments if one.startswith("--conf="))
    conf = read_conf([one.removeprefix("--conf=") for one in settings])
    assert conf["spark.driver.host"].startswith(f"{by_kind['Service']['metadata']['name']}.")
    assert conf["spark.kubernetes.container.image"] == driver["image"]
    # All of its options are read before Java is looked for.
    done = run(*arguments, cwd=tmp_path, PATH="/nowhere", JAVA_HOME="")
    assert re.search("Spark needs Java 17 or later|not installed", done.stderr), done.stderr
