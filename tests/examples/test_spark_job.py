"""The job of Spark on Kubernetes: its manifest is valid, and what it runs is a command that there is."""

import re
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.spark import read_conf
from tests.conftest import ROOT
from tests.rigs.programs import run

helm = pytest.importorskip("helm_python")
TEXT = (ROOT / "examples" / "spark" / "kubernetes.yaml").read_text()
MANIFESTS: list[dict[str, Any]] = [helm.values_from_yaml(one) for one in TEXT.split("
---
")]
    assert re.search("Spark needs Java 17 or later|not installed", done.stderr), done.stderr
