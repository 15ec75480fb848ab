"""Saved plan tables: what is refused, and what is read as before."""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path

import numpy as np
import pytest
from shedding_cases import FIGURE_1

from penstock.cluster import Cluster, Placement
from penstock.errors import InputError
from penstock.network import Network, Operator, Sink, Source, read_network
from penstock.shedding import PLANNERS, Exact, LookUp, Program, Question, build_program, build_table
from penstock.shedding.tables import WITHOUT_PLACES, packed, read_table, save_table, unpacked


def figure(file: Path, *, split: bool) -> Program:
    """The network of the paper's Figure 1, with a side way where streams are to split."""
    side = '[operators.c]\nkind = "map"\ninput = "a1"\ncost = 0.01\n[sinks.o3]\ninput = "c"\n' if split else ""
    file.write_text(FIGURE_1 + side)
    network = read_network(file)
    places = {name: "h2" if name.startswith("b") else "h1" for name in network.operators}
    return build_program(network, Cluster.uniform(2), Placement(places))


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("planner", PLANNERS)
def test_damage_is_told(planner: str, split: bool, tmp_path: Path) -> None:
    """A damaged table is refused, and one without a hash is as far as it would lead out of its arrays."""
    program, upto, file = figure(tmp_path / "n.toml", split=split), np.array([90.0, 60.0]), tmp_path / "table.json"
    save_table(build_table(planner, Question(Exact(program), upto, 0.4)), file)
    plan = LookUp(program, read_table(file)).plan(upto)
    document = json.loads(file.read_text())

    def changed(name: str, array: np.ndarray | None) -> None:  # type: ignore[type-arg]
        found = copy.deepcopy(document)
        found["arrays"][name] = packed(array) if array is not None else {"type": "<f8"}
        file.write_text(json.dumps(found))
        with pytest.raises(InputError, match="damaged"):
            read_table(file)
        del found["hash"]
        file.write_text(json.dumps(found))
        with contextlib.suppress(InputError):
            LookUp(program, read_table(file)).plan(upto)

    for name, part in document["arrays"].items():
        array = unpacked(part)
        other = array.astype(float) if array.dtype.kind == "i" else array.astype(np.int64)
        wrong = [np.full_like(array, number) for number in (100, -5)]
        for damage in (None, array[:-1], array[:0], array[None], *wrong, other):
            if damage is None or packed(damage) != part:
                changed(name, damage)
    # As it was written before there was a hash.
    old = {name: value for name, value in document.items() if name != "hash"}
    file.write_text(json.dumps(old | {"fingerprint": old["fingerprint"][:WITHOUT_PLACES]}))
    assert LookUp(program, read_table(file)).plan(upto) == pytest.approx(plan)


def test_tables_are_of_one_placement() -> None:
    """A table is refused for another placement also where only what costs nothing has moved."""
    operators = [
        Operator(name=name, kind="map", inputs=(given,), cost=(cost,))
        for name, given, cost in (("a", "s", 0.0), ("b", "s", 0.0), ("c", "a", 0.01), ("e", "b", 0.01))
    ]
    sinks = [Sink(name="k", input="c"), Sink(name="l", input="e", weight=3.0)]
    network = Network.of("z", [Source(name="s")], operators, sinks)

    def program(*hosts: str) -> Program:
        return build_program(network, Cluster.uniform(4), Placement(dict(zip("abce", hosts, strict=True))))

    mine = program("h1", "h2", "h3", "h4")
    table = build_table("d-fit", Question(Exact(mine), np.array([200.0])))
    LookUp(mine, table)
    with pytest.raises(InputError, match="placement"):
        LookUp(program("h2", "h1", "h3", "h4"), table)
