"""Figures 1, 3 to 10 and Tables 1, 3 of Xing et al., Dynamic load distribution in the Borealis stream processor."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import attrs
import numpy as np

from penstock.experiments.balancing import GLOBAL, PAIRS, Plan, Setting, System, adapted, by_second, system
from penstock.experiments.base import Claim, Curve, Figure, Panel, listed
from penstock.latency.mace import cumulative_excess
from penstock.placement import Arrays, algorithm
from penstock.placement.correlation import average_correlation
from penstock.placement.jit import compiling
from penstock.workload.shapes import fluctuating

PAPER = "correlation"
NAMES = {"COR-GLB": "correlation", "LLF": "largest-first", "RAND": "random", "CONNECTED": "connected"}


def chains(hosts: int, level: float, rng: np.random.Generator, samples: int = 10) -> Arrays:
    """Return the setting of Table 2: chains of ten filters, one a host, high and low rates evenly out of step."""
    rows = []
    for chain in range(hosts):
        series = fluctuating(1.0, samples, cycle=10, ratio=4, offset=10 * chain / hosts) * rng.uniform(0.8, 1.2)
        for _ in range(10):
            rows.append(series)
            series = series * rng.uniform(0.8, 1.2)
    load = np.array(rows)
    part = np.repeat(np.arange(hosts), 10)
    return Arrays.of(load * (level * hosts / load.mean(axis=1).sum()), np.ones(hosts), part=part)


def figure_1(quick: bool, seed: int) -> Figure:
    """Return the worst backlog of two chains in opposite phase, connected and cut (section 3.1), as a fluid."""
    step, cycle = 0.01, 10.0
    at = [0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95]
    worst: dict[str, list[float]] = {"connected": [], "cut": []}
    for level in at:
        one, two = (
            fluctuating(level / 2, 2 * cycle, cycle=cycle, ratio=2, offset=offset, period=step) * step
            for offset in (0.0, 5.0)
        )
        for plan, load in (("connected", np.array([2 * one, 2 * two])), ("cut", np.array([one + two, one + two]))):
            # Mace's recursion counts work per period; so the rate is multiplied by the period.
            worst[plan].append(float(cumulative_excess(load / step, np.ones(2), step).max()))
    expected = [max(0.0, (4 * level / 3 - 1) * 5) for level in at]
    claims = (
        Claim(
            paper=PAPER,
            figure="Fig. 1",
            name="worst delay of the connected plan",
            expected=f"max(0, (4u/3 - 1) * 5 s) at u = {listed(at)}: {listed(expected)}",
            measured=listed(worst["connected"]),
            holds=bool(np.allclose(worst["connected"], expected, atol=1e-6)),
        ),
        Claim(
            paper=PAPER,
            figure="Fig. 1",
            name="worst delay of the cut plan",
            expected="0",
            measured=listed(worst["cut"]),
            holds=max(worst["cut"]) < 1e-6,
        ),
    )
    return Figure(
        paper=PAPER,
        name="Fig. 1",
        title="Two ways to place two chains",
        parameters={"chains": "2 of 2 equal operators", "high over low": "2", "phases": "5 s"},
        panels=(
            Panel(
                x="mean load of a host",
                y="worst queueing delay (s)",
                curves=tuple(Curve(label=plan, x=tuple(at), y=tuple(row)) for plan, row in worst.items()),
            ),
        ),
        claims=claims,
    )


def figure_4(quick: bool, seed: int) -> Figure:
    """Return the mean standard deviation of host load by load level, beside the least possible one (Theorem 1)."""
    at = [0.5, 0.6, 0.7, 0.8, 0.9]
    seeds = 3 if quick else 10
    found: dict[str, list[float]] = {label: [] for label in (*NAMES, "MINIMUM")}
    for level in at:
        rows: dict[str, list[float]] = {label: [] for label in found}
        for k in range(seeds):
            arrays = chains(20, level, np.random.default_rng([seed, k]))
            for label, name in NAMES.items():
                where = algorithm(name)(arrays, np.random.default_rng([seed, k, 1]))
                rows[label].append(float(arrays.host_load(where).std(axis=1).mean()))
            rows["MINIMUM"].append(float(arrays.load.sum(axis=0).std()) / 20)
        for label, row in rows.items():
            found[label].append(float(np.mean(row)))
    glb, llf, rand = (np.array(found[label]) for label in ("COR-GLB", "LLF", "RAND"))
    claims = (
        Claim(
            paper=PAPER,
            figure="Fig. 4",
            name="COR-GLB is close to the minimum",
            expected="nearer to it than a quarter of the way to LLF",
            measured="; ".join(f"{label} {listed(found[label])}" for label in ("COR-GLB", "MINIMUM", "LLF")),
            holds=bool((glb - found["MINIMUM"] < (llf - found["MINIMUM"]) / 4).all()),
            note="the minimum is std(X)/n of Theorem 1",
        ),
        Claim(
            paper=PAPER,
            figure="Fig. 4",
            name="COR-GLB is far below LLF and RAND",
            expected="less than half",
            measured=f"{listed(list(glb / llf))} of LLF; {listed(list(glb / rand))} of RAND",
            holds=bool((glb < llf / 2).all() and (glb < rand / 2).all()),
        ),
    )
    return Figure(
        paper=PAPER,
        name="Fig. 4",
        title="Mean standard deviation of the hosts' load",
        parameters={"hosts": "20", "operators": "10 a host, in chains", "seeds": str(seeds), "phases": "evenly spread"},
        panels=(
            Panel(
                x="load level",
                y="mean standard deviation of load",
                curves=tuple(Curve(label=label, x=tuple(at), y=tuple(row)) for label, row in found.items()),
            ),
        ),
        claims=claims,
    )


def table_3(quick: bool, seed: int) -> Figure:
    """Return the average load correlation of pairs of hosts (section 5.2)."""
    seeds = 3 if quick else 10
    rows: dict[str, list[float]] = {label: [] for label in NAMES}
    for k in range(seeds):
        arrays = chains(20, 0.9, np.random.default_rng([seed, k]))
        for label, name in NAMES.items():
            where = algorithm(name)(arrays, np.random.default_rng([seed, k, 1]))
            rows[label].append(average_correlation(arrays.host_load(where)))
    mean = {label: float(np.mean(row)) for label, row in rows.items()}
    claims = (
        Claim(
            paper=PAPER,
            figure="Table 3",
            name="COR-GLB",
            expected="0.65",
            measured=f"{mean['COR-GLB']:.3f}",
            holds=abs(mean["COR-GLB"] - 0.65) < 0.05,
            note="phases and window are not given; evenly spread phases, which the near-zero rows need, give about 0.5",
        ),
        Claim(
            paper=PAPER,
            figure="Table 3",
            name="RAND and LLF",
            expected="-0.0048 and -0.0008: near 0",
            measured=f"{mean['RAND']:.4f} and {mean['LLF']:.4f}",
            holds=max(abs(mean["RAND"]), abs(mean["LLF"])) < 0.05,
        ),
        Claim(
            paper=PAPER,
            figure="Table 3",
            name="connected plan",
            expected="close to -1",
            measured=f"{mean['CONNECTED']:.4f}",
            holds=mean["CONNECTED"] < -0.9,
            note="impossible for more than two hosts: the average over pairs of n series is at least -1/(n-1), "
            "-0.0526 for 20",
        ),
    )
    return Figure(
        paper=PAPER,
        name="Table 3",
        title="Average load correlation",
        parameters={"hosts": "20", "level": "0.9", "seeds": str(seeds), "phases": "evenly spread"},
        panels=(
            Panel(
                x="seed",
                y="average load correlation",
                curves=tuple(
                    Curve(label=label, x=tuple(map(float, range(seeds))), y=tuple(row)) for label, row in rows.items()
                ),
            ),
        ),
        claims=claims,
    )


def _claim(figure: str, name: str, expected: str, measured: str, holds: bool | np.bool_, note: str = "") -> Claim:
    return Claim(
        paper=PAPER, figure=figure, name=name, expected=expected, measured=measured, holds=bool(holds), note=note
    )


def _curves(x: Sequence[float], found: Mapping[str, Sequence[float]]) -> tuple[Curve, ...]:
    return tuple(
        Curve(label=label, x=tuple(map(float, x)), y=tuple(map(float, row))) for label, row in found.items() if len(row)
    )


def _rng(*parts: int) -> np.random.Generator:
    return np.random.default_rng(list(parts))


def _said(found: Mapping[str, Sequence[float]]) -> str:
    return "; ".join(f"{label} {listed(list(row))}" for label, row in found.items())


def _averaged(
    at: Sequence[float], labels: Sequence[str], seeds: int, one: Callable[[float, int], Mapping[str, float]]
) -> dict[str, list[float]]:
    """Return by label the mean over seeds at each point."""
    found: dict[str, list[float]] = {label: [] for label in labels}
    for value in at:
        rows = [one(value, k) for k in range(seeds)]
        for label in labels:
            found[label].append(float(np.mean([row[label] for row in rows])))
    return found


def _by_number(
    made: Sequence[Setting], one: Callable[[Setting, int], dict[str, float]], number: float, k: int
) -> dict[str, float]:
    return one(made[int(number)], k)


def table_1(quick: bool, seed: int) -> Figure:
    """Return how long the decisions take (section 4.2)."""
    at, paper = [10, 20, 50], [0.5, 3.4, 54.0]
    seconds = []
    with compiling():
        algorithm("correlation")(chains(2, 0.9, _rng(seed)), _rng(0))
        pair = chains(2, 0.9, _rng(seed))
        for arrays in [*(chains(hosts, 0.9, _rng(seed, hosts)) for hosts in at), pair]:
            best = np.inf
            for _ in range(5):
                start = time.perf_counter()
                algorithm("correlation" if arrays is not pair else "correlation-two-way")(arrays, _rng(0))
                best = min(best, time.perf_counter() - start)
            seconds.append(best)
    faster = np.array([*paper, 6e-3]) / np.array(seconds)
    claim = _claim(
        "Table 1", "time of the global algorithm for 10, 20, 50 hosts, and of one pair",
        "0.5, 3.4, 54 s and 6 ms on a processor of 2 GHz; here at least 100 times less",
        # Times differ from run to run, claims should not.
        "at least 100 times less" if (faster[:3] >= 100).all() and faster[3] >= 10 else f"{listed(list(seconds))} s",
        (faster[:3] >= 100).all() and faster[3] >= 10,
        "for the pair at least 10 times: what is timed there is mostly the call",
    )  # fmt: skip
    return Figure(
        paper=PAPER,
        name="Table 1",
        title="Computation time",
        parameters={"operators": "10 a host", "samples": "10"},
        panels=(
            Panel(
                x="hosts", y="seconds", log=True, curves=_curves(at, {"paper": paper, "here": seconds[:3]})
            ),
        ),
        claims=(claim,),
    )  # fmt: skip


STATIC = ("COR-GLB", "LLF-GLB", "RAND-GLB")


def _static(given: System, labels: Sequence[str], seed: int, begin: float, end: float) -> dict[str, float]:
    """Return the latency ratio of global algorithms that see the first window and are not followed by any move."""
    return {
        label: given.ratio(Plan(given.decided(GLOBAL[label], begin, None, _rng(seed, 1))), begin, end, seed)
        for label in labels
    }


def figure_3(quick: bool, seed: int) -> Figure:
    """Return the latency ratio of the global algorithms by load level."""
    at = [0.5, 0.8, 0.9] if quick else [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
    seeds, end = (2, 70.0) if quick else (5, 130.0)
    with compiling():
        found = _averaged(
            at, STATIC, seeds,
            lambda level, k: _static(system(Setting(level=level), end, _rng(seed, 3, k)), STATIC, seed + k, 10.0, end),
        )  # fmt: skip
    high = [index for index, level in enumerate(at) if level >= 0.8]
    low = [index for index, level in enumerate(at) if level <= 0.5]
    ratios = [found["COR-GLB"][i] / min(found["LLF-GLB"][i], found["RAND-GLB"][i]) for i in high]
    claims = (
        _claim(
            "Fig. 3", "COR-GLB is far below LLF-GLB and RAND-GLB", "less than half from level 0.8 on",
            _said(found), max(ratios) < 0.5,
        ),
        _claim(
            "Fig. 3", "up to level 0.5 it does not matter which", "within a quarter of each other",
            _said({label: [row[i] for i in low] for label, row in found.items()}),
            all(max(row[i] for row in found.values()) < 1.25 * min(row[i] for row in found.values()) for i in low),
        ),
    )  # fmt: skip
    return Figure(
        paper=PAPER,
        name="Fig. 3",
        title="Latency ratio of the global algorithms",
        parameters={
            "table 2": "20 hosts, 10 operators a host, chains of 10", "phases": "evenly spread", "seeds": str(seeds),
            "measured": f"{end - 10:g} s after the first window",
        },
        panels=(Panel(x="load level", y="latency ratio", log=True, curves=_curves(at, found)),),
        claims=claims,
    )  # fmt: skip


def figure_5(quick: bool, seed: int) -> Figure:
    """Return latency ratio and load moved when the level rises from 0.5 to 0.8."""
    seeds, begin, end = 10, 20.0, 80.0
    rows: dict[str, list[tuple[float, float]]] = {label: [] for label in STATIC}
    with compiling():
        for k in range(seeds):
            given = system(Setting(level=0.5), end, _rng(seed, 5, k), rise=(begin, 0.8))
            for label in STATIC:
                start = given.decided(GLOBAL[label], begin, None, _rng(seed, k, 1))
                plan = adapted(given, start, PAIRS["LLF-BAL"], begin + 1, end, _rng(seed, k, 2))
                rows[label].append((given.ratio(plan, begin, end, seed + k), sum(plan.moved)))
    mean = {label: np.mean(row, axis=0) for label, row in rows.items()}
    claims = tuple(
        _claim(
            "Fig. 5", f"COR-GLB has the lowest {what}", "below LLF-GLB and RAND-GLB",
            "; ".join(f"{label} {value[i]:.3g}" for label, value in mean.items()),
            mean["COR-GLB"][i] < min(mean["LLF-GLB"][i], mean["RAND-GLB"][i]),
        )
        for i, what in enumerate(("latency ratio", "load moved"))
    )  # fmt: skip
    return Figure(
        paper=PAPER,
        name="Fig. 5",
        title="The level rises from 0.5 to 0.8, balanced by LLF-BAL",
        parameters={"rates": "drawn anew at the rise", "measured": "60 s from the rise on", "seeds": str(seeds)},
        panels=tuple(
            Panel(
                x="seed",
                y=what,
                curves=_curves(range(seeds), {label: [pair[i] for pair in row] for label, row in rows.items()}),
            )
            for i, what in enumerate(("latency ratio", "load moved (hosts)"))
        ),
        claims=claims,
    )


WARM, LAST = 60.0, 120.0


def _recovery(setting: Setting, labels: Sequence[str], seed: int, k: int) -> dict[str, float]:
    """Return the latency ratio in the minute after algorithms meet a connected plan and its overload."""
    given = system(setting, LAST, _rng(seed, 6, k))
    start = given.decided("connected", 10.0, None, _rng(0))
    found = {}
    for label in labels:
        name = PAIRS.get(label) or GLOBAL[label]
        plan = adapted(given, start, name, WARM, LAST, _rng(seed, k, 2), once=label in GLOBAL, warm=True)
        found[label] = given.ratio(plan, WARM, LAST, seed + k)
    return found


RECOVERY = {
    "start": "connected, after a minute in which only overloaded hosts give operators away",
    "measured": "the minute after the algorithm is turned on",
}


def figure_6(quick: bool, seed: int) -> Figure:
    """Return the latency ratio of the one-way pairwise algorithms by load level."""
    at, seeds = ([0.8, 0.9], 2) if quick else ([0.5, 0.6, 0.7, 0.8, 0.9, 0.95], 5)
    labels = ("COR-BAL", "LLF-BAL", "RAND-BAL", "COR-GLB")
    with compiling():
        found = _averaged(at, labels, seeds, lambda level, k: _recovery(Setting(level=level), labels, seed, k))
    cor, llf, rand, best = (np.array(found[label]) for label in labels)
    claims = (
        _claim(
            "Fig. 6", "COR-BAL is the best of the one-way algorithms", "below LLF-BAL and RAND-BAL at every level",
            _said(found), ((cor < llf) & (cor < rand)).all(),
            "connected plans leave a host few kinds of operators: all of a chain, which correlate fully, so that there "
            "is nothing to choose between but the load",
        ),
        _claim(
            "Fig. 6", "all of them are much worse than COR-GLB", "at least twice its latency ratio, each at each level",
            listed(list(np.minimum(np.minimum(cor, llf), rand) / best)),
            (np.minimum(np.minimum(cor, llf), rand) >= 2 * best).all(),
            "but at level 0.95, where the backlog of the connected plan does not drain within the minute",
        ),
    )  # fmt: skip
    return Figure(
        paper=PAPER,
        name="Fig. 6",
        title="One-way pairwise algorithms",
        parameters={**RECOVERY, "seeds": str(seeds)},
        panels=(Panel(x="load level", y="latency ratio", log=True, curves=_curves(at, found)),),
        claims=claims,
    )


def figure_7(quick: bool, seed: int) -> Figure:
    """Return the latency ratio of the improved two-way algorithms by load level."""
    at, seeds = [0.9] if quick else [0.8, 0.85, 0.9, 0.95, 1.0], 5
    labels = ("COR-BAL", "COR-RD-IMP", "COR-SE-IMP", "COR-GLB")
    with compiling():
        found = _averaged(at, labels, seeds, lambda level, k: _recovery(Setting(level=level), labels, seed, k))
    one, divide, exchange, _ = (np.array(found[label]) for label in labels)
    claims = (
        _claim(
            "Fig. 7", "the two-way algorithms are much better than COR-BAL", "less than half at every level",
            _said(found), (np.maximum(divide, exchange) < one / 2).all(),
            "from level 0.95 on the backlog of the connected plan does not drain within the minute, wherever "
            "operators go",
        ),
        _claim(
            "Fig. 7", "COR-SE-IMP is better on average than COR-RD-IMP", "mean over levels below",
            f"{exchange.mean():.3g} and {divide.mean():.3g}", exchange.mean() < divide.mean(),
        ),
    )  # fmt: skip
    return Figure(
        paper=PAPER,
        name="Fig. 7",
        title="Improved two-way algorithms",
        parameters={**RECOVERY, "seeds": str(seeds)},
        panels=(Panel(x="load level", y="latency ratio", log=True, curves=_curves(at, found)),),
        claims=claims,
    )


def figure_8(quick: bool, seed: int) -> Figure:
    """Return latency ratio, load moved, and the quality of the plans over time at level 0.9."""
    labels, seeds = ("COR-RD-IMP", "COR-SE-IMP", "COR-GLB"), 5
    seconds = np.arange(int(LAST - WARM))
    rows: dict[str, np.ndarray] = {label: np.zeros((4, len(seconds), seeds)) for label in labels}
    with compiling():
        for k in range(seeds):
            given = system(Setting(), LAST, _rng(seed, 6, k))
            ideal = system(Setting(), LAST, _rng(seed, 6, k)).arrays(LAST)
            start = given.decided("connected", 10.0, None, _rng(0))
            for label in labels:
                name = PAIRS.get(label) or GLOBAL[label]
                plan = adapted(given, start, name, WARM, LAST, _rng(seed, k, 2), once=label in GLOBAL, warm=True)
                run = given.run(plan, WARM, LAST, seed + k, trace=True)
                table = rows[label]
                table[0, :, k] = by_second(run, WARM, LAST) / 0.01
                where, order = plan.start, np.array(ideal.names, np.int64)
                steps = dict(zip([at for at, _ in plan.steps], zip(plan.steps, plan.moved, strict=True), strict=True))
                for second in range(int(LAST)):
                    moved = 0.0
                    if float(second) in steps:
                        (_, where), moved = steps[float(second)]
                    if second >= WARM:
                        t = second - int(WARM)
                        table[1, t, k] = (table[1, t - 1, k] if t else 0.0) + moved
                        hosts = ideal.host_load(where[order])
                        table[2, t, k] = hosts.std(axis=1).mean()
                        table[3, t, k] = average_correlation(hosts)
    found = {label: table.mean(axis=2) for label, table in rows.items()}
    divide, exchange, best = (found[label] for label in labels)
    claims = (
        _claim(
            "Fig. 8", "COR-RD-IMP moves much more load than COR-SE-IMP", "at least 1.5 times",
            f"{divide[1, -1]:.3g} and {exchange[1, -1]:.3g}", divide[1, -1] > 1.5 * exchange[1, -1],
        ),
        _claim(
            "Fig. 8", "COR-GLB moves less load than COR-RD-IMP", "less",
            f"{best[1, -1]:.3g} and {divide[1, -1]:.3g}", best[1, -1] < divide[1, -1],
        ),
        _claim(
            "Fig. 8", "the final plan of COR-RD-IMP is closer to COR-GLB's than COR-SE-IMP's is",
            "by the mean deviation of the hosts' load",
            f"RD {divide[2, -1]:.4g}, SE {exchange[2, -1]:.4g}, GLB {best[2, -1]:.4g}",
            abs(divide[2, -1] - best[2, -1]) < abs(exchange[2, -1] - best[2, -1]),
        ),
        _claim(
            "Fig. 8", "COR-SE-IMP is better on average than COR-RD-IMP", "mean latency ratio below",
            f"{exchange[0].mean():.3g} and {divide[0].mean():.3g}", exchange[0].mean() < divide[0].mean(),
        ),
    )  # fmt: skip
    titles = ("latency ratio", "load moved (hosts)", "mean deviation of host load", "average correlation of hosts")
    return Figure(
        paper=PAPER,
        name="Fig. 8",
        title="The correlation algorithms over time at level 0.9",
        parameters={**RECOVERY, "deviation and correlation": "of the last window", "seeds": str(seeds)},
        panels=tuple(
            Panel(
                x="time since the start of the algorithm (s)",
                y=title,
                log=not i,
                curves=_curves(seconds.tolist(), {label: table[i] for label, table in found.items()}),
            )
            for i, title in enumerate(titles)
        ),
        claims=claims,
    )


def figure_9(quick: bool, seed: int) -> Figure:
    """Return the latency ratio by hosts, operators a host, window, samples, cycle and ratio, at level 0.9."""
    sweeps: dict[str, tuple[str, list[float]]] = {
        "hosts": ("hosts", [4, 20] if quick else [4, 10, 20, 30, 40]),
        "operators a host": ("per_host", [3, 10] if quick else [3, 5, 10, 20, 30]),
        "statistics window (s)": ("window", [5, 10] if quick else [5, 10, 20]),
        "samples in the window": ("samples", [5, 10] if quick else [5, 10, 20]),
        "cycle of the rates (s)": ("cycle", [10, 20] if quick else [5, 10, 15, 20]),
        "high rate over low": ("ratio", [4, 8] if quick else [2, 4, 6, 8]),
    }
    seeds = 1 if quick else 3
    static, pairs = ("COR-GLB", "LLF-GLB"), ("COR-SE-IMP", "LLF-BAL")

    known: dict[tuple[Setting, int], dict[str, float]] = {}

    def one(setting: Setting, k: int) -> dict[str, float]:
        begin = 20.0
        end = begin + 60.0
        if (setting, k) not in known:
            still = _static(system(setting, end, _rng(seed, 9, k)), static, seed + k, begin, end)
            known[setting, k] = {**still, **_recovery(setting, pairs, seed, k)}
        return known[setting, k]

    found = {}
    with compiling():
        for title, (key, at) in sweeps.items():
            kinds = [type(getattr(Setting(), key))(value) for value in at]
            made = [attrs.evolve(Setting(), **{key: kind}) for kind in kinds]
            found[title] = _averaged(range(len(at)), (*static, *pairs), seeds, partial(_by_number, made, one))
    worst = {title: (max(curves["COR-GLB"]), max(curves["LLF-GLB"])) for title, curves in found.items()}
    below = {
        title: all(a < b for a, b in zip(curves["COR-GLB"], curves["LLF-GLB"], strict=True))
        and all(a < b for a, b in zip(curves["COR-SE-IMP"], curves["LLF-BAL"], strict=True))
        for title, curves in found.items()
    }
    small = found["operators a host"]
    llf = {title: curves["LLF-GLB"] for title, curves in found.items()}
    claims = (
        _claim(
            "Fig. 9", "the correlation algorithms are below the largest-first ones",
            "COR-GLB below LLF-GLB and COR-SE-IMP below LLF-BAL at every point",
            "; ".join(f"{title}: {'yes' if yes else 'no'}" for title, yes in below.items()), all(below.values()),
            "not where the window of 5 s is half of the cycle: what it shows of a chain depends on when it ends",
        ),
        _claim(
            "Fig. 9", "COR-GLB is not sensitive, but to very few operators a host",
            "latency ratio at most 25 elsewhere, more than that with the fewest operators",
            "; ".join(f"{title}: at most {value[0]:.3g}" for title, value in worst.items())
            + f"; from {sweeps['operators a host'][1][1]:g} operators on at most {max(small['COR-GLB'][1:]):.3g}",
            all(value[0] <= 25 for title, value in worst.items() if title != "operators a host")
            and max(small["COR-GLB"][1:]) <= 25 < small["COR-GLB"][0],
            "a window of half the cycle does not show what a chain will do, and few operators even out badly; "
            "the paper's axes are lost, 25 is a guess",
        ),
        _claim(
            "Fig. 9", "LLF-GLB is bad for few hosts, few operators a host, long cycles, large ratios",
            "worse there than at the other end",
            "; ".join(f"{title}: {listed(row)}" for title, row in llf.items()),
            llf["hosts"][0] > llf["hosts"][-1] and llf["operators a host"][0] > llf["operators a host"][-1]
            and llf["cycle of the rates (s)"][-1] > llf["cycle of the rates (s)"][0]
            and llf["high rate over low"][-1] > llf["high rate over low"][0],
            "but for few hosts: four chains that are evenly out of step even out well wherever their operators are",
        ),
        _claim(
            "Fig. 9", "a window of half the cycle is enough", "cycle 20: COR-GLB below LLF-GLB",
            f"{found['cycle of the rates (s)']['COR-GLB'][-1]:.3g} and {llf['cycle of the rates (s)'][-1]:.3g}",
            found["cycle of the rates (s)"]["COR-GLB"][-1] < llf["cycle of the rates (s)"][-1],
        ),
    )  # fmt: skip
    return Figure(
        paper=PAPER,
        name="Fig. 9",
        title="Sensitivity at level 0.9",
        parameters={"-GLB": "static, 60 s", "COR-SE-IMP, LLF-BAL": "as in Fig. 6 and 7", "seeds": str(seeds)},
        panels=tuple(
            Panel(x=title, y="latency ratio", log=True, curves=_curves(at, found[title]))
            for title, (_, at) in sweeps.items()
        ),
        claims=claims,
    )


BURSTY = {
    "COR-GLB-BAL": ("COR-GLB", "COR-BAL"),
    "COR-RD-GLB-IMP": ("COR-GLB", "COR-RD-IMP"),
    "COR-SE-GLB-IMP": ("COR-GLB", "COR-SE-IMP"),
    "LLF-GLB-BAL": ("LLF-GLB", "LLF-BAL"),
    "RAND-GLB-BAL": ("RAND-GLB", "RAND-BAL"),
}


def figure_10(quick: bool, seed: int) -> Figure:
    """Return the latency ratio of global and pairwise algorithms together under on-off sources, by load level."""
    at, seeds, end = ([0.7], 3, 50.0) if quick else ([0.5, 0.6, 0.7, 0.8], 5, 130.0)

    def one(level: float, k: int) -> dict[str, float]:
        given = system(Setting(level=level, bursty=True), end, _rng(seed, 10, k))
        found = {}
        for label, (first, then) in BURSTY.items():
            start = given.decided(GLOBAL[first], 10.0, None, _rng(seed, k, 1))
            plan = adapted(given, start, PAIRS[then], 11.0, end, _rng(seed, k, 2))
            found[label] = given.ratio(plan, 10.0, end, seed + k)
        return found

    with compiling():
        found = _averaged(at, tuple(BURSTY), seeds, one)
    table = np.array([found[label] for label in BURSTY])
    claims = (
        _claim(
            "Fig. 10", "global and pairwise correlation algorithms together are best",
            "COR-SE-GLB-IMP and COR-GLB-BAL below LLF-GLB-BAL and RAND-GLB-BAL at every level", _said(found),
            (table[[0, 2]].max(axis=0) < table[3:].min(axis=0)).all(),
        ),
        _claim(
            "Fig. 10", "COR-SE-GLB-IMP is the best of all at the highest level", "below all others",
            "; ".join(f"{label} {row[-1]:.3g}" for label, row in found.items()), table[:, -1].argmin() == 2,
        ),
    )  # fmt: skip
    return Figure(
        paper=PAPER,
        name="Fig. 10",
        title="Bursty sources",
        parameters={
            "phases": "exponential, 5 s on and 5 s off in the mean", "seeds": str(seeds),
            "sources": "a quarter independent, the others opposite to one of them, or the same later",
        },
        panels=(Panel(x="load level", y="latency ratio", log=True, curves=_curves(at, found)),),
        claims=claims,
    )  # fmt: skip
