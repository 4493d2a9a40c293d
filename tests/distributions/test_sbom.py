"""What Dragoman is installed with, listed for machines and for people."""

import json
import re
from importlib import metadata
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from distributions import sbom
from tests.conftest import ROOT


def test_it_fits_the_schema_of_cyclonedx(tmp_path: Path) -> None:
    sbom.main(["--sets", "base,client,postgresql,xquery", str(tmp_path)])
    text = (tmp_path / "sbom.cdx.json").read_text()
    check = JsonStrictValidator(SchemaVersion.V1_6)
    assert check.validate_str(text) is None
    assert check.validate_str(text.replace('"purl"', '"pearl"')) is not None


def test_what_is_locked_is_in_both_with_its_licence(tmp_path: Path) -> None:
    sbom.main(["--sets", "base,xquery", str(tmp_path)])
    found = json.loads((tmp_path / "sbom.cdx.json").read_text())
    components = {one["name"]: one for one in found["components"]}
    locked = (ROOT / "requirements" / "base.txt").read_text()
    for name in components.keys() - {"saxonche"}:
        assert f"{name}=={components[name]['version']} " in locked
    # Windows alone has need of it; here it is installed where something else wants it.
    assert set(re.findall(r"^([\w-]+)==", locked, re.MULTILINE)) - components.keys() <= {"colorama"}
    assert components["saxonche"]["licenses"] == [{"expression": "MPL-2.0"}]
    [files] = components["lxml"]["externalReferences"]
    assert files["hashes"][0]["content"] in locked
    needs = {one["ref"]: one["dependsOn"] for one in found["dependencies"]}
    assert components["lxml"]["purl"] in needs[found["metadata"]["component"]["bom-ref"]]
    assert components["pydantic-core"]["purl"] in needs[components["pydantic"]["purl"]]
    said = (tmp_path / "NOTICE").read_text()
    assert said.startswith((ROOT / "NOTICE").read_text())
    for name, one in components.items():
        assert re.search(rf"^{name} +{re.escape(one['version'])} +\w", said, re.MULTILINE)


def test_another_version_than_is_locked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "base.txt").write_text("lxml==1.0 \\\n    --hash=sha256:00\n")
    monkeypatch.setattr(sbom, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=rf"lxml {metadata.version('lxml')} is installed, and 1.0"):
        sbom.read_packages(["base"])


def test_a_package_without_a_licence_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sbom, "LICENCES", {})
    with pytest.raises(ValueError, match="saxonche names no licence"):
        sbom.read_packages(["xquery"])


def test_files_of_others_are_those_of_the_notice() -> None:
    said = (ROOT / "NOTICE").read_text()
    for folder, version in (
        ("gateway/web/swagger_ui", r"Swagger UI (\S+),"),
        ("gateway/web/console/static", r"htmx (\S+),"),
    ):
        assert folder in said
        [found] = re.findall(version, said)
        assert found in "".join(path.name for path in (ROOT / folder).iterdir()) or found in (
            ROOT / folder / "swagger-ui-bundle.js"
        ).read_text(errors="replace")
