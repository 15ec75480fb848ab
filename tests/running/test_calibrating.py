"""Calibration in place, on hosts that are a model: bursts until two agree, or time is up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
from test_forecast import CLUSTER, NETWORK, PLACEMENT

from penstock.cluster import Cluster, Host
from penstock.errors import EngineError
from penstock.latency.batches import BatchHosts
from penstock.latency.microbatch import predicted
from penstock.load import OperatorStatistics, Statistics, load_model
from penstock.load.fitting import HostBatches, Slope, told
from penstock.load.statistics import HostStatistics
from penstock.network.file import parse_network
from penstock.network.model import Operator
from penstock.running.calibrating import (
    AGAIN,
    BUDGET,
    BUSY,
    EACH,
    QUIET,
    Bursts,
    burst_rates,
    bursts_of,
    calibrate_in_place,
    faster,
    parts,
)
from penstock.running.job import Job
from penstock.spark.calibrate import bench, host_batches, measured_state
from penstock.spark.calibrate.slope_of import Precision
from penstock.spark.run import Batch, Outcome
from penstock.workload import Rates

TRUE = HostStatistics(overhead=0.2, factor=1.2)
ALONE = Statistics(
    operators={name: OperatorStatistics(cost=o.cost, error=0.01) for name, o in NETWORK.operators.items()}
)
STREAMS = {"o1.1": ("s1->o1.1", 0.004), "o1.2": ("o1.1->o1.2", 0.003)}
RATES = Rates.of(1.0, {"s1": [60.0] * 30 + [260.0] * 6 + [60.0] * 30})


class Hosts:
    """An engine whose hosts are slower in their first bursts."""

    def __init__(self, young: list[float], noise: float = 0.02, seed: int = 2) -> None:
        self.young, self.noise = young, noise
        self.rng, self.now, self.folders = np.random.default_rng(seed), 0.0, []

    def prepare(self, network: Any, placement: Any, folder: str, *, rates: Rates, **_: Any) -> Any:
        self.folders.append(folder)
        return SimpleNamespace(network=network, placement=placement, rates=rates, place=Path(folder))

    def retrying(self, _deployment: Any) -> list[str]:
        return []

    def run(self, deployment: Any, **_: Any) -> Outcome:
        runs = len(self.folders) - 1
        first, count = (EACH + AGAIN * (runs - 1), AGAIN) if runs else (0, EACH)
        levels = [self.young[min(first + number, len(self.young) - 1)] for number in range(count)]
        begins = bursts_of(Job(NETWORK, CLUSTER, PLACEMENT, "folder", rates=RATES), NETWORK, count)[1]
        slow = np.array(levels)[np.searchsorted(begins[1:], np.arange(400), side="right")]
        hosts = BatchHosts.of(Statistics(hosts={"h1": TRUE, "h2": TRUE}), CLUSTER)
        placed = hosts.placed(load_model(deployment.network, deployment.rates), PLACEMENT)
        noise = slow * np.exp(self.rng.normal(0, self.noise, (2, 400)))
        factors = [1.2, 1.2]
        result = predicted(placed.made, placed.queries, placed._pace(factors)._replace(noise=noise.tolist()), factors)
        batches = []
        for number, batch in enumerate(result.batches):
            stream, cost = STREAMS[batch.query]
            rows = round(batch.load / cost)
            batches.append(Batch(batch.query, number, 100 + batch.start, batch.duration, rows, {stream: (rows, 0)}))
        self.now += deployment.rates.duration + 3
        return Outcome(epoch=100.0, batches=batches, visible={}, stimulus={}, taken={}, seconds=20.0)


def calibrated(hosts: Hosts, rates: Rates = RATES, **more: Any) -> Statistics:
    job = Job(NETWORK, CLUSTER, PLACEMENT, "folder", rates=rates)
    return calibrate_in_place(hosts, job, ALONE, lambda _what, _share: None, clock=lambda: hosts.now, **more)


@pytest.mark.parametrize("first", [1.0, 1.3])
def test_one_run_is_enough_once_hosts_are_warm(first: float) -> None:
    """Where the last two bursts of a run agree no other is run, and overhead and factor are those of warm hosts."""
    jitter = []
    for seed in range(2, 8):
        hosts = Hosts([first, 1.0], seed=seed)
        found = calibrated(hosts)
        assert (found.measured["bursts"], len(hosts.folders)) == (4, 1)
        assert found.measured["agreed"]
        assert all(gap <= 0.05 for gap in found.measured["apart"].values())
        for host in ("h1", "h2"):
            assert found.hosts[host].overhead == pytest.approx(0.2, abs=0.03)
            assert found.hosts[host].factor == pytest.approx(1.2, rel=0.05)
            assert found.hosts[host].residual <= 0.04
            jitter.append(found.hosts[host].jitter)
    # One run may take what young code took longer for chance: of one in twelve hosts 0.041 s.
    assert np.mean(jitter) <= 0.02
    assert np.sort(jitter)[-2] <= 0.04
    assert max(jitter) <= 0.05


@pytest.mark.parametrize("higher", [2.0, 8.0])
def test_hosts_that_will_be_overloaded_are_calibrated_as_well(higher: float) -> None:
    """However far the run to come is beyond what its hosts can do, one run tells overhead and factor."""
    hosts = Hosts([1.0])
    found = calibrated(hosts, attrs.evolve(RATES, values=higher * RATES.values))
    assert (found.measured["bursts"], len(hosts.folders)) == (4, 1)
    assert found.measured["agreed"]
    for host in ("h1", "h2"):
        assert found.hosts[host].overhead == pytest.approx(0.2, abs=0.03)
        assert found.hosts[host].factor == pytest.approx(1.2, rel=0.05)


def test_bursts_leave_hosts_time() -> None:
    """No host, and no machine that several share, is busy for more than half of the time."""
    shared = Cluster.of([attrs.evolve(host, machine="m") for host in CLUSTER.hosts.values()], machines={"m": 1})
    for cluster, shares in ((CLUSTER, lambda load: load), (shared, np.sum)):
        for level, length in ((0.1, 11), (1.0, None), (10.0, 11 + QUIET)):
            rates = attrs.evolve(RATES, values=level * RATES.values)
            found, begins = bursts_of(Job(NETWORK, cluster, PLACEMENT, "folder", rates=rates), NETWORK)
            busy = np.max(shares(load_model(NETWORK, found).host_load(PLACEMENT, cluster).mean(axis=1)))
            assert busy <= BUSY + 1e-9
            assert busy >= 0.9 * BUSY or level < 1
            assert length in (None, begins[1] - begins[0])
            # As high as to come, or lower as a whole.
            assert np.ptp(found.values / burst_rates(rates, int(begins[1] - begins[0]) - 11)[0].values) < 1e-12


def test_young_hosts_are_run_until_they_are_warm() -> None:
    """Bursts of code that is still young disagree, and do not count."""
    hosts = Hosts([2.0, 1.6, 1.4, 1.25, 1.1, 1.0])
    found = calibrated(hosts, budget=200.0)
    assert (found.measured["bursts"], len(set(hosts.folders))) == (8, 3)
    assert found.measured["agreed"]
    assert found.hosts["h1"].factor == pytest.approx(1.2, rel=0.06)


def test_there_is_time_to_repeat_bursts() -> None:
    """Unless told otherwise, there is time for two more bursts where those of the first run do not agree."""
    hosts = Hosts([2.0, 1.6, 1.4, 1.25, 1.0])
    found = calibrated(hosts)
    assert (found.measured["bursts"], len(set(hosts.folders)), found.measured["agreed"]) == (6, 2, True)
    assert found.hosts["h1"].factor == pytest.approx(1.2, rel=0.06)


def test_unsteady_hosts_run_out_of_time() -> None:
    """Hosts that change from burst to burst are given up when time is up, and it is said how far apart they were."""
    hosts = Hosts([1.0, 1.4, 0.8, 1.2, 0.9, 1.3, 0.8, 1.2])
    found = calibrated(hosts)
    assert 90.0 <= hosts.now <= BUDGET
    assert found.measured["bursts"] == 6
    assert not found.measured["agreed"]
    assert found.measured["apart"]["h1"] > 0.05
    assert found.hosts["h1"].unrest >= 0.05


def test_batches_that_tell_nothing_are_an_error() -> None:
    """A run that goes on at one rate cannot tell overhead from cost, however often it is repeated."""
    hosts = Hosts([1.0])
    job = Job(NETWORK, CLUSTER, PLACEMENT, "folder", rates=attrs.evolve(RATES, values=np.full_like(RATES.values, 1e-3)))
    with pytest.raises(EngineError, match="too few or too alike"):
        calibrate_in_place(hosts, job, ALONE, lambda _what, _share: None, clock=lambda: hosts.now)


def test_a_burst_is_as_high_as_the_real_one() -> None:
    """Each burst has the largest rate, three seconds of it at once, and quiet before and after it."""
    rates, begins = burst_rates(RATES)
    found = rates.of_source("s1")
    assert (found.size, begins) == (47, (3.0, 14.0, 25.0, 36.0))
    assert (found == 260).sum() == 2 * 4
    assert (found == 60 + 3 * 200).sum() == 4
    assert found[0] == found[-1] == 60
    assert (faster(2.0), faster(0.5)) == (1.0, 0.5)


def test_sources_that_burst_at_different_times_share_the_burst() -> None:
    """Together the sources bring as much as at any time of the run to come, and each its part of it."""
    low, high = [100.0] * 40, [1000.0] * 10
    apart = Rates.of(1.0, {"a": high + low, "b": [*low[:20], *high, *low[:20]]})
    found = burst_rates(apart)[0].values
    assert np.isclose(found.sum(axis=0), 1100.0).sum() == 2 * EACH
    assert found[0].tolist() == found[1].tolist()


def test_batches_belong_to_the_burst_in_which_they_start() -> None:
    """Batches before the first burst count as its own, and each run has its own time."""
    at = np.array([0.0, 4.0, 11.9, 12.0, 20.0])
    row = HostBatches(at=at, load=at, took=at, empty=np.array([0.1]))
    first, second = parts({"h1": row}, (3.0, 12.0), 100.0)
    assert (first["h1"].at.tolist(), second["h1"].at.tolist()) == ([100.0, 104.0, 111.9], [112.0, 120.0])


def test_batches_up_to_the_first_with_input_are_left_out() -> None:
    """What a query does before it has compiled its plans tells nothing of the batches that follow."""
    found = [
        Batch("o1.1", 0, 100.0, 1.5, 0, {}),
        Batch("o1.1", 1, 102.0, 2.5, 50, {"s1->o1.1": (50, 0)}),
        Batch("o1.1", 2, 105.0, 0.5, 60, {"s1->o1.1": (60, 0)}),
        Batch("o1.1", 3, 106.0, 0.1, 0, {}),
        Batch("o1.1", 4, 107.0, 0.4, 50, {"s1->o1.1": (50, 0)}, known=False),
    ]
    outcome = Outcome(epoch=100.0, batches=found, visible={}, stimulus={}, taken={}, seconds=9.0)
    row = host_batches(Statistics(), NETWORK, CLUSTER, PLACEMENT, outcome)["h1"]
    assert (row.at.tolist(), row.took.tolist(), row.empty.tolist()) == ([5.0], [0.5], [pytest.approx(0.1)])
    assert row.load.tolist() == pytest.approx([60 * 0.004])


def test_what_commits_take_belongs_to_operators() -> None:
    """Seconds that Spark took to commit state are an operator's, per core; the host's overhead is what is left."""
    network = parse_network(
        {
            "name": "n",
            "sources": {"s": {}},
            "operators": {"w": {"kind": "aggregate", "input": "s", "window": "1 s", "cost": 0.001, "selectivity": 0.1}},
            "sinks": {"t": {"input": "w"}},
        }
    )
    cluster, rng = Cluster.of([Host(name="h1", cores=2)]), np.random.default_rng(0)
    counts = rng.integers(50, 500, 30)
    batches = [
        Batch(
            "w", n, float(n), 0.1 + 0.04 + 0.001 * int(rows), int(rows), {"s->w": (int(rows), 0)},
            state={"s->w": (1000 * n, 0.08)},
        )
        for n, rows in enumerate(counts)
    ]  # fmt: skip
    outcome = Outcome(0.0, batches, {}, {}, {}, 30.0)
    alone = Statistics(operators={"w": OperatorStatistics(cost=(0.001,))})
    known = measured_state(alone, cluster, {"w": "h1"}, outcome)
    assert known.operators["w"].state == 29_000
    assert known.operators["w"].overhead == pytest.approx(0.04)
    found = told(host_batches(known, network, cluster, {"w": "h1"}, outcome)["h1"])
    assert found is not None
    assert found.overhead == pytest.approx(0.1, abs=1e-3)


def test_few_batches_are_joined_by_those_of_earlier_bursts() -> None:
    """Earlier bursts join those that agree, the first of all only where batches are too few, as large ones are."""

    def burst(count: int) -> dict[str, HostBatches]:
        load = np.linspace(0.2, 2.0, count)
        return {"h1": HostBatches(at=np.arange(count) * 4.0, load=load, took=0.2 + 1.2 * load, empty=np.zeros(0))}

    bursts = Bursts()
    told = []
    for _ in range(3):
        bursts = bursts.after(burst(3))
        told.append(bursts.telling)
    assert told == [False, False, True]
    assert [len(found) for found in bursts.used("h1")] == [9, 3]
    for _ in range(2):
        bursts = bursts.after(burst(9))
    assert bursts.agreement.done
    assert [len(found) for found in bursts.used("h1")] == [24, 18]


def test_a_host_may_have_nothing_to_do_in_the_last_bursts() -> None:
    """What a host's own last bursts tell counts, also where others go on: rows may end, or never come, in the later."""

    def burst(number: int) -> HostBatches:
        load = np.linspace(0.2, 2.0, 9)
        return HostBatches(
            at=np.arange(9) + 20.0 * number, load=load, took=(1 + 0.1 * number) * (0.2 + 1.2 * load), empty=np.zeros(0)
        )

    def told(seen: int) -> HostStatistics:
        bursts = Bursts()
        for number in range(4):
            second = burst(number) if number < seen else burst(number).since(9)
            bursts = bursts.after({"h1": burst(number), "h2": second})
        return bursts.told()["h2"]

    assert told(2).factor == pytest.approx(1.2 * 1.1, rel=0.05)
    assert told(2).unrest > told(1).unrest > 0


class Rows:
    """A frame of which only the number of rows is known."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def coalesce(self, _parts: int) -> Rows:
        return self

    def cache(self) -> Rows:
        return self

    def count(self) -> int:
        return self.rows


def measured(
    monkeypatch: pytest.MonkeyPatch, operator: Operator, rows: tuple[int, ...], core: float = 1.0, span: float = 10.0
) -> OperatorStatistics:
    """Return what a bench says of an operator that takes 3 ms a row, and reading 1 ms, on a core of the host."""
    known = {name: Slope(0.001, 1e-4, 50) for name in operator.inputs}
    monkeypatch.setattr(bench.kinds, "apply", lambda *_: Rows(0))
    monkeypatch.setattr(bench, "apart", lambda *_: 0.0)
    monkeypatch.setattr(bench, "slope_of", lambda *_: Slope(0.003, 1e-4, 50))
    frames: Any = {name: Rows(count) for name, count in zip(operator.inputs, rows, strict=True)}
    counts = dict(zip(operator.inputs, rows, strict=True))
    rig = bench.Bench(frames, counts, dict.fromkeys(counts, span), Precision(), core, known)
    return rig.measured(operator, operator.inputs, 1.0)


def test_costs_are_those_of_a_benchmark_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a core twice as fast a row costs twice the seconds that it took; a delay takes its own on any."""
    step = Operator(name="x", kind="filter", inputs=("a",), where="true")
    delay = Operator(name="x", kind="delay", inputs=("a",), cost=(0.002,), selectivity=(1.0,))
    plain, fast = (measured(monkeypatch, step, (100,), core) for core in (1.0, 2.0))
    assert plain.cost == pytest.approx((0.002,))
    assert fast.cost == pytest.approx((0.004,))
    assert fast.resolution == pytest.approx(2 * plain.resolution)
    assert fast.error == plain.error
    assert measured(monkeypatch, delay, (100,), 2.0).cost == pytest.approx((0.002,))


@pytest.mark.parametrize(("rows", "span"), [((100, 0), 10.0), ((100, 100), 0.0)])
def test_a_join_whose_rows_never_meet_tells_no_selectivity(
    monkeypatch: pytest.MonkeyPatch, rows: tuple[int, int], span: float
) -> None:
    """With an input without rows, or all of one moment, a join keeps what the network says and counts as unmeasured."""
    join = Operator(name="x", kind="join", inputs=("a", "b"), within=2.0)
    for given in (None, (0.1, 0.1)):
        found = measured(monkeypatch, attrs.evolve(join, selectivity=given), rows, span=span)
        assert (found.selectivity, found.tuples, found.error) == (given, 0, 1.0)
    assert measured(monkeypatch, join, (100, 100)).selectivity == (0.0, 0.0)
