"""Run the tests of the Spark engine on several versions of Spark, and write the table of what passed.

    make versions                                     # those that penstock knows
    python scripts/versions.py 4.2.1                  # one of them; only its row is written anew

Each version has an environment of its own below `.tools/versions`: the locked one, with another pyspark.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

from revision import ROOT, revision

from penstock.spark.hosts.sessions import KNOWN, minor

PAGE = ROOT / "docs" / "reference" / "versions.md"
BEGIN, END = "<!-- tests -->\n", "<!-- end -->\n"
TESTS = (
    "tests/spark", "-m", "spark and not slow and not kafka", "-q", "-p", "no:cacheprovider",
    "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder",
)  # fmt: skip


def environment(version: str) -> Path:
    """Make the locked environment with another pyspark, and return its Python."""
    folder = ROOT / ".tools" / "versions" / version
    uv = str(ROOT / ".tools/bin/uv") if (ROOT / ".tools/bin/uv").exists() else "uv"
    sync = [uv, "sync", "--locked", "--quiet", "--all-extras"]
    subprocess.run(sync, cwd=ROOT, env={**os.environ, "UV_PROJECT_ENVIRONMENT": str(folder)}, check=True)
    python = folder / "bin" / "python"
    wanted = f"pyspark[connect]=={version}" + (".*" if version.count(".") < 2 else "")
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), wanted], cwd=ROOT, check=True)
    return python


def ran(python: Path, report: Path) -> str:
    """Run the tests, and return what came of them, as a row of the table."""
    report.unlink(missing_ok=True)
    done = subprocess.run([str(python), "-m", "pytest", *TESTS, f"--junitxml={report}"], cwd=ROOT, check=False)
    if not report.exists():
        raise SystemExit(done.returncode)
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))  # noqa: S314 - pytest wrote it
    count = {key: sum(int(suite.get(key, 0)) for suite in suites) for key in ("tests", "failures", "errors", "skipped")}
    bad = count["failures"] + count["errors"]
    asked = "import pyspark, platform; print(pyspark.__version__, platform.python_version())"
    spark, version = subprocess.run(
        [str(python), "-c", asked], capture_output=True, text=True, check=True
    ).stdout.split()
    passed = count["tests"] - bad - count["skipped"]
    when = time.strftime("%Y-%m-%d")
    return f"| {spark} | {version} | {passed} | {bad} | {count['skipped']} | {when}, {revision()} |"


def written(page: str, row: str) -> str:
    """Return the page with a row in its table, instead of that of the same minor version."""
    head, rest = page.split(BEGIN)
    table, tail = rest.split(END)
    lines = table.splitlines()

    def of(line: str) -> str:
        return minor(line.split("|")[1])

    rows = sorted([line for line in lines[2:] if of(line) != of(row)] + [row], key=of)
    return head + BEGIN + "\n".join([*lines[:2], *rows]) + "\n" + END + tail


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=KNOWN, help="of Spark, such as 4.2 or 4.2.1")
    failed = False
    for version in parser.parse_args().versions:
        python = environment(version)
        row = ran(python, python.parent.parent / "tests.xml")
        print(row, file=sys.stderr)  # noqa: T201
        PAGE.write_text(written(PAGE.read_text(), row))
        failed = failed or row.split("|")[4].strip() != "0"
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
