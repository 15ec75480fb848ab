"""CONTRIBUTING's first change, taken as it stands there: one file and one row."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
import textwrap

import attrs
import numpy as np
import pytest

from penstock.placement import ALGORITHMS, Arrays, Row


@pytest.fixture
def steps(root):
    """The code blocks of the section, in order."""
    text = (root / "CONTRIBUTING.md").read_text()
    section = text.partition("## Your first change")[2].partition("\n## ")[0]
    return [textwrap.dedent(block) for block in re.findall(r"```\w+\n(.*?)```", section, re.DOTALL)]


@pytest.fixture
def algorithm(steps, tmp_path, monkeypatch):
    """The class of the first block, made a module, with the row of the second in the table."""
    path = tmp_path / "round_robin.py"
    path.write_text(steps[0])
    spec = importlib.util.spec_from_file_location("round_robin", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "round_robin", module)
    spec.loader.exec_module(module)
    rows = eval("{" + steps[1] + "}", {"Row": Row, "RoundRobin": module.RoundRobin})  # noqa: S307 - our own page
    for name, row in rows.items():
        assert name not in ALGORITHMS
        monkeypatch.setitem(ALGORITHMS, name, row)
    return module.RoundRobin


def test_it_deals_out_in_turn(algorithm):
    """Operators go to the hosts in turn, by falling load, and those that are fixed stay."""
    load = np.array([[4.0], [3.0], [2.0], [1.0]])
    free = Arrays.of(load, np.full(3, 10.0))
    assert algorithm()(free, np.random.default_rng(0)).tolist() == [0, 1, 2, 0]
    assert algorithm(first=2)(free, np.random.default_rng(0)).tolist() == [2, 0, 1, 2]
    held = attrs.evolve(free, fixed=np.array([-1, 2, -1, -1]))
    assert algorithm()(held, np.random.default_rng(0)).tolist() == [0, 2, 1, 2]


def test_the_command_knows_it(algorithm, steps, penstock, root, monkeypatch):
    """The command of the third step answers with the new algorithm, and measures it as its row says."""
    monkeypatch.chdir(root)
    outcome = penstock(*shlex.split(steps[2])[1:], "--json")
    assert outcome.code == 0, outcome.err
    document = outcome.document
    assert document["algorithm"] == "round-robin"
    assert document["objective"]["name"] == "balance"
    by_load = sorted(document["placement"], key=["scored", "billed", "views", "paid"].index)
    assert [document["placement"][name] for name in by_load] == ["h1", "h2", "h1", "h2"]
