"""Figures 2 to 10 of Wang et al., Potential-driven load distribution for distributed data stream processing.

The plotted values are lost; what the text claims about them is checked. Runs are those of
`penstock.experiments.schemes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

import numpy as np
from scipy.stats import spearmanr

from penstock.experiments.base import Figure, Mean, Sheet, listed, rng
from penstock.experiments.schemes import (
    RECOMMENDED,
    Scheme,
    Trial,
    scheme_1,
    scheme_2,
    scheme_3,
    scheme_4,
    scheme_5,
    scheme_6,
    trials,
    weights,
)
from penstock.native.jit import compiling
from penstock.placement import Weights, algorithm
from penstock.placement.objective import potential, traffic

PAPER = "potential"
REPEATS = 3
"""Runs of a fluctuating workload that are averaged, the least that section 5.2 allows."""
PRINTED, LINKED = "potential-greedy", "potential-greedy-linked"
BOTH_WAYS = "links counted both ways"
COSTS = {"1 ms": 1e-3, "10 ms": 10e-3, "20 ms": 20e-3, "40 ms": 40e-3}
NEVER = (
    "as printed an operator counts the links to readers that are placed already; chains of equal costs are placed from "
    "the source on, so that no link ever counts"
)


def _rising(values: Sequence[float]) -> float:
    """Return the rank correlation of values with their position; 0 where they are all alike."""
    return float(spearmanr(np.arange(len(values)), values).statistic) if np.ptp(values) > 0 else 0.0


def _mean(runs: Iterable[Trial], value: Callable[[Trial], float]) -> Mean:
    return Mean.of(value(run) for run in runs)


def figure_2(quick: bool, seed: int) -> Figure:
    """Return potential energy beside latency: scheme 2 by chain length, scheme 5 by number of hosts."""
    lengths, sizes, networks = range(1, 21, 6 if quick else 2), range(2, 31, 9 if quick else 3), 1 if quick else REPEATS
    points: dict[str, list[list[tuple[float, float]]]] = {}
    with compiling():
        for k in range(networks):
            chained = [[Trial(scheme_2(rng(seed, 2, k), length=length), seed + k)] for length in lengths]
            hybrid = [trials([scheme_5(rng(seed, 5, k), hosts=n)], seed + k, REPEATS)[0] for n in sizes]
            for label, made, chosen in (
                ("Scheme 2", chained, Weights()), ("in milliseconds", chained, weights()),
                ("Scheme 5", hybrid, Weights()),
            ):  # fmt: skip
                points.setdefault(label, []).append(
                    [
                        (
                            _mean(runs, lambda run: potential(run.arrays, run.decided(chosen), chosen)),  # noqa: B023
                            _mean(runs, lambda run: run.latency(run.decided(chosen))),  # noqa: B023
                        )
                        for runs in made
                    ]
                )
    sheet = Sheet(
        PAPER, "Fig. 2", "Potential energy and latency", scheme_2="20 chains of 1 to 20 filters on the same 20 hosts",
        scheme_5=f"the same network on the first 2 to {sizes[-1]} of 30 hosts, {REPEATS} runs each", placement="greedy",
        networks=networks,
        weights="1, 1, 1; the paper does not state the unit of delay: in the picture seconds",
    )  # fmt: skip
    seconds, milli = (
        Mean.of(np.corrcoef(np.array(row).T)[0, 1] for row in points[label])
        for label in ("Scheme 2", "in milliseconds")
    )
    ranks = Mean.of(spearmanr(*np.array(row).T).statistic for row in points["Scheme 5"])
    sheet.claim(
        "scheme 2: latency is perfectly linear in potential energy", "correlation at least 0.99",
        f"{seconds:.3f} with delays in seconds, {milli:.3f} in milliseconds", max(seconds, milli) >= 0.99,
        "the paper's: where hosts are overloaded, which long chains make them, queues of 100 tuples bound the latency "
        "and nothing bounds the energy; in milliseconds the energy is that of the links alone",
    )  # fmt: skip
    sheet.claim(
        "scheme 5: latency rises with potential energy", "correlation of ranks above 0",
        f"{ranks:.3f} ± {ranks.error:.2g}", ranks > 0,
        "hosts that are added bring links to cross, and energy counts all operators' links alike, latency those of the "
        "rows that reach a sink",
    )  # fmt: skip
    for label in ("Scheme 2", "Scheme 5"):
        rows = {f"network {k + 1}": row for k, row in enumerate(points[label])}
        sheet.scatter(f"potential energy ({label})", "mean latency (s)", rows)
    return sheet.done()


def figure_3(quick: bool, seed: int) -> Figure:
    """Return the latency of greedy, dynamic programming and the original placement by chain length, scheme 2."""
    at, seeds = ([4, 10], 2) if quick else ([2, 5, 8, 11, 14, 17, 20], 3)
    rules = {"greedy": PRINTED, "dynamic": "potential-dynamic", "as printed": "potential-dynamic-printed"}
    rows: dict[str, list[list[float]]] = {label: [] for label in ("original", *rules)}
    with compiling():
        for length in at:
            runs = [Trial(scheme_2(rng(seed, 3, k), length=length), seed) for k in range(seeds)]
            rows["original"].append([run.latency(None) for run in runs])
            for label, rule in rules.items():
                rows[label].append([run.latency(run.decided(Weights(), rule)) for run in runs])
    found = {label: np.nanmean(row, axis=1) for label, row in rows.items()}
    greedy, dynamic, original, printed = (found[label] for label in ("greedy", "dynamic", "original", "as printed"))
    sheet = Sheet(
        PAPER, "Fig. 3", "Algorithms' performance on latency", scheme=2, seeds=seeds,
        weights="1, 1, 1 as in Table 2, with delays in seconds",
    )  # fmt: skip
    apart, other = np.abs(dynamic / greedy - 1), np.abs(printed / greedy - 1)
    sheet.claim(
        "greedy and dynamic programming are not distinguishable", "mean size of the difference below 5 %",
        f"{apart.mean():.1%}, at most {apart.max():.1%}; with line 9 of Algorithm 1 as printed {other.mean():.1%}, at "
        f"most {other.max():.1%}", apart.mean() < 0.05,
        "both are heuristics, which differ by chance: neither is better throughout",
    )  # fmt: skip
    sheet.claim(
        "both are below the original placement", "below at every chain length",
        f"greedy at {listed(list(greedy / original))} of it, dynamic at {listed(list(dynamic / original))}",
        ((greedy < original) & (dynamic < original)).all(),
        "at the longest chains everything is overloaded: latency is then the length of the full queues",
    )  # fmt: skip
    means = {label: [Mean.of(each) for each in row] for label, row in rows.items()}
    sheet.panel("chain length", "mean latency (s)", at, means)
    return sheet.done()


def _powers(low: int, high: int, quick: bool) -> list[float]:
    return [float(power) for power in np.arange(low, high + 0.01, 1.0 if quick else 0.5)]


def _sweep(
    runs: Sequence[Trial], powers: Sequence[float], chosen: Callable[[float], Weights], rule: str = PRINTED
) -> dict[str, list[float]]:
    """Return by weight latency, deviation of the hosts' load and traffic between hosts, means over the runs."""
    found: dict[str, list[float]] = {"latency": [], "deviation": [], "traffic": []}
    for power in powers:
        where = {id(run): run.decided(chosen(power), rule) for run in runs}
        found["latency"].append(_mean(runs, lambda run: run.latency(where[id(run)])))  # noqa: B023
        found["deviation"].append(
            _mean(runs, lambda run: (run.arrays.host_mean(where[id(run)]) / run.arrays.capacity).std())  # noqa: B023
        )
        found["traffic"].append(_mean(runs, lambda run: traffic(run.arrays, where[id(run)]).sum()))  # noqa: B023
    return found


def _networks(make: Callable[[np.random.Generator], Scheme], number: int, count: int, seed: int) -> list[Trial]:
    """Return several networks of a scheme, one run each: their mean is that of several runs too."""
    return [Trial(make(rng(seed, number, k)), seed + k) for k in range(count)]


def figure_4(quick: bool, seed: int) -> Figure:
    """Return load deviation and latency by the weight of the load, scheme 5."""
    powers, count = _powers(-2, 4, quick), 3 if quick else 6
    with compiling():
        runs = _networks(scheme_5, 4, count, seed)
        found = _sweep(runs, powers, lambda p: weights(load=10**p))
        original = _mean(runs, lambda run: run.latency(None))
    sheet = Sheet(
        PAPER, "Fig. 4", "Effect of the weight of the load", other_weights="1, 1", networks=count,
        scheme="5, fluctuating (by elimination), networks that ask for at most 0.9 of the capacity",
    )  # fmt: skip
    deviation, latency = found["deviation"], found["latency"]
    sheet.claim(
        "load deviation falls as its weight rises", "rank correlation below -0.8",
        f"{_rising(deviation):.3f}: {listed(deviation)}", _rising(deviation) < -0.8,
    )  # fmt: skip
    sheet.claim(
        "latency falls as the weight of the load rises", "rank correlation below -0.8, less at the end",
        f"{_rising(latency):.3f}: {listed(latency)} s", _rising(latency) < -0.8 and latency[-1] < latency[0],
        "it falls until hosts are not overloaded any more; then what is spread further crosses more links",
    )  # fmt: skip
    below = [value for power, value in zip(powers, latency, strict=True) if power < 0]
    sheet.claim(
        "too small a weight may be worse than the original",
        f"some latency above {original:.3g} s for a weight below 1",
        listed(below) + " s", max(below) > original,
        "the random start puts as much on hosts that are ten times slower than others, and overloads most of them",
    )  # fmt: skip
    sheet.panel("log10 w_l", "deviation of host load", powers, {"greedy": deviation})
    sheet.panel("log10 w_l", "mean latency (s)", powers, {"greedy": latency, "original": [original] * len(powers)})
    return sheet.done()


def _variants(seed: int, repeats: int) -> dict[str, list[Trial]]:
    """Return four variants of scheme 3, with chains, hosts, costs and rates distorted at random, and their repeats."""
    made = {}
    for k in range(4):
        draw = rng(seed, 3, k)
        length, hosts = int(draw.integers(20, 31)), int(draw.integers(7, 14))
        cost, gap = float(draw.uniform(5e-3, 15e-3)), float(draw.uniform(0.07, 0.14))
        scheme = scheme_3(draw, length=length, hosts=hosts, cost=cost, gap=gap)
        made[f"variant {k + 1}"] = trials([scheme], seed, repeats)[0]
    return made


Curves = dict[str, list[float]]


def _curves(
    runs: Mapping[str, Sequence[Trial]], powers: Sequence[float], chosen: Callable[[float], Weights]
) -> tuple[Curves, Curves]:
    """Return latency by weight for each variant, with links counted as printed, and both ways."""
    printed, linked = (
        {label: _sweep(each, powers, chosen, rule)["latency"] for label, each in runs.items()}
        for rule in (PRINTED, LINKED)
    )
    return printed, linked


def _by_scheme(
    seed: int, repeats: int, powers: Sequence[float], chosen: Callable[[float], Weights]
) -> tuple[tuple[Curves, Curves], tuple[Curves, Curves]]:
    """Return the curves of scheme 1 by cost, and of the variants of scheme 3."""
    first, third = _shared(seed, repeats)
    return _curves(first, powers, chosen), _curves(third, powers, chosen)


@cache
def _shared(seed: int, repeats: int) -> tuple[dict[str, list[Trial]], dict[str, list[Trial]]]:
    """Return the runs that figures 5 and 7 have in common: what one has simulated the other need not."""
    first = {label: trials([scheme_1(cost)], seed, repeats)[0] for label, cost in COSTS.items()}
    return first, _variants(seed, repeats)


def _near(curves: Curves, powers: list[float], power: float) -> Curves:
    """Return by curve its value at a weight over its least, and over its largest value."""
    at = powers.index(power)
    return {label: [row[at] / min(row), max(row) / min(row)] for label, row in curves.items()}


def _good(sheet: Sheet, name: str, near: Curves, limit: float, least: int, note: str) -> None:
    """Claim that a weight is good: near the best of its curve, where the weight matters at all."""
    good = [ratio <= limit and range_ > limit for ratio, range_ in near.values()]
    flat = sum(range_ <= limit for _, range_ in near.values())
    sheet.claim(
        name, f"at most {limit} times the best of the curve, in {least} of 4 curves that have more to choose from",
        "; ".join(f"{label}: {ratio:.3g} of {range_:.3g}" for label, (ratio, range_) in near.items())
        + (f"; {flat} flat" if flat else ""), sum(good) >= least, note,
    )  # fmt: skip


def _three(
    sheet: Sheet, x: str, powers: Sequence[float], first: tuple[Curves, Curves], third: tuple[Curves, Curves]
) -> None:
    for title, curves in (
        ("scheme 1", first[0]), (f"scheme 1, {BOTH_WAYS}", first[1]),
        ("scheme 3", third[0]), (f"scheme 3, {BOTH_WAYS}", third[1]),
    ):  # fmt: skip
        sheet.panel(f"{x} ({title})", "mean latency (s)", powers, curves, log=True)


def figure_5(quick: bool, seed: int) -> Figure:
    """Return latency by the weight of the load: scheme 1 by cost, and variants of scheme 3."""
    powers, repeats = _powers(-2, 5, quick), 1 if quick else REPEATS
    with compiling():
        first, third = _by_scheme(seed, repeats, powers, lambda power: weights(load=10**power))
    sheet = Sheet(
        PAPER, "Fig. 5", "Effect of the weight of the load under different schemes",
        scheme_1="1, 10, 20, 40 ms a tuple", scheme_3=f"length, hosts, cost and rate distorted, {repeats} runs each",
    )  # fmt: skip
    for way, curves in zip(("", f", {BOTH_WAYS}"), first, strict=True):
        high, low = curves["40 ms"], curves["1 ms"]
        sheet.claim(
            f"high cost: a large weight lowers latency{way}", "40 ms: less at the end than at the start",
            f"{high[0]:.3g} s to {high[-1]:.3g} s", high[-1] < high[0], NEVER,
        )  # fmt: skip
        sheet.claim(
            f"low cost: a large weight raises latency{way}", "1 ms: more at the end than at the start",
            f"{low[0]:.3g} s to {low[-1]:.3g} s", low[-1] > low[0], NEVER,
        )  # fmt: skip
        left = (
            "with 20 ms the best division, five operators and four, fills a host to exactly 1: what the random start "
            "left there never goes"
        )
        name = f"scheme 1: all are near their best at log w_l = 2{way}"
        _good(sheet, name, _near(curves, powers, 2.0), 1.25, 4, left if way else NEVER)
    for way, curves, note in (
        ("", third[0], NEVER),
        (f", {BOTH_WAYS}", third[1], "the best weight differs from one variant to the next: a larger one cuts chains "
         "at random, and each cut is a delay of up to 0.5 s"),
    ):  # fmt: skip
        _good(sheet, f"scheme 3: best near log w_l = 4{way}", _near(curves, powers, 4.0), 1.1, 4, note)
        _good(sheet, f"scheme 3: log w_l = 2 is acceptable{way}", _near(curves, powers, 2.0), 1.5, 4, note)
    _three(sheet, "log10 w_l", powers, first, third)
    return sheet.done()


def figure_6(quick: bool, seed: int) -> Figure:
    """Return traffic between hosts and latency by the weight of the network, scheme 5."""
    powers, count = _powers(-5, 2, quick), 2 if quick else 6
    with compiling():
        runs = _networks(scheme_5, 6, count, seed)
        found, linked = (_sweep(runs, powers, lambda p: weights(100.0, 1.0, 10**p), rule) for rule in (PRINTED, LINKED))
        original = _mean(runs, lambda run: run.latency(None))
    sheet = Sheet(
        PAPER, "Fig. 6", "Effect of the weight of the network", scheme=5, other_weights="100, 1", networks=count
    )
    latency, sent = found["latency"], found["traffic"]
    sheet.claim(
        "latency rises with the weight of the network", "rank correlation above 0.5, more at the end",
        f"{_rising(latency):.3f}: {listed(latency)} s", _rising(latency) > 0.5 and latency[-1] > latency[0],
        "delays of up to 0.5 s a link are a large part of the latency, and fewer crossings lower it, until hosts are "
        "overloaded",
    )  # fmt: skip
    sheet.claim("traffic between hosts falls", "less at the end", f"{listed(sent)} tuples/s", sent[-1] < sent[0])
    sheet.panel("log10 w_n", "traffic between hosts (tuples/s)", powers, {"greedy": sent, BOTH_WAYS: linked["traffic"]})
    rows: Curves = {"greedy": latency, BOTH_WAYS: linked["latency"], "original": [original] * len(powers)}
    sheet.panel("log10 w_n", "mean latency (s)", powers, rows)
    return sheet.done()


def figure_7(quick: bool, seed: int) -> Figure:
    """Return latency by the weight of the network: scheme 1 by cost, and variants of scheme 3."""
    powers, repeats = _powers(-5, 2, quick), 1 if quick else REPEATS
    with compiling():
        first, third = _by_scheme(seed, repeats, powers, lambda power: weights(100.0, 1.0, 10**power))
    sheet = Sheet(
        PAPER, "Fig. 7", "Effect of the weight of the network under different schemes",
        scheme_1="1, 10, 20, 40 ms a tuple", scheme_3=f"length, hosts, cost and rate distorted, {repeats} runs each",
    )  # fmt: skip
    small = (
        "a link of 100 ms weighs 0.1 then, a share of load of 1 weighs 100: the network decides nothing; ten to a "
        "hundred times as much is good"
    )
    for way, one, three, note in (
        ("", first[0], third[0], NEVER), (f", {BOTH_WAYS}", first[1], third[1], small),
    ):  # fmt: skip
        low, high = one["1 ms"], one["40 ms"]
        sheet.claim(
            f"low cost: latency falls with the weight{way}", "1 ms: less at the end than at the start",
            f"{low[0]:.3g} s to {low[-1]:.3g} s", low[-1] < low[0], note,
        )  # fmt: skip
        sheet.claim(
            f"high cost: latency rises with the weight{way}", "40 ms: more at the end than at the start",
            f"{high[0]:.3g} s to {high[-1]:.3g} s", high[-1] > high[0], note,
        )  # fmt: skip
        for name, curves in (("scheme 1", one), ("scheme 3", three)):
            title = f"{name}: w_n = 0.001 is good with high probability{way}"
            _good(sheet, title, _near(curves, powers, -3.0), 1.5, 3, note)
    _three(sheet, "log10 w_n", powers, first, third)
    return sheet.done()


def figure_8(quick: bool, seed: int) -> Figure:
    """Return latency by the share of operators that stay, schemes 3 and 4."""
    thetas, count = [round(0.1 * k, 1) for k in range(0, 11, 2 if quick else 1)], 2 if quick else 10
    sheet = Sheet(
        PAPER, "Fig. 8", "Effect of theta", weights=f"100, 1, 0.001; with {BOTH_WAYS} 100, 1, 0.1", networks=count,
        scheme_4="stable (by elimination)",
    )  # fmt: skip
    for label, make in (("scheme 3", scheme_3), ("scheme 4", scheme_4)):
        with compiling():
            runs = _networks(make, 8, count, seed)
            original = _mean(runs, lambda run: run.latency(None))
            found = {}
            for way, rule, chosen in (
                ("as printed", PRINTED, weights(*RECOMMENDED)),
                # Weights that let a delay of 100 ms weigh as much as a tenth of a host's load.
                (BOTH_WAYS, LINKED, weights(100.0, 1.0, 0.1)),
            ):
                found[way] = [
                    _mean(runs, lambda run: run.latency(run.optimised(chosen, rule, theta)))  # noqa: B023
                    for theta in thetas
                ]
        for way, row in found.items():
            sheet.claim(
                f"{label}, {way}: latency rises with theta", "rank correlation at least 0.6, more at the end",
                f"{_rising(row):.3f}: {listed(row)} s, original {original:.3g} s",
                _rising(row) >= 0.6 and row[-1] > row[0],
                "the weights (100, 1, 0.001) hardly count the delays of the links, which make most of the latency here",
            )  # fmt: skip
        rows = {**found, "original": [original] * len(thetas)}
        sheet.panel(f"theta ({label})", "mean latency (s)", thetas, rows)
    return sheet.done()


def figure_9(quick: bool, seed: int) -> Figure:
    """Return the load of eight hosts beside their quotas U(0, 1), schemes 2 and 5."""
    sheet = Sheet(
        PAPER, "Fig. 9", "Sensitivity to quotas", hosts=8, quotas="U(0, 1)", weights="100, 1, 0.001",
        networks=REPEATS,
    )  # fmt: skip
    with compiling():
        for label, make in (("scheme 2", scheme_2), ("scheme 5", scheme_5)):
            quota, load = [], []
            for run in _networks(lambda draw: make(draw, hosts=8, quotas=True), 9, REPEATS, seed):  # noqa: B023
                quota.append([host.quota for host in run.scheme.cluster.hosts.values()])
                load.append(run.busy(run.decided(weights(*RECOMMENDED))))
            order = np.argsort(quota, axis=1, kind="stable")
            quotas, loads = (np.take_along_axis(np.array(rows), order, 1) for rows in (quota, load))
            ranks = Mean.of(spearmanr(*pair).statistic for pair in zip(quotas, loads, strict=True))
            sheet.claim(
                f"{label}: actual loads follow quotas", "rank correlation at least 0.8",
                f"{ranks:.3f} ± {ranks.error:.2g}: mean load {listed(loads.mean(axis=0).tolist())}, quota "
                f"{listed(quotas.mean(axis=0).tolist())}", ranks >= 0.8,
                "hosts that are asked for more than they have are busy beyond their quotas: quotas are soft, and the "
                "demand is what it is",
            )  # fmt: skip
            if label == "scheme 2":
                top = loads[:, -4:].min(axis=1)
                sheet.claim(
                    "scheme 2: the four hosts of the largest quotas are fully loaded", "the least of them, busy 0.99",
                    listed(top.tolist()), top.min() >= 0.99,
                    "what a host is given may starve: its upstream operators are overloaded and drop tuples at full "
                    "queues",
                )  # fmt: skip
            rows = {"quota": [Mean.of(row) for row in quotas.T], "load": [Mean.of(row) for row in loads.T]}
            sheet.panel(f"host by rising quota ({label})", "share of the host", range(1, 9), rows)
    return sheet.done()


def figure_10(quick: bool, seed: int) -> Figure:
    """Return the latency of greedy and of correlation placement in scheme 6, by chain length and by high rate."""
    seeds = 1 if quick else REPEATS
    lengths = [5, 10] if quick else [5, 10, 15, 20, 25, 30]
    gaps = [20.0, 10.0] if quick else [20.0, 17.5, 15.0, 12.5, 10.0, 5.0, 2.0, 1.0]
    sheet = Sheet(
        PAPER, "Fig. 10", "Potential-driven placement (PD) and correlation (XZH)", scheme=6, weights="100, 1, 0.001",
        threshold_of_XZH=0.8, seeds=seeds,
    )  # fmt: skip
    for key, name, x, at in (
        ("length", "chain length 5 to 30", "chain length", lengths),
        ("gap", "high rate, 20 to 1 ms a tuple", "high rate: time between tuples (ms)", gaps),
    ):
        found: Curves = {"PD": [], "XZH": []}
        used: list[float] = []
        with compiling():
            for value in at:
                change = {key: value / 1000 if key == "gap" else int(value)}
                runs = [Trial(scheme_6(rng(seed, 10, k), **change), seed + k) for k in range(seeds)]  # type: ignore[arg-type]
                found["PD"].append(_mean(runs, lambda run: run.latency(run.decided(weights(*RECOMMENDED)))))
                found["XZH"].append(
                    _mean(runs, lambda run: run.latency(algorithm("correlation", threshold=0.8)(run.arrays, rng(0))))
                )
                used.append(float(np.mean([run.arrays.mean.sum() / run.arrays.capacity.sum() for run in runs])))
        ratio = [a / b for a, b in zip(found["PD"], found["XZH"], strict=True)]
        sheet.claim(
            f"PD is faster than XZH: {name}", "at every point", f"PD over XZH {listed(ratio)}", max(ratio) < 1,
            f"correlation weighs a hundredth of load here; demand over capacity is {listed(used)} from left to right: "
            "beyond 1 full queues are compared",
        )  # fmt: skip
        sheet.panel(x, "mean latency (s)", at, found, log=True)
    return sheet.done()
