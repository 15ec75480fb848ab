"""Build the documentation's pages into ``site/``: gather them, make the API's pages from docstrings, run mkdocs.

The pages in ``docs/`` are written to be read in the repository, so links that leave the folder become links to it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build" / "pages"
REPOSITORY = "https://github.com/penstock/penstock/blob/main/"
LINK = re.compile(r"(\]\(|(?:src|srcset)=\")([^)#\s\":]+)((?:#[^)\"]*)?[)\"])")
ROOMS = {
    "penstock.api.logs": "Event logs in notebooks",
    "penstock.api.networks": "Networks in notebooks",
    "penstock.network.model": "Networks",
    "penstock.cluster.model": "Clusters",
    "penstock.workload.rates": "Rates",
    "penstock.load.model": "The load model",
    "penstock.load.statistics": "Statistics",
    "penstock.latency.estimate": "Estimates",
    "penstock.latency.mace": "Mace",
    "penstock.latency.pipelined": "Pipelined Mace",
    "penstock.latency.microbatch": "Micro-batches",
    "penstock.placement.base": "Placement",
    "penstock.shedding.program": "Shedding",
    "penstock.inspection.values": "Inspection",
    "penstock.advice.values": "Advice",
    "penstock.errors": "Errors",
}
"""Modules whose docstrings make pages, and what they are called."""


def gather() -> None:
    """Copy the pages, and turn links that leave them into links to the repository."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    (PAGES / "README.md").rename(PAGES / "index.md")
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text().replace("](docs/", "](")
        (PAGES / name.lower()).write_text(text)
    for page in PAGES.rglob("*.md"):
        home = ROOT / "docs" / page.relative_to(PAGES)
        text = page.read_text()
        page.write_text(LINK.sub(lambda found, home=home: _link(found, home), text))


def _link(found: re.Match[str], home: Path) -> str:
    before, target, after = found.groups()
    reached = Path(os.path.normpath(home.parent / target))
    if not reached.is_relative_to(ROOT / "docs"):
        target = REPOSITORY + str(reached.relative_to(ROOT)) if reached.is_relative_to(ROOT) else target
    elif reached == ROOT / "docs" / "README.md":
        target = os.path.relpath(ROOT / "docs" / "index.md", home.parent)
    return before + target + after


def api() -> None:
    """Write the pages that mkdocstrings fills from docstrings."""
    folder = PAGES / "reference" / "api"
    folder.mkdir()
    lines = ["# API", "", "From the docstrings. [Python](python.md) shows how the functions work together.", ""]
    for module, title in ROOMS.items():
        (folder / f"{module}.md").write_text(f"# {title}\n\n::: {module}\n")
        lines.append(f"* [{title}](api/{module}.md): `{module}`")
    (PAGES / "reference" / "api.md").write_text("\n".join(lines) + "\n")


def main() -> int:
    """Build; return the exit code."""
    gather()
    api()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
