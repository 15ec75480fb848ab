"""A rehearsal: policies decide once about a small network before a run begins.

What policies call is compiled when it is first used, which takes seconds; in a run these would come in the middle of
the first burst, while nobody looks.
"""

from __future__ import annotations

import attrs

from penstock.cluster import Cluster
from penstock.control.loop import Control
from penstock.control.state import State
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import Options, SimulationEngine
from penstock.workload import Rates

LOOKS = 4
COST, RATE = 0.01, 80.0
"""Of each of two queries on one of two hosts: it has 1.6 times as much to do as it can."""


def rehearse(control: Control) -> int:
    """Let a controller look at an overloaded host a few times; return how many decisions it came to.

    Parameters
    ----------
    control
        Who decides; nothing that it has learned stays.
    """
    names = ("a", "b")
    network = Network.of(
        "rehearsal",
        [Source(name=f"from-{name}") for name in names],
        [
            Operator(name=name, kind="map", inputs=(f"from-{name}",), cost=(COST,), selectivity=(1.0,))
            for name in names
        ],
        [Sink(name=f"to-{name}", input=name) for name in names],
    )  # fmt: skip
    rates = Rates.constant({f"from-{name}": RATE for name in names}, 2.0 * LOOKS)
    engine = SimulationEngine(network, Cluster.uniform(2), dict.fromkeys(names, "h1"), rates, Options())
    advising = attrs.evolve(control, act=False, every=1.0, journaled=False)
    state, flow = State(), None
    for k in range(LOOKS):
        engine.wait(k + 1.0)
        turned = advising.turn(engine, state, flow)
        state, flow = turned.state, turned.flow
    engine.close()
    return state.decisions
