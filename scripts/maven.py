"""Fetch jars through Maven."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

ALL = "*:*"


def fetch(folder: Path, wanted: Sequence[str], what: str, without: Sequence[str] = ()) -> None:
    """Fetch jars into a folder, unless just these are there.

    Parameters
    ----------
    folder
        Where; what else is in it goes.
    wanted
        ``group:artifact:version`` of each jar; what they depend on comes, too.
    what
        How a message calls them.
    without
        ``group:artifact`` of what is left out of that, which may be `ALL`.
    """
    note, said = folder / "versions", "\n".join([*wanted, *(f"-{left}" for left in without)])
    if note.exists() and note.read_text() == said:
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise SystemExit("no mvn found: install Maven (apt-get install maven, brew install maven)")
    print(f"fetching {what} through Maven", file=sys.stderr)  # noqa: T201
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pom = folder / "pom.xml"
    pom.write_bytes(_pom(wanted, without))
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    subprocess.run([maven, "-q", "-B", "-f", pom, *goal], check=True)
    note.write_text(said)


def _pom(wanted: Sequence[str], without: Sequence[str]) -> bytes:
    """Return a Maven project that depends on the jars."""
    project = ElementTree.Element("project", xmlns="http://maven.apache.org/POM/4.0.0")
    for tag, text in (("modelVersion", "4.0.0"), ("groupId", "penstock"), ("artifactId", "jars"), ("version", "1")):
        ElementTree.SubElement(project, tag).text = text
    ElementTree.SubElement(project, "packaging").text = "pom"
    dependencies = ElementTree.SubElement(project, "dependencies")
    for coordinate in wanted:
        dependency = ElementTree.SubElement(dependencies, "dependency")
        for tag, text in zip(("groupId", "artifactId", "version"), coordinate.split(":"), strict=True):
            ElementTree.SubElement(dependency, tag).text = text
        left_out = ElementTree.SubElement(dependency, "exclusions")
        for left in without:
            exclusion = ElementTree.SubElement(left_out, "exclusion")
            for tag, text in zip(("groupId", "artifactId"), left.split(":"), strict=True):
                ElementTree.SubElement(exclusion, tag).text = text
    return ElementTree.tostring(project, encoding="utf-8", xml_declaration=True)
