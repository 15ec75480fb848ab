"""Figures 6 to 10 of Xiao et al., An economical and fault-tolerant load balancing strategy.

The query graph (Fig. 5) and the loads are not in the text; a chain of three filters of selectivity one half fits all
that is said. The loads are shares of one host: the first filter has the input rate over the capacity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.cluster import Cluster, Host, Link, Placement, base_name
from penstock.experiments.base import Figure, Mean, Sheet, listed, said
from penstock.load import load_model
from penstock.network import Network
from penstock.network.shapes import chains
from penstock.placement import Problem, algorithm, as_arrays, place
from penstock.shedding import Exact, Question, build_program, build_table
from penstock.shedding.replica import replica_plan
from penstock.simulation import Failure, Options, Shed, SimulationResult, simulate
from penstock.workload import Rates

PAPER = "economical"
NAMES = {"ROD": "resilient", "EOD": "economical", "EFTLBS": "economical-replicated"}
Found = dict[str, tuple[float, float]]
Told = Mapping[str, np.ndarray]


def _measured(inputs: int, ratio: float, seed: int, *, hosts: int, length: int = 3, replicas: int = 2) -> Found:
    """Return by method the share of hosts used (7) and their mean utilisation (8)."""
    network = chains([[1.0] * length] * inputs, [[0.5] * length] * inputs)
    model = load_model(network, Rates.of(1.0, {name: np.full(2, ratio) for name in network.sources}))
    cluster = Cluster.uniform(hosts)
    found = {}
    for label, name in NAMES.items():
        answer = place(Problem(model, cluster, replicas=replicas), name, np.random.default_rng(seed))
        mean = model.host_load(answer.placement, cluster).mean(axis=1)
        used = len(set(answer.placement.values()))
        found[label] = (used / hosts, float(mean.sum()) / used)
    return found


def _compared(sheet: Sheet, x: str, at: Sequence[float], found: Sequence[Found], *, claims: bool = True) -> None:
    """Add both panels of Figures 7 to 9, and what their texts claim of the order of the methods."""
    used, filled = ({label: [each[label][k] for each in found] for label in NAMES} for k in (0, 1))
    sheet.panel(x, "mean utilisation of the hosts used", at, filled)
    sheet.panel(x, "share of hosts used", at, used)
    if not claims:
        return
    rod, eod, ours = (np.array(used[label]) for label in NAMES)
    holds = (eod <= ours + 1e-9).all() and (ours <= rod + 1e-9).all()
    sheet.claim("share of hosts used", "EOD <= EFTLBS <= ROD", said(used), holds)
    rod, eod, ours = (np.array(filled[label]) for label in NAMES)
    holds = (eod >= ours - 1e-9).all() and (ours >= rod - 1e-9).all()
    sheet.claim("mean utilisation of the hosts used", "EOD >= EFTLBS >= ROD", said(filled), holds)


PLANNED = "EFTLBS, exact plan"
"""The same placement with an exact plan table of our own in place of the paper's shedding."""
BURST = 2.1
"""Rate in the spike of Figure 6 over the rate before: enough for the stream into the second filter to fill a link."""

THRESHOLD = 0.9
"""Load level above which a host sheds; the paper names none."""


def _kept(network: Network, cluster: Cluster, placement: Placement) -> dict[str, float]:
    """Return what copies keep in the spike by the paper's own shedding (section 4): an intact copy of each is left.

    They keep no more before and after it.
    """
    limited = Cluster.of([Host(name=name, quota=THRESHOLD) for name in cluster.hosts], Link(0.01, 100.0))
    plan = replica_plan(build_program(network, limited, placement), limited, placement, np.array([100.0 * BURST]))
    copies = [copy for copy in placement if base_name(copy) in {base_name(name) for name in plan.keep}]
    return {
        f"{writer}->{copy}": plan.keep.get(copy, 1.0)
        for copy in copies
        for writer in network.operators[base_name(copy)].inputs
    }


def _by_second(result: SimulationResult) -> tuple[np.ndarray, np.ndarray]:
    """Return results by second of a minute, and their mean latency (s)."""
    trace = result.trace
    assert trace is not None  # noqa: S101 -- the run was asked for it
    when = np.minimum(trace["egress"].astype(np.int64), 59)
    count = np.bincount(when, minlength=60)
    late = np.bincount(when, trace["egress"] - trace["stimulus"], 60)
    return count, np.where(count > 0, late / np.maximum(count, 1), np.nan)


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
        host: _by_second(
            simulate(
                network, cluster, placement, rates,
                Options(failures=(Failure(host, 40.0),), keep=keep, shed=shed), seed=seed, trace=True,
            )
        )
        for host in sorted(set(placement.values()))
    }  # fmt: skip
    worst = min(runs, key=lambda host: (runs[host][0].sum(), host))
    return *runs[worst], worst


def _linear(sheet: Sheet, seed: int) -> None:
    """Add part (b) of Figure 6: the mean latency of a minute by what a link of 100 tuples/s is asked to carry."""
    asked, delay = [float(value) for value in range(20, 201, 20)], []
    cluster = Cluster.of([Host(name="h1"), Host(name="h2")], Link(0.01, 100.0))
    for value in asked:
        network = chains([[1e-3] * 2], [[value / 200, 1.0]])
        rates = Rates.constant({"s1": 200.0}, 60.0)
        result = simulate(network, cluster, {"o1.1": "h1", "o1.2": "h2"}, rates, Options(drain=True), seed=seed)
        delay.append(float(result.latency["mean"]))
    beyond = np.array(asked) > 100
    line = float(np.corrcoef(np.array(asked)[beyond], np.array(delay)[beyond])[0, 1])
    flat = max(delay[k] for k in np.flatnonzero(~beyond)) - min(delay)
    sheet.claim(
        "(b): L is linear in what an overloaded link is asked to carry", "correlation at least 0.999, constant below",
        f"{line:.4f}; {listed(delay)} s", line >= 0.999 and flat < 0.01,
    )  # fmt: skip
    sheet.panel("asked of a link of 100 tuples/s", "mean latency (s)", asked, {"(b)": delay})


def _told(values: Mapping[str, float | np.ndarray]) -> str:
    return ", ".join(f"{label} {float(np.mean(value)):.3g}" for label, value in values.items())


def _stands(sheet: Sheet, label: str, late: np.ndarray, before: float, inside: Told, after: Told, note: str) -> None:
    """Claim that a method that sheds stays fast, and loses nothing in the spike (Figure 6), by seed and second."""
    stable = float(np.nanmax(Mean.over(late)))
    sheet.claim(
        f"{label}: low latency throughout",
        "at most 3 times that before the spike in every second, means over seeds",
        f"{before:.3g} s before, at most {stable:.3g} s", stable <= 3 * before,
        note,
    )  # fmt: skip
    sheet.claim(
        f"{label}: no result is lost in the spike", "as many from 20 s to 32 s as ROD, which does not shed",
        _told(inside), (inside[label] >= inside["ROD"]).all(),
        "a plan table knows nothing of copies: it drops what the hosts cannot do, on all of them",
    )  # fmt: skip
    sheet.claim(f"{label}: it goes on after the failure", "results after 42 s", _told(after), after[label].min() > 0)


def figure_6(quick: bool, seed: int) -> Figure:
    """Return latency through a spike of the input and the failure of a host, where bandwidth is limited (6.3)."""
    labels, seeds = (*NAMES, PLANNED), range(seed, seed + (1 if quick else 5))
    runs = {label: [_through_spike_and_failure(label, each) for each in seeds] for label in labels}
    count = {label: np.array([row for row, _, _ in each]) for label, each in runs.items()}
    late = {label: np.array([row for _, row, _ in each]) for label, each in runs.items()}
    before = {label: float(np.nanmean(rows[:, 5:20])) for label, rows in late.items()}
    most = {label: float(np.nanmax(rows[:, 20:40], axis=1).min()) for label, rows in late.items()}
    after = {label: rows[:, 42:].sum(axis=1) for label, rows in count.items()}
    inside = {label: rows[:, 20:32].sum(axis=1) for label, rows in count.items()}

    sheet = Sheet(
        PAPER, "Fig. 6", "A spike at 20 s and the failure of a host at 40 s",
        network="chain of three filters, 4 ms, selectivity 0.5, two copies",
        rate=f"100 tuples/s, {BURST:g} times as many from 20 s to 30 s",
        hosts="5, linked by 100 tuples/s and 10 ms",
        fails="the host whose loss hurts most: "
        + ", ".join(f"{label} {' or '.join(sorted({host for *_, host in each}))}" for label, each in runs.items()),
        seeds=f"{len(seeds)}; each of the other claims must hold with all of them",
        latency="from source to sink; the paper's, from the second to the third filter, shows no spike in a chain: the "
        "link before carries twice as much and lets no more through than it can",
        shedding="EFTLBS: the paper's, on copies whose peer is intact, down to a load of "
        f"{THRESHOLD:g}, set for the spike and kept throughout; {PLANNED}: an exact plan table, looked up each second",
    )  # fmt: skip
    intact = (
        "the paper's: its shedding relieves hosts, and leaves one copy intact, which sends 105 tuples/s over a link of "
        "100 in the spike"
    )
    late_plan = "the table is looked up each second, for the rates of the second before"
    for label, note in (("EFTLBS", intact), (PLANNED, late_plan)):
        _stands(sheet, label, late[label], before[label], inside, after, note)
    sheet.claim(
        "EOD has the highest latency from the start", "above the others before the spike", f"{_told(before)} s",
        before["EOD"] > max(before["ROD"], before["EFTLBS"]),
    )  # fmt: skip
    sheet.claim(
        "EOD reaches 1.25 s in the spike", "at least that, and twice what it was before",
        f"{_told(before)} s before, {_told(most)} s in it", most["EOD"] >= max(1.25, 2 * before["EOD"]),
    )  # fmt: skip
    for label in ("EOD", "ROD"):
        sheet.claim(
            f"{label} gives no results after the failure", "none after 42 s", _told(after), after[label].max() == 0
        )
    sheet.claim(
        "ROD cannot put up with the spike", "at least twice the latency before",
        f"{before['ROD']:.3g} s before, at most {most['ROD']:.3g} s", most["ROD"] >= 2 * before["ROD"],
    )  # fmt: skip
    seconds = range(60)
    rows = {
        label: [Mean.of(column) if np.isfinite(column).any() else 0.0 for column in row.T]
        for label, row in late.items()
    }
    sheet.panel("time (s)", "mean latency of the results (s)", seconds, rows)
    sheet.panel("time (s)", "results a second", seconds, {label: Mean.over(row) for label, row in count.items()})
    _linear(sheet, seed)
    return sheet.done()


def figure_7(quick: bool, seed: int) -> Figure:
    """Return utilisation by the number of input streams (section 6.4)."""
    at = [2, 4, 6, 8, 10]
    sheet = Sheet(
        PAPER, "Fig. 7", "Impact of the number of input streams", ratio_of_each_input_rate=0.4,
        hosts="20 (the paper's 5 cannot hold 10 inputs, and it does not say how they fit)",
    )  # fmt: skip
    _compared(sheet, "number of input streams", at, [_measured(count, 0.4, seed, hosts=20) for count in at])
    return sheet.done()


def figure_8(quick: bool, seed: int) -> Figure:
    """Return utilisation by the capacity of the hosts (section 6.5)."""
    ratios = [0.57, 0.4, 0.3, 0.2]
    at = [1 / ratio for ratio in ratios]
    found = [_measured(1, ratio, seed, hosts=5) for ratio in ratios]
    sheet = Sheet(
        PAPER, "Fig. 8", "Impact of the hosts' capacity", hosts=5,
        total_input_rate_over_capacity=f"{listed(ratios)}; of the paper's axis the ticks 0.4, 0.6, 0.8 survive, of a "
        "ratio whose sense is lost: beyond 0.57 two operators of a super-operator fit on no host",
    )  # fmt: skip
    _compared(sheet, "capacity over total input rate", at, found)
    product = [each["ROD"][1] * capacity for each, capacity in zip(found, at, strict=True)]
    sheet.claim(
        "ROD's utilisation is inversely proportional to the capacity", "utilisation times capacity is constant",
        listed(product), np.ptp(product) < 1e-9,
    )  # fmt: skip
    return sheet.done()


def figure_9(quick: bool, seed: int) -> Figure:
    """Return utilisation by the number of operators at the same total load (section 6.6)."""
    at = list(range(2, 11))
    # One filter per input stream: "the more operators there are, the smaller input rate each operator has".
    found = [_measured(count, 0.5 / count, seed, hosts=5, length=1) for count in at]
    gap = [each["EFTLBS"][0] - each["EOD"][0] for each in found]
    sheet = Sheet(
        PAPER, "Fig. 9", "Impact of the number of operators", total_input_rate_over_capacity=0.5, hosts=5,
        graph="one filter per input; the paper's is lost",
    )  # fmt: skip
    sheet.claim(
        "EFTLBS and EOD are almost the same up to 9 operators", "at most one host of the five apart",
        f"{listed(gap[:-1])} of the hosts", max(gap[:-1]) <= 0.2 + 1e-9,
        "copies of one operator never share a host: an even number of operators needs 2 hosts, an odd one 3, while EOD "
        "fills a single host to 1; the paper's numbers are lost",
    )  # fmt: skip
    sheet.claim(
        "EFTLBS uses more hosts than EOD with 10 operators", "more", f"{gap[-1]:.3g} of the hosts more", gap[-1] > 1e-9
    )
    product = [each["ROD"][1] * count for each, count in zip(found, at, strict=True)]
    sheet.claim(
        "ROD's utilisation is in inverse proportion to the number of operators",
        "utilisation times operators is constant to a tenth", listed(product), np.ptp(product) < 0.1 * product[0],
        "the paper's: the total load is the same and ROD uses all five hosts from three operators on, so that "
        "their mean utilisation, load over hosts, cannot fall any more",
    )  # fmt: skip
    _compared(sheet, "number of operators", at, found, claims=False)
    return sheet.done()


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


def figure_10(quick: bool, seed: int) -> Figure:
    """Return utilisation by the degree of replication (section 6.7): as printed, and where copies are apart."""
    at, hosts = [2, 3, 4, 5], 5
    printed = [_printed([0.2, 0.1, 0.05], degree) for degree in at]
    filled = [float(np.mean(row)) for row in printed]
    used = [len(row) / hosts for row in printed]
    apart = [_measured(2, 0.2, seed, hosts=10, replicas=degree)["EFTLBS"] for degree in at]
    sheet = Sheet(
        PAPER, "Fig. 10", "Impact of replication", ratio_of_each_input_rate=0.2,
        printed="Algorithm 1 with the circle of Table 2, a chain of three filters, 5 hosts: with 4 and 5 copies a "
        "super-operator holds two of one operator, which fall together",
        copies_apart="two chains of three filters on 10 hosts, where 4 and 5 copies can be on different hosts",
    )  # fmt: skip
    sheet.claim(
        "utilisation rises with the degree of replication", "rising", f"{listed(filled)}; with copies apart "
        f"{listed([row[1] for row in apart])}", (np.diff(filled) > 1e-9).all(),
    )  # fmt: skip
    sheet.claim(
        "the share of hosts used is almost constant", "the same for all degrees", f"{listed(used)}; with copies apart "
        f"{listed([row[0] for row in apart])}", np.ptp(used) < 1e-9,
    )  # fmt: skip
    rows = {"EFTLBS as printed": filled, "copies apart": [row[1] for row in apart]}
    sheet.panel("degree of replication", "mean utilisation of the hosts used", at, rows)
    rows = {"EFTLBS as printed": used, "copies apart": [row[0] for row in apart]}
    sheet.panel("degree of replication", "share of hosts used", at, rows)
    return sheet.done()
