"""penstock where Spark's packages are not installed."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from penstock.cli.app import missing

CODE = """
import sys
from penstock.cli.app import EXTRAS, main
# What is None there is not found.
sys.modules.update(dict.fromkeys(EXTRAS["spark"][1]))
sys.argv[0] = "penstock"
main()
"""
TWO = "examples/two-chains"
PLAN = [f"{TWO}/network.toml", "--hosts", "2", "--rates", f"{TWO}/rates.csv"]
PLACED = ["--placement", f"{TWO}/placement.json"]


def begin(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a Python that has none of Spark's packages."""
    return subprocess.run([sys.executable, "-c", CODE, *words], cwd=root, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    "words",
    [
        ["load", *PLAN],
        ["place", *PLAN, "--algorithm", "correlation"],
        ["estimate", *PLAN, *PLACED],
        ["simulate", *PLAN, *PLACED, "--json"],
        ["inspect", "examples/event-log"],
        ["shed", PLAN[0], "--hosts", "2", *PLACED, "--planner", "solver", "--at", "clicks=400,buys=60"],
    ],
    ids=lambda words: words[0],
)
def test_planning_and_simulation_need_no_spark(root: Path, words: list[str]) -> None:
    """What only plans works without pyspark, pyarrow, pandas, psutil and sqlglot."""
    done = begin(root, *words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [["demo"], ["run", PLAN[0], "--hosts", "2", *PLACED]], ids=lambda words: words[0])
def test_what_needs_spark_says_how_to_get_it(root: Path, words: list[str]) -> None:
    """A command that needs Spark says in one line which package to install, and leaves by 2."""
    done = begin(root, *words)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("(pip install 'penstock[spark]')")
    assert "Traceback" not in done.stderr


def test_a_pyspark_that_is_too_old_is_named() -> None:
    """Where pyspark lacks what sources need, the message names its version, and those that have it."""
    error = missing(ModuleNotFoundError("no", name="pyspark.sql.streaming.datasource"))
    assert f"pyspark {metadata.version('pyspark')} is installed, which has no pyspark.sql.streaming" in str(error)
    assert "Spark 4.2 and 4.3" in str(error)


def test_other_modules_are_not_asked_for() -> None:
    """A module that belongs to no extra is a fault of ours, and stays one."""
    with pytest.raises(ModuleNotFoundError):
        missing(ModuleNotFoundError("no", name="penstock.gone"))
