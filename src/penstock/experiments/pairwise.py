"""Figures 6 to 10 of Xing et al.: pairwise algorithms over time, sensitivity, bursts.

The pairwise algorithms start from connected plans, in which they find much to do (section 5.1.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import attrs
import numpy as np

from penstock.cluster import Placement
from penstock.experiments.balancing import START, Setting, base, system
from penstock.experiments.base import Ask, Claimed, Made, Paper, panel
from penstock.experiments.runs import Floats, Rows, columns, listed, means, repeated, rng, swept
from penstock.placement.correlation import average_correlation

PAPER = Paper("correlation", compiled=True)
WARM, LAST = 30.0, 150.0
CONNECTED = f"connected, after a warm-up of {WARM:g} s in which only overloaded hosts give operators away"


@cache
def _recovery(setting: Setting, label: str, seed: int, k: int) -> float:
    """Return the latency ratio after an algorithm meets a connected plan and its overload."""
    given = system(setting, LAST, rng(seed, 6, k))
    return given.steered(given.connected(rng(0)), setting.policy(label, WARM), WARM, LAST, seed + k)


def _recoveries(
    ask: Ask, labels: Sequence[str], at: Sequence[float], seeds: int
) -> tuple[dict[str, object], dict[str, Floats]]:
    """Return the setup of Figures 6 and 7, and latency ratios by level."""

    def one(level: float, k: int) -> dict[str, float]:
        return {label: _recovery(base(ask.quick, level), label, ask.seed, k) for label in labels}

    measured = f"{LAST - WARM:g} s from the moment on when the algorithm is turned on"
    setup = {"hosts": base(ask.quick).hosts, "start": CONNECTED, "measured": measured, "seeds": seeds}
    return setup, swept(at, seeds, one)


@PAPER.figure("Fig. 6", "One-way pairwise algorithms")
def figure_6(ask: Ask) -> Made:
    """Measure the latency ratio of the one-way pairwise algorithms by load level."""
    at, seeds = ask.pick(([0.8, 0.9], 1), ([0.6, 0.8, 0.9, 0.95], 5))
    setup, found = _recoveries(ask, ("COR-BAL", "LLF-BAL", "RAND-BAL", "COR-GLB"), at, seeds)
    cor, llf, rand, best = columns(found)
    apart = np.minimum(np.minimum(cor, llf), rand) / best
    return setup, [
        ("COR-BAL is the best of the one-way algorithms", "below LLF-BAL and RAND-BAL at every level", found,
         ((cor < llf) & (cor < rand)).all(),
         "connected plans leave a host few kinds of operators: all of a chain, which correlate fully, so that there is "
         "nothing to choose between but the load; the three differ by a few percent"),
        ("all of them are much worse than COR-GLB", "at least twice its latency ratio, each at each level",
         listed(apart), (apart >= 2).all(),
         "but at level 0.95, where the backlog of the connected plan hardly drains, wherever operators go"),
    ], [panel("load level", "latency ratio", at, found, log=True)]  # fmt: skip


@PAPER.figure("Fig. 7", "Improved two-way algorithms")
def figure_7(ask: Ask) -> Made:
    """Measure the latency ratio of the improved two-way algorithms by load level."""
    at, seeds = ask.pick(([0.9], 1), ([0.8, 0.9, 1.0], 5))
    setup, found = _recoveries(ask, ("COR-BAL", "COR-RD-IMP", "COR-SE-IMP", "COR-GLB"), at, seeds)
    one, divide, exchange, _ = columns(found)
    return setup, [
        ("the two-way algorithms are much better than COR-BAL", "less than half at every level", found,
         (np.maximum(divide, exchange) < one / 2).all(),
         "at level 1 there is no capacity to work off the backlog of the connected plan and of the moves, wherever "
         "operators go"),
        ("COR-SE-IMP is better on average than COR-RD-IMP", "mean over levels below",
         f"{exchange.mean():.3g} and {divide.mean():.3g}", exchange.mean() < divide.mean(),
         "they are close: one draw decides"),
    ], [panel("load level", "latency ratio", at, found, log=True)]  # fmt: skip


def _over_time(setting: Setting, label: str, seed: int, k: int, last: float) -> Floats:
    """Return latency ratio, load moved so far, deviation and correlation of hosts by second, array (4, seconds)."""
    given = system(setting, last, rng(seed, 6, k))
    start = given.connected(rng(0))
    result = given.run(start, setting.policy(label, WARM), WARM, last, seed + k, trace=True)
    table = np.zeros((4, int(last - WARM)))
    table[0] = np.nan_to_num(result.by_second(WARM, last)[1]) / 0.01
    for at, load in given.load_moved(result, WARM).items():
        table[1, int(at - WARM) :] += load
    where, moves = dict(start), list(result.moves)
    for second in range(table.shape[1]):
        while moves and moves[0].time <= WARM + second:
            move = moves.pop(0)
            where[move.operator] = move.end
        hosts = given.hosts_load(Placement(where), last)
        table[2:, second] = hosts.std(axis=1).mean(), average_correlation(hosts)
    return table


@PAPER.figure("Fig. 8", "The correlation algorithms over time at level 0.9")
def figure_8(ask: Ask) -> Made:
    """Measure latency ratio, load moved, and the quality of the plans over time at level 0.9."""
    labels, seeds, last = ("COR-RD-IMP", "COR-SE-IMP", "COR-GLB"), ask.pick(1, 5), WARM + 240.0
    setting = base(ask.quick)
    runs = repeated(seeds, lambda k: {label: _over_time(setting, label, ask.seed, k, last) for label in labels})
    found = {label: each.mean(axis=0) for label, each in runs.items()}
    moved, spread = ([table[row, -1] for table in found.values()] for row in (1, 2))
    divide, exchange, best = (float(table[0].mean()) for table in found.values())
    titles = ("latency ratio", "load moved (hosts)", "mean deviation of host load", "average correlation of hosts")
    return {
        "hosts": setting.hosts, "start": CONNECTED, "measured": "240 s",
        "deviation and correlation": "of the last window", "seeds": seeds,
    }, [
        ("COR-RD-IMP moves much more load than COR-SE-IMP", "at least 1.5 times",
         f"{moved[0]:.3g} and {moved[1]:.3g}", moved[0] > 1.5 * moved[1]),
        ("COR-GLB moves less load than COR-RD-IMP but achieves better performance",
         "less load, and a lower mean latency ratio",
         f"{moved[2]:.3g} and {moved[0]:.3g} hosts; ratio {best:.3g} and {divide:.3g}",
         moved[2] < moved[0] and best < divide, "over a minute the backlog of the start hides the plans: 240 s"),
        ("the final plan of COR-RD-IMP is closer to COR-GLB's than COR-SE-IMP's is",
         "by the mean deviation of the hosts' load",
         f"RD {spread[0]:.4g}, SE {spread[1]:.4g}, GLB {spread[2]:.4g}",
         abs(spread[0] - spread[2]) < abs(spread[1] - spread[2])),
        ("COR-SE-IMP is better on average than COR-RD-IMP", "mean latency ratio below",
         f"{exchange:.3g} and {divide:.3g}", exchange < divide,
         "the longer it is measured the less its many moves weigh against the better plan of COR-RD-IMP; over 120 s, "
         "in Fig. 7, it is the other way round"),
    ], [
        panel("time since the start of the algorithm (s)", title, range(int(last - WARM)),
              {label: table[row] for label, table in found.items()}, log=not row)
        for row, title in enumerate(titles)
    ]  # fmt: skip


SWEEPS: Mapping[str, tuple[str, tuple[float, ...], tuple[float, ...]]] = {
    "hosts": ("hosts", (4, 10, 20), (4, 10)),
    "operators a host": ("per_host", (3, 5, 10, 20), (3, 10)),
    "statistics window (s)": ("window", (5, 10, 20), (5, 10)),
    "samples in the window": ("samples", (5, 10, 20), (5, 10)),
    "cycle of the rates (s)": ("cycle", (5, 10, 20), (10, 20)),
    "high rate over low": ("ratio", (2, 4, 8), (4, 8)),
}
"""Of Figure 9: what is changed, over which values, and over which with --quick."""


@cache
def _sensitive(setting: Setting, seed: int, k: int) -> dict[str, float]:
    """Return the latency ratio of static and of pairwise algorithms in one setting of Figure 9."""
    # A window of 20 s needs more than 20 s of warm-up.
    begin = START + max(0.0, setting.window - 10)
    given = system(setting, begin + 60.0, rng(seed, 9, k))
    starts = {
        "COR-GLB": given.scattered(rng(seed, 9, k, 1)), "LLF-GLB": given.scattered(rng(seed, 9, k, 1)),
        "COR-SE-IMP": given.connected(rng(0)), "LLF-BAL": given.connected(rng(0)),
    }  # fmt: skip
    return {
        label: given.steered(start, setting.policy(label, begin), begin, begin + 60.0, seed + k)
        for label, start in starts.items()
    }


@PAPER.figure("Fig. 9", "Sensitivity at level 0.9")
def figure_9(ask: Ask) -> Made:
    """Measure the latency ratio by hosts, operators a host, window, samples, cycle and ratio, at level 0.9."""
    seeds, ordinary = ask.pick(1, 3), base(ask.quick)
    found: dict[str, dict[str, Floats]] = {}
    for title, (key, full, short) in SWEEPS.items():
        kind = type(getattr(ordinary, key))
        made = [attrs.evolve(ordinary, **{key: kind(value)}) for value in ask.pick(short, full)]
        # Few hosts differ much from draw to draw.
        count = seeds if key != "hosts" else ask.pick(1, 8)
        found[title] = swept(made, count, lambda setting, k: _sensitive(setting, ask.seed, k))
    few = "operators a host"
    below, range_ = {}, {}
    for title, rows in found.items():
        glb, llf, exchange, pairs = (row[title == few :] for row in columns(rows))
        below[title] = bool(((glb < llf) & (exchange < pairs)).all())
        range_[title] = float(means(rows["COR-GLB"]).max() / means(rows["COR-GLB"]).min())
    cycle = [row[-1] for row in columns(found["cycle of the rates (s)"])]
    most = max(value for title, value in range_.items() if title != few)
    return {
        "otherwise": f"{ordinary.hosts} hosts", "static": "COR-GLB, LLF-GLB from a random start",
        "pairwise": "COR-SE-IMP, LLF-BAL from a connected one", "measured": "60 s after the warm-up",
        "seeds": ask.pick("1", f"{seeds}, by hosts 8"),
    }, [
        ("the correlation algorithms are below the largest-first ones",
         "COR-GLB below LLF-GLB and COR-SE-IMP below LLF-BAL at every point but the fewest operators a host",
         "; ".join(f"{title}: {'yes' if yes else 'no'}" for title, yes in below.items()), all(below.values()),
         "not where the window is half of the cycle: what it shows of a chain depends on when it ends"),
        ("COR-GLB is not sensitive, but to very few operators a host",
         "largest over least latency ratio: with few operators more than anywhere else",
         "; ".join(f"{title}: {range_[title]:.3g}" for title in sorted(range_, key=few.__eq__)),
         range_[few] > most, "a window of half the cycle does not show what a chain will do"),
        *_ends({title: means(rows["LLF-GLB"]) for title, rows in found.items()}),
        ("a window of half the cycle is enough", "cycle 20: COR-GLB below LLF-GLB",
         f"{cycle[0]:.3g} and {cycle[1]:.3g}", cycle[0] < cycle[1],
         "the window ends at another phase of the cycle than the next one: the plan is made for half of it"),
    ], [
        panel(title, "latency ratio", ask.pick(short, full), found[title], log=True)
        for title, (_, full, short) in SWEEPS.items()
    ]  # fmt: skip


def _ends(llf: Mapping[str, Floats]) -> list[Claimed]:
    """Return what is claimed of LLF-GLB at one end of a sweep of Figure 9."""
    ends = {
        "few hosts": llf["hosts"], "few operators a host": llf["operators a host"],
        "long cycles": llf["cycle of the rates (s)"][::-1], "large ratios": llf["high rate over low"][::-1],
    }  # fmt: skip
    note = "four chains that are evenly out of step even out well wherever their operators are"
    return [
        (f"LLF-GLB is bad for {title}", "worse there than at the other end", listed(row), row[0] > row[-1], note)
        for title, row in ends.items()
    ]


BURSTY = {
    "COR-GLB-BAL": ("COR-GLB", "COR-BAL"),
    "COR-RD-GLB-IMP": ("COR-GLB", "COR-RD-IMP"),
    "COR-SE-GLB-IMP": ("COR-GLB", "COR-SE-IMP"),
    "LLF-GLB-BAL": ("LLF-GLB", "LLF-BAL"),
    "RAND-GLB-BAL": ("RAND-GLB", "RAND-BAL"),
}


@PAPER.figure("Fig. 10", "Bursty sources")
def figure_10(ask: Ask) -> Made:
    """Measure the latency ratio of global and pairwise algorithms together under on-off sources, by load level."""
    at, seeds, end = ask.pick(([0.7], 1, 70.0), ([0.6, 0.7, 0.8], 5, 100.0))

    def one(level: float, k: int) -> dict[str, float]:
        setting = base(ask.quick, level, bursty=True)
        given, start = system(setting, end, ask.rng(10, k)), START
        return {
            label: given.steered(
                given.scattered(ask.rng(10, k, 1)), setting.policy(then, start, first), start, end, ask.seed + k
            )
            for label, (first, then) in BURSTY.items()
        }

    found = swept(at, seeds, one)
    table = np.array(columns(found))
    last: Rows = {label: row[-1:] for label, row in zip(found, table, strict=True)}
    return {
        "hosts": base(ask.quick).hosts, "phases": "exponential, 5 s on and 5 s off in the mean", "seeds": seeds,
        "sources": "a quarter independent, the others opposite to one of them, or the same later",
        "measured": f"{end - START:g} s after a warm-up of {START:g} s",
    }, [
        ("global and pairwise correlation algorithms together are best",
         "COR-SE-GLB-IMP and COR-GLB-BAL below LLF-GLB-BAL and RAND-GLB-BAL at every level", found,
         (table[[0, 2]].max(axis=0) < table[3:].min(axis=0)).all()),
        ("COR-SE-GLB-IMP is the best of all at the highest level", "below all others", last,
         table[:, -1].argmin() == 2, "the three correlation algorithms are close to each other"),
    ], [panel("load level", "latency ratio", at, found, log=True)]  # fmt: skip
