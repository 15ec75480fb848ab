"""penstock where Spark's packages are not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from penstock.extras import missing

CODE = """
import sys
from penstock.cli.app import main
from penstock.extras import EXTRAS
# What is None there is not found.
sys.modules.update(dict.fromkeys(EXTRAS["spark"][1]))
sys.argv[0] = "penstock"
main()
"""
TWO = "examples/two-chains"
PLAN = [f"{TWO}/network.toml", "--hosts", "2", "--rates", f"{TWO}/rates.csv"]
PLACED = ["--placement", f"{TWO}/placement.json"]


def begin(root: Path, *words: str, code: str = CODE) -> subprocess.CompletedProcess[str]:
    """Run a command in a Python that has none of Spark's packages, or other ones."""
    return subprocess.run([sys.executable, "-c", code, *words], cwd=root, capture_output=True, text=True, timeout=120)


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
def test_what_needs_spark_says_how_to_get_it(root: Path, tmp_path: Path, words: list[str]) -> None:
    """A command that needs Spark says in one line which package to install, makes nothing, and leaves by 2."""
    made = tmp_path / "made"
    done = begin(root, *words, *(["--out", str(made)] if words == ["demo"] else []))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("(in a clone of penstock: pip install '.[spark]')")
    assert "Traceback" not in done.stderr
    assert not made.exists()


def test_the_listener_says_what_it_needs(root: Path) -> None:
    """Asking the package for what needs Spark says the same as a command, in an error that imports have."""
    code = """
import sys

class Gone:
    def find_spec(self, name, *_):
        if name == "pyspark":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Gone())
from penstock import Listener
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    said = "this needs Spark, and pyspark is not installed (in a clone of penstock: pip install '.[spark]')"
    assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: {said}"


def test_a_pyspark_that_is_too_old_is_named() -> None:
    """Where pyspark lacks what sources need, the message names its version, and those that have it."""
    error = missing(ModuleNotFoundError("no", name="pyspark.sql.streaming.datasource"))
    assert f"pyspark {pyspark.__version__} is installed, which has no pyspark.sql.streaming" in str(error)
    assert "Spark 4.2 and 4.3" in str(error)


@pytest.mark.parametrize("command", ["run", "calibrate", "control", "demo"])
def test_a_client_that_is_too_old_is_named(root: Path, tmp_path: Path, command: str) -> None:
    """A pyspark whose modules lack names, with no distribution of that name, ends a command in one line and by 2."""
    (tmp_path / "pyspark" / "sql").mkdir(parents=True)
    (tmp_path / "pyspark" / "__init__.py").write_text('__version__ = "4.0.1"\n')
    (tmp_path / "pyspark" / "sql" / "__init__.py").touch()
    words = {
        "run": [PLAN[0], "--hosts", "2", *PLACED],
        "calibrate": [PLAN[0]],
        "control": [*PLAN, "--engine", "spark"],
        "demo": ["--out", str(tmp_path / "made")],
    }
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from penstock.cli.app import main; main()"
    done = begin(root, command, *words[command], code=code)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert "pyspark 4.0.1 is installed" in line
    assert "Spark 4.2 and 4.3" in line
    assert not (tmp_path / "made").exists()


def test_other_modules_are_not_asked_for() -> None:
    """A module that belongs to no extra is a fault of ours, and stays one."""
    with pytest.raises(ModuleNotFoundError):
        missing(ModuleNotFoundError("no", name="penstock.gone"))
