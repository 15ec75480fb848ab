"""What is true of every run, at every moment."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.shedding import Exact, Question, build_program, build_table
from penstock.simulation import Arrivals, MicroBatch, Move, Shed, simulate
from penstock.workload import Rates

spec = importlib.util.spec_from_file_location("simulation_networks", Path(__file__).with_name("networks.py"))
networks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(networks)

PARTS = ("delivered", "dropped", "consumed", "queued", "lost")


def grown(before, after):
    """Whether no count but what is queued, or removed as a copy, has fallen."""
    return all(after[name][part] >= row[part] for name, row in before.items() for part in PARTS if part != "queued")


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6), stops=st.tuples(st.floats(0.01, 3.0), st.floats(0.01, 3.0)), batches=st.booleans())
def test_conservation(seed, stops, batches):
    """Whenever a run of any features stops, arrived = delivered + dropped + consumed + queued + lost on each stream."""
    network, cluster, placement, arrivals, options = networks.random_case(seed)
    if batches:
        options = attrs.evolve(options, microbatch=MicroBatch(trigger=0.3, overhead=0.05, progressive=seed % 2 == 0))
    found = []
    for stop in sorted(stops):
        at = attrs.evolve(options, duration=stop, drain=False)
        result = simulate(network, cluster, placement, arrivals, attrs.evolve(at, seed=seed))
        assert result.balanced
        for row in result.streams.values():
            assert row["arrived"] == sum(row[part] for part in PARTS)
            assert min(row.values()) >= 0
        for part in ("arrived", *PARTS):
            assert result.totals[part] == sum(row[part] for row in result.streams.values())
        found.append(result.streams)
    assert grown(*found)
    drained = simulate(network, cluster, placement, arrivals, attrs.evolve(options, drain=True, seed=seed))
    assert drained.balanced


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), batches=st.booleans())
def test_moves_neither_lose_nor_double(seed, batches):
    """However operators move, what comes out of an exact one on each stream is its selectivity of what it consumed."""
    network, cluster, placement, arrivals, options = networks.random_case(seed)
    rng = np.random.default_rng(seed)
    moves = tuple(
        Move(str(rng.choice(list(network.operators))), str(rng.choice(list(cluster.hosts))), float(rng.uniform(0, 4)))
        for _ in range(6)
    )
    batch = MicroBatch(trigger=0.3, overhead=0.2, progressive=seed % 2 == 0) if batches else None
    options = attrs.evolve(options, failures=(), recoveries=(), moves=moves, drain=True, microbatch=batch, seed=seed)
    placement = {name: placement[name] for name in network.operators}
    found = simulate(network, cluster, placement, arrivals, attrs.evolve(options, keep={})).streams
    for name, operator in network.operators.items():
        if operator.emit != "exact" or operator.stateful or operator.route is not None:
            continue
        inputs = [found[stream.name]["consumed"] for stream in network.inputs(name)]
        made = sum(math.floor(n * share + 1e-9) for n, share in zip(inputs, operator.selectivity, strict=True))
        assert all(found[stream.name]["arrived"] == made for stream in network.outputs(name))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), stop=st.floats(0.01, 3.0))
def test_conservation_under_a_plan(seed, stop):
    """The same holds while a plan changes the keep fractions."""
    network, cluster, placement, arrivals, options = networks.random_case(seed)
    program = build_program(network, cluster, placement)
    if isinstance(arrivals, Arrivals):
        arrivals = Rates.constant(dict.fromkeys(network.sources, 40.0), 3.0)
    upto = arrivals.values.max(axis=1) + 1.0
    table = build_table("input-only", Question(Exact(program), upto, 0.05))
    options = attrs.evolve(options, keep={}, shed=Shed(table=table, period=0.4), duration=stop, drain=False)
    result = simulate(network, cluster, placement, arrivals, attrs.evolve(options, seed=seed))
    assert result.balanced
    assert len(result.shed) == pytest.approx(stop / 0.4, abs=1)
