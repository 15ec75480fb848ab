"""Modules of python operators: whose they are, and what of them travels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from penstock.errors import InputError
from penstock.network import Operator, read_network
from penstock.network.meaning import meaning
from penstock.spark.compile.functions import import_function

NETWORK = """
name = "n"
[sources.s]
[operators.u]
kind = "python"
input = "s"
function = "{function}"
"""

STEPS = "import aside\n\ndef add(batches):\n    for batch in batches:\n        yield aside.plus(batch)\n"
ASIDE = (
    "import pyarrow as pa\nMORE = {more}\n\n"
    "def plus(batch):\n    return batch.set_column(0, 'n', pa.compute.add(batch.column('n'), MORE))\n"
)


def operator(folder: Path, function: str = "steps:add") -> Operator:
    """Return the operator of a network in a folder."""
    (folder / "network.toml").write_text(NETWORK.format(function=function))
    return read_network(folder / "network.toml").operators["u"]


def write(folder: Path, more: int) -> Path:
    """Write modules of the same names and other contents to a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "steps.py").write_text(STEPS)
    (folder / "aside.py").write_text(ASIDE.format(more=more))
    return folder


def shipped(function: Any) -> list[int]:
    """Return what a function makes of a 1 where nobody has its modules."""
    there = cloudpickle.loads(cloudpickle.dumps(function))
    numbers: list[int] = pa.Table.from_batches(there(iter([pa.record_batch({"n": [1]})])))["n"].to_pylist()
    return numbers


def test_each_network_has_the_modules_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks in several folders and the current folder may have modules of the same names, and all of them travel."""
    one, two, here = (operator(write(tmp_path / name, more)) for name, more in (("a", 10), ("b", 20), ("here", 30)))
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(tmp_path / "here")
    import aside  # type: ignore[import-not-found]

    path = [*sys.path]
    first, second = import_function(one), import_function(two)
    assert [shipped(first), shipped(second), shipped(import_function(here))] == [[11], [21], [31]]
    assert sys.modules.pop("aside") is aside
    assert "steps" not in sys.modules
    assert sys.path == path
    assert import_function(one) is first


def test_packages_travel_with_their_parts(tmp_path: Path) -> None:
    """A function in a package imports parts of it by their relative names, with a file for the package or without."""
    for name in ("whole", "bare"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.py").write_text(ASIDE.format(more=2))
        text = STEPS.replace("import aside", "from . import part").replace("aside", "part")
        (tmp_path / name / "steps.py").write_text(text)
    (tmp_path / "whole/__init__.py").touch()
    for name in ("whole", "bare"):
        assert shipped(import_function(operator(tmp_path, f"{name}.steps:add"))) == [3]


def test_a_run_takes_modules_as_they_are_when_it_begins(tmp_path: Path) -> None:
    """What has changed since the last run is imported again, and nothing changes while one goes on."""
    step = operator(write(tmp_path, 1))
    assert shipped(import_function(step, anew=True)) == [2]
    write(tmp_path, 100)
    assert shipped(import_function(step)) == [2]
    assert shipped(import_function(step, anew=True)) == [101]


def test_names_of_pythons_own_modules_are_refused(tmp_path: Path) -> None:
    """A user's module called as one of Python's would be taken for it by all that is imported."""
    (tmp_path / "queue.py").write_text(STEPS)
    with pytest.raises(InputError, match=r"operators\.u\.function: 'queue' is a module of Python's own"):
        import_function(operator(tmp_path, "queue:add"))


def test_what_is_installed_below_the_folder_is_not_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment beside the network's file stays what it is to the rest of the process."""
    packages = tmp_path / ".venv/lib/python3/site-packages"
    packages.mkdir(parents=True)
    monkeypatch.syspath_prepend(packages)
    (packages / "aside.py").write_text(ASIDE.format(more=5))
    (tmp_path / "steps.py").write_text(STEPS)
    assert shipped(import_function(operator(tmp_path))) == [6]
    assert sys.modules.pop("aside").__file__ == str(packages / "aside.py")


def test_a_run_goes_on_where_its_folder_has_moved(tmp_path: Path) -> None:
    """Where a module lies is no part of what a network means."""
    operator(tmp_path)
    network = read_network(tmp_path / "network.toml")
    moved = attrs.evolve(network, operators={"u": attrs.evolve(network.operators["u"], folder="/elsewhere")})
    assert network.operators["u"].folder == str(tmp_path)
    assert meaning(moved) == meaning(network)
    assert moved.operators == network.operators
