"""Figures 6 to 10 of Xiao et al., An economical and fault-tolerant load balancing strategy.

The query graph (Fig. 5) and the loads are not in the text; a chain of three filters of selectivity one half fits all
that is said. The loads are shares of one host: the first filter has the input rate over the capacity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.cluster import Cluster, Host, Link, Placement
from penstock.experiments.base import Ask, Claimed, Made, Paper, panel
from penstock.experiments.runs import Floats, Rows, listed, means, rising
from penstock.load import load_model
from penstock.network import Network
from penstock.network.shapes import chains
from penstock.pictures.curves import Panel
from penstock.placement import Problem, algorithm, as_arrays, place
from penstock.shedding import Exact, Question, build_program, build_table
from penstock.shedding.replica import replica_plan
from penstock.simulation import Failure, Options, Recording, Shed, simulate
from penstock.workload import Rates

PAPER = Paper("economical")
NAMES = {"ROD": "resilient", "EOD": "economical", "EFTLBS": "economical-replicated"}
BY = "share of hosts used", "mean utilisation of the hosts used"
"""The measures (7) and (8)."""


def _measured(inputs: int, ratio: float, seed: int, *, hosts: int, length: int = 3, replicas: int = 2) -> Floats:
    """Return the share of hosts used and their mean utilisation, array (2, methods)."""
    network = chains([[1.0] * length] * inputs, [[0.5] * length] * inputs)
    model = load_model(network, Rates.of(1.0, {name: np.full(2, ratio) for name in network.sources}))
    problem, found = Problem(model, Cluster.uniform(hosts), replicas=replicas), []
    for name in NAMES.values():
        answer = place(problem, name, np.random.default_rng(seed))
        used = len(set(answer.placement.values()))
        mean = model.host_load(answer.placement, problem.cluster).mean(axis=1).sum()
        found.append((used / hosts, float(mean) / used))
    return np.array(found).T


def _panels(x: str, at: Sequence[float], used: Rows, filled: Rows) -> list[Panel]:
    return [panel(x, BY[1], at, filled), panel(x, BY[0], at, used)]


def _compared(found: Sequence[Floats]) -> tuple[dict[str, Floats], dict[str, Floats], list[Claimed]]:
    """Return both measures by method and place, and what the texts of Figures 7 and 8 claim of the methods' order."""
    used, filled = (dict(zip(NAMES, rows, strict=True)) for rows in np.stack(found, axis=-1))
    claims: list[Claimed] = []
    for what, sign, rows in zip(BY, ("<=", ">="), (used, filled), strict=True):
        rod, eod, ours = (row if sign == "<=" else -row for row in rows.values())
        holds = (eod <= ours + 1e-9).all() and (ours <= rod + 1e-9).all()
        claims.append((what, f"EOD {sign} EFTLBS {sign} ROD", rows, holds))
    return used, filled, claims


PLANNED = "EFTLBS, exact plan"
"""The same placement with an exact plan table of our own in place of the paper's shedding."""
BURST = 2.1
"""Rate in the spike of Figure 6 over the rate before: enough for the stream into the second filter to fill a link."""
THRESHOLD = 0.9
"""Load level above which a host sheds; the paper names none."""


def _kept(network: Network, cluster: Cluster, placement: Placement) -> dict[str, float]:
    """Return what copies keep, all the time, by the paper's own shedding in the spike (section 4), one copy intact.

    It knows of hosts alone; with the links' bandwidth no choice of intact copies would do.
    """
    limited = Cluster.of([Host(name=name, quota=THRESHOLD) for name in cluster.hosts])
    plan = replica_plan(build_program(network, limited, placement), limited, placement, np.array([100.0 * BURST]))
    return plan.streams(network, placement)


def _through_spike_and_failure(label: str, seed: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Return results and mean latency (s) by second of a minute, and the host that fails at 40 s.

    The host fails whose loss leaves the fewest results.
    """
    name = NAMES[label.partition(",")[0]]
    network = chains([[4e-3] * 3], [[0.5] * 3])
    rate = np.full(60, 100.0)
    cluster = Cluster.of([Host(name=f"h{k + 1}") for k in range(5)], Link(0.01, 100.0))
    model = load_model(network, Rates.of(1.0, {"s1": rate[:20]}))
    arrays = as_arrays(Problem(model, cluster, replicas=2))
    placement = arrays.placement(algorithm(name)(arrays, np.random.default_rng(seed)))
    rate[20:30] *= BURST
    rates = Rates.of(1.0, {"s1": rate})
    keep = _kept(network, cluster, placement) if label == "EFTLBS" else {}
    shed = None
    if label == PLANNED:
        program = build_program(network, cluster, placement)
        shed = Shed(table=build_table("exact", Question(Exact(program), np.array([110.0 * BURST]))))
    runs = {
        host: simulate(
            network, cluster, placement, rates,
            Options(failures=(Failure(host, 40.0),), keep=keep, shed=shed, seed=seed), record=Recording(trace=True),
        ).by_second(0.0, 60.0)
        for host in sorted(set(placement.values()))
    }  # fmt: skip
    worst = min(runs, key=lambda host: (runs[host][0].sum(), host))
    return *runs[worst], worst


def _linear(seed: int) -> tuple[Claimed, Panel]:
    """Return part (b) of Figure 6: the mean latency of a minute by what a link of 100 tuples/s is asked to carry."""
    asked = np.arange(20.0, 201.0, 20.0)
    cluster, where = Cluster.of([Host(name="h1"), Host(name="h2")], Link(0.01, 100.0)), {"o1.1": "h1", "o1.2": "h2"}
    rates, options = Rates.constant({"s1": 200.0}, 60.0), Options(drain=True, seed=seed)

    def mean(value: float) -> float:
        network = chains([[1e-3] * 2], [[value / 200, 1.0]])
        return float(simulate(network, cluster, where, rates, options).latency["mean"])

    delay, beyond = np.array([mean(value) for value in asked.tolist()]), asked > 100
    line = float(np.corrcoef(asked[beyond], delay[beyond])[0, 1])
    return (
        "(b): L is linear in what an overloaded link is asked to carry", "correlation at least 0.999, constant below",
        f"{line:.4f}; {listed(delay)} s", line >= 0.999 and delay[~beyond].max() - delay.min() < 0.01,
    ), panel("asked of a link of 100 tuples/s", "mean latency (s)", asked, {"(b)": delay})  # fmt: skip


def _told(values: Mapping[str, float | Floats]) -> str:
    return ", ".join(f"{label} {float(np.mean(value)):.3g}" for label, value in values.items())


SHEDS = {
    "EFTLBS": "no choice of intact copies could do better: the first two filters need more than one host in the "
    "spike, and the second then gets 105 tuples/s over a link of 100",
    PLANNED: "the table is looked up each second, for the rates of the second before",
}
"""The methods that shed, and why their latency may rise."""


@PAPER.figure("Fig. 6", "A spike at 20 s and the failure of a host at 40 s")
def figure_6(ask: Ask) -> Made:
    """Measure latency through a spike of the input and the failure of a host, where bandwidth is limited (6.3)."""
    seeds = range(ask.seed, ask.seed + ask.pick(1, 5))
    runs = {label: [_through_spike_and_failure(label, each) for each in seeds] for label in (*NAMES, PLANNED)}
    count, late = ({label: np.array([run[k] for run in each]) for label, each in runs.items()} for k in (0, 1))
    before = {label: float(np.nanmean(rows[:, 5:20])) for label, rows in late.items()}
    most = {label: float(np.nanmax(rows[:, 20:40], axis=1).min()) for label, rows in late.items()}
    after = {label: rows[:, 42:].sum(axis=1) for label, rows in count.items()}
    inside = {label: rows[:, 20:32].sum(axis=1) for label, rows in count.items()}
    stable = {label: float(np.nanmax(means(late[label]))) for label in SHEDS}
    linear, line = _linear(ask.seed)
    fails = (f"{label} {' or '.join(sorted({host for *_, host in each}))}" for label, each in runs.items())
    setup = {
        "network": "chain of three filters, 4 ms, selectivity 0.5, two copies",
        "rate": f"100 tuples/s, {BURST:g} times as many from 20 s to 30 s",
        "hosts": "5, linked by 100 tuples/s and 10 ms",
        "fails": f"the host whose loss hurts most: {', '.join(fails)}",
        "seeds": f"{len(seeds)}; each of the other claims must hold with all of them",
        "latency": "from source to sink; the paper's, from the second to the third filter, shows no spike in a chain: "
        "the link before carries twice as much and lets no more through than it can",
        "shedding": "EFTLBS: the paper's, on copies whose peer is intact, down to a load of "
        f"{THRESHOLD:g}, set for the spike and kept throughout; {PLANNED}: an exact plan table, looked up each second",
    }
    claims: list[Claimed] = []
    for label, note in SHEDS.items():
        claims += [
            (f"{label}: low latency throughout", "at most 3 times that before the spike in every second, means over "
             "seeds", f"{before[label]:.3g} s before, at most {stable[label]:.3g} s",
             stable[label] <= 3 * before[label], note),
            (f"{label}: no result is lost in the spike", "as many from 20 s to 32 s as ROD, which does not shed",
             _told(inside), (inside[label] >= inside["ROD"]).all(),
             "a plan table knows nothing of copies: it drops what the hosts cannot do, on all of them"),
            (f"{label}: it goes on after the failure", "results after 42 s", _told(after), after[label].min() > 0),
        ]  # fmt: skip
    claims += [
        ("EOD has the highest latency from the start", "above the others before the spike", f"{_told(before)} s",
         before["EOD"] > max(before["ROD"], before["EFTLBS"])),
        ("EOD reaches 1.25 s in the spike", "at least that, and twice what it was before",
         f"{_told(before)} s before, {_told(most)} s in it", most["EOD"] >= max(1.25, 2 * before["EOD"])),
        *((f"{label} gives no results after the failure", "none after 42 s", _told(after), after[label].max() == 0)
          for label in ("EOD", "ROD")),
        ("ROD cannot put up with the spike", "at least twice the latency before",
         f"{before['ROD']:.3g} s before, at most {most['ROD']:.3g} s", most["ROD"] >= 2 * before["ROD"]),
        linear,
    ]  # fmt: skip
    first = panel("time (s)", "mean latency of the results (s)", range(60), late)
    return setup, claims, [first, panel("time (s)", "results a second", range(60), count), line]


@PAPER.figure("Fig. 7", "Impact of the number of input streams")
def figure_7(ask: Ask) -> Made:
    """Measure utilisation by the number of input streams (section 6.4)."""
    at = [2, 4, 6, 8, 10]
    used, filled, claims = _compared([_measured(count, 0.4, ask.seed, hosts=20) for count in at])
    return {
        "ratio of each input rate": 0.4,
        "hosts": "20 (the paper's 5 cannot hold 10 inputs, and it does not say how they fit)",
    }, claims, _panels("number of input streams", at, used, filled)  # fmt: skip


@PAPER.figure("Fig. 8", "Impact of the hosts' capacity")
def figure_8(ask: Ask) -> Made:
    """Measure utilisation by the capacity of the hosts (section 6.5)."""
    ratios = np.array([0.57, 0.4, 0.3, 0.2])
    used, filled, claims = _compared([_measured(1, ratio, ask.seed, hosts=5) for ratio in ratios.tolist()])
    product = filled["ROD"] / ratios
    return {
        "hosts": 5,
        "total input rate over capacity": f"{listed(ratios)}; of the paper's axis the ticks 0.4, 0.6, 0.8 survive, of "
        "a ratio whose sense is lost: beyond 0.57 two operators of a super-operator fit on no host",
    }, [
        *claims,
        ("ROD's utilisation is inversely proportional to the capacity", "utilisation times capacity is constant",
         listed(product), np.ptp(product) < 1e-9),
    ], _panels("capacity over total input rate", (1 / ratios).tolist(), used, filled)  # fmt: skip


@PAPER.figure("Fig. 9", "Impact of the number of operators")
def figure_9(ask: Ask) -> Made:
    """Measure utilisation by the number of operators at the same total load (section 6.6)."""
    at = list(range(2, 11))
    # One filter per input stream: "the more operators there are, the smaller input rate each operator has".
    used, filled, _ = _compared([_measured(count, 0.5 / count, ask.seed, hosts=5, length=1) for count in at])
    gap, product = used["EFTLBS"] - used["EOD"], filled["ROD"] * np.array(at)
    return {
        "total input rate over capacity": 0.5, "hosts": 5, "graph": "one filter per input; the paper's is lost"
    }, [
        ("EFTLBS and EOD are almost the same up to 9 operators", "at most one host of the five apart",
         f"{listed(gap[:-1])} of the hosts", gap[:-1].max() <= 0.2 + 1e-9,
         "copies of one operator never share a host: an even number of operators needs 2 hosts, an odd one 3, while "
         "EOD fills a single host to 1; the paper's numbers are lost"),
        ("EFTLBS uses more hosts than EOD with 10 operators", "more", f"{gap[-1]:.3g} of the hosts more",
         gap[-1] > 1e-9),
        ("ROD's utilisation is in inverse proportion to the number of operators",
         "utilisation times operators is constant to a tenth", listed(product), np.ptp(product) < 0.1 * product[0],
         "the paper's: the total load is the same and ROD uses all five hosts from three operators on, so that "
         "their mean utilisation, load over hosts, cannot fall any more"),
    ], _panels("number of operators", at, used, filled)  # fmt: skip


def _printed(load: Sequence[float], degree: int) -> list[float]:
    """Return the load of each host by Algorithm 1 as printed, on hosts of capacity 1.

    Super-operator j holds a copy of each of the ``degree`` operators from j on, in a circle (Table 2): with more copies
    than operators, several of one. First fit; two super-operators that share an operator never share a host.
    """
    count = len(load)
    groups = [[(j + c) % count for c in range(degree)] for j in range(count)]
    hosts: list[tuple[float, set[int]]] = []
    for group in groups:
        need = sum(load[operator] for operator in group)
        for index, (used, colours) in enumerate(hosts):
            if used + need <= 1 + 1e-9 and not colours.intersection(group):
                hosts[index] = (used + need, colours.union(group))
                break
        else:
            hosts.append((need, set(group)))
    return [used for used, _ in hosts]


@PAPER.figure("Fig. 10", "Impact of replication")
def figure_10(ask: Ask) -> Made:
    """Measure utilisation by the degree of replication (section 6.7): as printed, and where copies are apart."""
    at, ours = [2, 3, 4, 5], list(NAMES).index("EFTLBS")
    printed = [_printed([0.2, 0.1, 0.05], degree) for degree in at]
    apart = np.array([_measured(2, 0.2, ask.seed, hosts=10, replicas=degree)[:, ours] for degree in at]).T
    used, filled = [len(row) / 5 for row in printed], [float(np.mean(row)) for row in printed]
    rows = [{"EFTLBS as printed": row, "copies apart": far} for row, far in zip((used, filled), apart, strict=True)]
    return {
        "ratio of each input rate": 0.2,
        "printed": "Algorithm 1 with the circle of Table 2, a chain of three filters, 5 hosts: with 4 and 5 copies a "
        "super-operator holds two of one operator, which fall together",
        "copies apart": "two chains of three filters on 10 hosts, where 4 and 5 copies can be on different hosts",
    }, [
        ("utilisation rises with the degree of replication", "rising",
         f"{listed(filled)}; with copies apart {listed(apart[1])}", rising(filled)),
        ("the share of hosts used is almost constant", "the same for all degrees",
         f"{listed(used)}; with copies apart {listed(apart[0])}", np.ptp(used) < 1e-9),
    ], _panels("degree of replication", at, *rows)  # fmt: skip
