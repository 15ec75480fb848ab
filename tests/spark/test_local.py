"""Hosts that decide alone before each batch, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding import HostTable, build_program, make_tables
from penstock.shedding.alone import arrays_of, best_below, shares
from penstock.shedding.grid import best_below as compiled
from penstock.shedding.grid import indexed
from penstock.spark.shipped.local import Local, tables_of, tables_there
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.spec import Door, Knobs, WriterSpec


def table(split: bool = True) -> HostTable:
    """Return the table of one host with a source, and a second stream of it if there is a split."""
    operators = [Operator(name="a", kind="map", inputs=("s",), cost=(0.004,), selectivity=(1.0,))]
    if split:
        operators.append(Operator(name="b", kind="map", inputs=("s",), cost=(0.002,), selectivity=(1.0,)))
    sinks = [Sink(name=f"t{o.name}", input=o.name) for o in operators]
    network = Network.of("n", [Source(name="s")], operators, sinks)
    program = build_program(network, Cluster.uniform(1), dict.fromkeys(network.operators, "h1"))
    return make_tables(program, np.full(1, 2000.0), 0.02).hosts["h1"]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_plain_search_finds_what_the_compiled_one_finds(seed: int) -> None:
    """Going down the tree of boxes in plain numpy finds a point as good as the compiled search does."""
    rng = np.random.default_rng(seed)
    points, dims = int(rng.integers(1, 200)), int(rng.integers(1, 4))
    arrays = indexed(rng.uniform(0, 10, (points, dims)), rng.uniform(0, 10, points), {})
    rates = rng.uniform(0, 12, dims)
    mine, theirs = best_below(arrays, rates), compiled(arrays, rates)
    assert (mine < 0) == (theirs < 0)
    if mine >= 0:
        assert arrays["score"][mine] == arrays["score"][theirs]


@pytest.mark.parametrize("split", [False, True])
def test_a_written_table_decides_as_the_value_does(split: bool) -> None:
    """What a host reads from the run's folder gives the keep fractions of the table that was made."""
    made = table(split)
    document = json.loads(json.dumps(made.document()))
    for rate in (10.0, 170.0, 400.0, 1500.0):
        found = shares(arrays_of(document), document["thins"], np.array([rate]))
        assert found == pytest.approx(made.decide({"s@h1": rate}))
        assert bool(found) == (rate > 1 / 0.006 if split else rate > 250)


class Batches:
    """A query's folder, in which batches are begun: each with the number of events so far, a second apart."""

    def __init__(self, folder: Path, *, scheduled: bool = True) -> None:
        door = Door("s@h1", "s", "s->a", 1.0, scheduled)
        knobs = Knobs(("s->a", "s->b"), {}, {}, doors=(door,))
        place = Place(str(folder))
        self.spec = WriterSpec(place, "a", (), (), (), (), {}, (), timed=True, knobs=knobs, host="h1")
        self.number, self.events = 0, 0

    def begin(self, count: int) -> int:
        """Begin the next batch, with so many events."""
        self.events += count
        lines = [{"batchTimestampMs": 1000 * self.number}, {"source": "s", "event": self.events}]
        text = "\n".join(["v1", *map(json.dumps, lines)])
        (self.spec.checkpoint / "offsets" / str(self.number)).replace(text.encode())
        self.number += 1
        return self.number - 1

    def end(self, count: int) -> None:
        """End the batch that was begun last."""
        content = {"counts": {"s->a": [count, 0]}}
        place = self.spec.folder / "batches" / "a" / f"{self.number - 1:012d}.json"
        place.replace(json.dumps(content).encode())


def test_each_batch_is_decided_by_its_own_rate(tmp_path: Path) -> None:
    """Of a scheduled source the batch that takes a burst is already thinned, with nobody else at work."""
    batches = Batches(tmp_path)
    local = Local(batches.spec)
    assert local.keep(batches.begin(100)) is None
    made = table()
    tables_of(batches.spec.folder, {"h1": made.document()})
    assert local.keep(batches.begin(100)) == {}
    assert local.keep(batches.begin(100)) == {}
    assert local.keep(batches.begin(600)) == pytest.approx(made.decide({"s@h1": 600.0}))
    assert json.loads((tmp_path / "rates" / "a.json").read_text()) == {"s@h1": 600.0}
    assert local.keep(batches.begin(100)) == {}


def test_rows_of_other_sources_are_counted_when_they_have_come(tmp_path: Path) -> None:
    """A source whose offsets tell nothing is measured by the batch before."""
    batches = Batches(tmp_path, scheduled=False)
    tables_of(batches.spec.folder, {"h1": table().document()})
    local, found = Local(batches.spec), []
    for count in (50, 50, 500, 50, 50):
        found.append(local.keep(batches.begin(0)))
        batches.end(count)
    assert [bool(keep) for keep in found] == [False, False, False, True, False]


def test_other_queries_announce_what_comes_to_them(tmp_path: Path) -> None:
    """A query that sees nothing of an input itself takes the rate that another one announces."""
    batches = Batches(tmp_path)
    tables_of(batches.spec.folder, {"h1": table().document()})
    announced = tmp_path / "rates" / "other.json"
    announced.parent.mkdir()
    announced.write_text(json.dumps({"s@h1": 800.0}))
    assert Local(batches.spec).keep(batches.begin(0)) == pytest.approx(table().decide({"s@h1": 800.0}))


def test_tables_are_replaced_and_taken_away(tmp_path: Path) -> None:
    """Before its next batch a host uses the table that was written last; without one it is told what to keep again."""
    batches, folder = Batches(tmp_path), Place(str(tmp_path))
    local, first, second = Local(batches.spec), table(), table(split=False)
    tables_of(folder, {"h1": first.document()})
    local.keep(batches.begin(300))
    assert local.keep(batches.begin(300)) == pytest.approx(first.decide({"s@h1": 300.0}))
    tables_of(folder, {"h1": second.document()})
    assert local.keep(batches.begin(300)) == pytest.approx(second.decide({"s@h1": 300.0}))
    assert tables_there(folder) == {"h1": second.version}
    tables_of(folder, {"h1": None})
    assert local.keep(batches.begin(300)) is None
    assert tables_there(folder) == {}
