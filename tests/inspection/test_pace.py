"""Trigger, arrivals, rates, headroom and catch-up: against what the batches were made from, and a brute simulation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.inspection import Fit, inspect
from penstock.inspection.arrivals import find_arrivals, mean_rate, rate_series
from penstock.inspection.capacity import catch_up, find_capacity, find_lag, find_limit, managed
from penstock.inspection.running import Running
from penstock.inspection.trigger import find_trigger
from penstock.telemetry import Batches, read_telemetry


@pytest.fixture
def table(write: Callable[..., Path]) -> Callable[[list[Any]], Batches]:
    """Return made batches as a table."""

    def read(batches: list[Any]) -> Batches:
        log = next(iter(read_telemetry([str(write(batches))]).queries.values()))
        return log.batches

    return read


@pytest.mark.parametrize("trigger", [0.5, 1.0, 2.0, 7.0, 10.0, 60.0, 300.0])
def test_trigger_is_found(make: SimpleNamespace, table: Callable[..., Batches], trigger: float) -> None:
    """The interval of a trigger shows in the times at which waiting batches begin."""
    batches = make.paced(trigger=trigger, overhead=0.1, cost=1e-4, count=40, noise=0.1)
    assert find_trigger(table(batches)) == trigger


@pytest.mark.parametrize(("before", "after"), [(10.0, 300.0), (30.0, 20.0), (60.0, 10.0), (10.0, 10.0)])
def test_the_last_run_decides_of_the_trigger(
    make: SimpleNamespace, table: Callable[..., Batches], before: float, after: float
) -> None:
    """A query that was started again with another trigger has that one, though most batches may be older."""
    first = make.paced(trigger=before, overhead=0.1, cost=1e-4, count=60)
    begin = make.EPOCH + 600 * np.ceil((first[-1].start - make.EPOCH) / 600 + 1)
    later = make.paced(trigger=after, overhead=0.1, cost=1e-4, count=20, begin=begin, run=1)
    renumbered = [attrs.evolve(batch, number=60 + batch.number) for batch in later]
    assert find_trigger(table([*first, *renumbered])) == after


@pytest.mark.parametrize("trigger", [1.0, 10.0, 7.35])
def test_pace_of_a_source_is_no_trigger(make: SimpleNamespace, table: Callable[..., Batches], trigger: float) -> None:
    """Batches that are evenly apart, but at no whole multiples since the epoch, begin when rows come."""
    batches = make.paced(trigger=trigger, overhead=0.1, cost=1e-4, count=40, begin=make.EPOCH + 0.377)
    assert find_trigger(table(batches)) == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_no_trigger_is_found(make: SimpleNamespace, table: Callable[..., Batches], seed: int) -> None:
    """Batches that begin whenever data comes have no interval."""
    rng = np.random.default_rng(seed)
    starts = make.EPOCH + np.cumsum(rng.uniform(0.5, 3, 60))
    batches = [
        make.Batch(query="clicks", number=n, start=float(start), rows=10, seconds=0.2) for n, start in enumerate(starts)
    ]
    assert find_trigger(table(batches)) == 0.0


@pytest.fixture
def timed(make: SimpleNamespace, table: Callable[..., Batches]) -> Callable[[Any, Any], Batches]:
    """Return batches that began at these times (s) and took so long."""
    one = table(make.paced(count=1))

    def at(start: Any, duration: Any) -> Batches:
        run = np.zeros(len(start), np.int64)
        return attrs.evolve(one, start=np.array(start), duration=np.array(duration), run=run)

    return at


def test_pauses_of_spark_are_no_waits(timed: Callable[[Any, Any], Batches]) -> None:
    """The 5 s of a recorded query are found, though five of its first batches overran them, 4 to 36 ms apart."""
    start = [
        16.412, 26.507, 32.778, 37.090, 42.915, 46.455, 50.000, 55.000, 60.001, 65.000, 70.004, 75.001, 80.000, 85.003,
    ]  # fmt: skip
    duration = [
        10.059, 6.250, 4.308, 5.805, 3.533, 2.679, 1.778, 1.828, 1.923, 2.111, 1.594, 1.194, 1.610, 1.610,
    ]  # fmt: skip
    assert find_trigger(timed(1795766300 + np.array(start), duration)) == 5.0


def test_rows_that_come_evenly_show_no_short_trigger(timed: Callable[[Any, Any], Batches]) -> None:
    """Recorded batches of a file every 4 s, all of which begin near multiples of 0.1 s, have no trigger."""
    start = [
        8.695, 17.903, 21.325, 25.305, 29.299, 33.308, 37.310, 41.313, 45.302, 49.318, 53.302, 57.306, 61.317, 65.306,
        69.303, 73.303, 77.330, 81.298, 85.322,
    ]  # fmt: skip
    gaps, pauses = np.diff(start), [0.11, 0.01, 2.94, 3.18, 3.03, 3.33, 1.93, 2.3, 3.37, 2.62, 3.03, 3.14, 3.42, 2.87]
    duration = [*(gaps - [*pauses, 3.25, 2.92, 2.0, 1.8]), 1.0]
    assert find_trigger(timed(1795961800 + np.array(start), duration)) == 0.0


def spark(rng: np.random.Generator, interval: float, count: int, idle: float) -> tuple[list[float], list[float]]:
    """Return when batches begin and how long they take, as Spark paces them, with drawn shares of slow batches,
    pauses between batches, and delays behind multiples of the interval; a trigger may find no rows.
    """
    base = interval or float(rng.choice([0.1, 0.5, 2.0, 10.0]))
    slow, late = rng.uniform(0, 0.6), rng.uniform(0, 0.03)
    pause = np.exp(rng.uniform(np.log(0.002), np.log(0.2)))
    low, high, most = [(0.3, 0.8, 1.6), (0.05, 0.9, 4.0), (0.02, 0.1, 1.3)][rng.integers(3)]
    now, start, duration = 1795766400.0 + rng.uniform(0, 1000), list[float](), list[float]()
    for _ in range(count):
        share = rng.uniform(1.02, most) if rng.random() < slow else rng.uniform(low, high)
        start.append(round(now, 3))
        duration.append(round(max(base * share, 0.005), 3))
        ready = now + duration[-1] + pause * rng.uniform(0.6, 1.6)
        if not interval:
            now = ready + rng.exponential(base) * (rng.random() < 0.5)
            continue
        due = (np.floor(now / interval + 1e-9) + 1) * interval
        while rng.random() < idle:  # no rows have come
            due = (np.floor(max(due, ready) / interval + 1e-9) + 1) * interval
        now = due + 5e-4 + rng.uniform(0, late) if due >= ready else ready
    return start, duration


def test_trigger_is_found_or_not_told(timed: Callable[[Any, Any], Batches]) -> None:
    """Over all intervals, pauses, delays and shares of slow batches the interval is found, or seldom not told; another
    is told hardly ever.
    """
    rng, told = np.random.default_rng(0), dict[tuple[bool, str], int]()
    for interval in (0.0, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0):
        for number in range(50):
            count = round(np.exp(rng.uniform(np.log(5), np.log(500))))
            start, duration = spark(rng, interval, count, rng.uniform(0, 0.7) * (number % 2))
            found = find_trigger(timed(start, duration))
            # One too short to matter is as good as none.
            right = found == interval or (found == 0.0 and interval < np.median(np.diff(start)))
            word = "untold" if found is None else "right" if right else "wrong"
            told[count > 20, word] = told.get((count > 20, word), 0) + 1
    wrong, untold = (sum(told.get((many, word), 0) for many in (False, True)) for word in ("wrong", "untold"))
    assert wrong <= 0.01 * sum(told.values())
    assert wrong < untold <= 0.15 * sum(told.values())
    assert told[True, "right"] >= 0.95 * sum(n for (many, _), n in told.items() if many)


def test_trigger_behind_long_batches_is_not_told(make: SimpleNamespace, table: Callable[..., Batches]) -> None:
    """Where every batch is longer than the interval, the interval cannot be told."""
    batches = make.paced(trigger=2.0, overhead=5.0, count=40)
    for number in range(1, 40):
        object.__setattr__(batches[number], "start", batches[number - 1].start + batches[number - 1].seconds)
    assert find_trigger(table(batches)) is None


def test_arrivals_are_what_was_taken_and_what_waits(make: SimpleNamespace, table: Callable[..., Batches]) -> None:
    """What arrived is what the batches took and by how much the waiting rows grew, in all."""
    batches = make.paced(lag=lambda number: 100 * number)
    arrivals = find_arrivals(table(batches))
    assert arrivals[:, 1:].sum() == sum(batch.rows + 100 for batch in batches[1:])


def test_rate_of_a_steady_source(make: SimpleNamespace, table: Callable[..., Batches]) -> None:
    """A source of a fixed rate has that rate, as a mean and in every step."""
    batches = table(make.paced(rate=lambda _: 250.0, overhead=0.1, cost=1e-4))
    arrivals = find_arrivals(batches)
    assert mean_rate(batches, arrivals) == pytest.approx(250)
    edges = batches.start[0] + 4.0 * np.arange(20)
    np.testing.assert_allclose(rate_series(batches, arrivals, edges), 250)


@given(step=st.floats(0.3, 30), seed=st.integers(0, 100))
def test_series_conserve_rows(step: float, seed: int) -> None:
    """All rows but those of the first batch, which had come before, are in the series, whatever the step."""
    rng = np.random.default_rng(seed)
    starts = np.cumsum(rng.uniform(0.1, 5, 30))
    rows = rng.integers(0, 1000, (2, 30)).astype(float)

    class Table(SimpleNamespace):
        def __len__(self) -> int:
            return len(self.start)

    lag, run = rng.choice([0.0, 7.0, np.nan], 30), np.repeat([0, 1], 15)
    batches: Any = Table(start=starts, duration=np.full(30, 0.1), end=starts + 0.1, lag=lag, run=run)
    edges = starts[0] + step * np.arange(np.ceil((starts[-1] - starts[0]) / step) + 2)
    for trigger in (None, 0.0, 2.0):
        series = rate_series(batches, rows, edges, trigger)
        assert series.min() >= 0
        np.testing.assert_allclose((series * step).sum(axis=1), rows[:, 1:].sum(axis=1))


def test_rows_come_after_the_trigger_that_found_none(make: SimpleNamespace, table: Callable[..., Batches]) -> None:
    """Behind a pause longer than the trigger rows came within it; while the query did not run, at any time, unless
    they count from the restart.
    """

    def came(trigger: float, at_restart: bool = False, **more: Any) -> list[float]:
        rows = [(0, 50), (100, 300)]
        batches = table(
            [
                make.Batch(
                    query="q", number=n, start=make.EPOCH + at + 0.004, rows=count, seconds=1.0, **(more if n else {})
                )
                for n, (at, count) in enumerate(rows)
            ]
        )
        edges = make.EPOCH + np.array([0.0, 50, 90, 100, 110])
        (series,) = rate_series(batches, batches.by_source, edges, trigger, at_restart=at_restart)
        return list(series)

    assert came(10.0) == came(10.0, at_restart=True, run=1) == pytest.approx([0, 0, 30, 0])
    for trigger, at_restart in ((10.0, False), (0.0, False), (0.0, True)):
        assert came(trigger, at_restart, run=1) == pytest.approx([3, 3, 3, 0], rel=1e-3, abs=1e-2)


def test_a_pause_makes_no_peak(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """What came while a query did not run is no highest rate of a second."""
    before, after = make.paced(rate=lambda _: 300.0), make.paced(rate=lambda _: 300.0, begin=make.EPOCH + 500, run=1)
    backlog = [attrs.evolve(after[0], rows=300 * 380, number=60)]
    after = [attrs.evolve(batch, start=batch.start + 120, number=61 + batch.number) for batch in after]
    query = inspect(read_telemetry([str(write([*before, *backlog, *after]))])).queries["clicks"]
    assert query.restarts == 1
    assert query.rate_max == pytest.approx(300, rel=0.05)


@pytest.mark.parametrize("limit", [None, 2000])
def test_what_is_read_again_has_not_arrived(
    make: SimpleNamespace, write: Callable[..., Path], limit: int | None
) -> None:
    """A query that is started on a new checkpoint reads again what there is, at once or in limited batches: the rate
    of its rows is what it was.
    """
    before = make.paced(rate=lambda _: 300.0, overhead=0.1, cost=1e-4)
    begin, left, after = make.EPOCH + 200, 100_000, list[Any]()
    while len(after) < 100:
        start = (
            begin if not after else max(after[-1].start + 2.0, np.ceil((after[-1].start + after[-1].seconds) / 2) * 2)
        )
        left += round(300 * (start - (after[-1].start if after else begin)))
        rows = left if limit is None else min(left, limit)
        left -= rows
        seconds = round(0.1 + 1e-4 * rows, 3)
        after.append(
            make.Batch(query="clicks", number=len(after), run=1, start=start, rows=rows, seconds=seconds, lag=left)
        )
    query = inspect(read_telemetry([str(write([*before, *after]))])).queries["clicks"]
    assert query.rate == pytest.approx(300, rel=0.03)
    assert query.rate_max == pytest.approx(300, rel=0.05)


def test_rate_limit_shows(make: SimpleNamespace, table: Callable[..., Batches]) -> None:
    """Batches that are cut off at a number of rows show it; a steady source is no limit."""

    def found(**paced: Any) -> float | None:
        batches = table(make.paced(**paced))
        limit = find_limit(batches, find_arrivals(batches))
        return limit and limit.own

    assert found(rate=lambda number: min(200.0 + 20 * (number % 20), 400.0), lag=5) == 800
    assert found(rate=lambda _: 250.0) is None
    assert found(rate=lambda number: 250.0 if number else 100.0) is None
    assert found(rate=lambda _: 250.0, lag=10) == 500


def limited(batches: Batches) -> Batches:
    """Return batches of two sources, of which one brings twice as many rows as its limit of 1000 lets through."""
    rng, count = np.random.default_rng(0), len(batches)
    clicks, orders = np.full(count, 1000.0), np.round(rng.uniform(100, 900, count))
    waiting = np.vstack([1000.0 * (1 + np.arange(count)), np.zeros(count)])
    return attrs.evolve(batches, rows=clicks + orders, source_rows=np.vstack([clicks, orders]), source_lag=waiting)


def test_the_limit_of_one_source_among_others_shows(make: SimpleNamespace, table: Callable[..., Batches]) -> None:
    """Batches cut off at one source show its limit whatever others bring, and how many rows a batch has then."""
    batches = limited(table(make.paced(count=40)))
    orders, arrivals = batches.source_rows[1], find_arrivals(batches)
    limit = find_limit(batches, arrivals)
    assert arrivals[0, 1:] == pytest.approx(2000)
    assert arrivals[1] == pytest.approx(orders)
    assert limit is not None
    assert (limit.source, limit.own, limit.share, limit.sure) == (0, 1000, 1.0, True)
    assert limit.rows == pytest.approx(1000 * (1 + orders.sum() / arrivals[0].sum()))


def test_seconds_behind_are_of_what_comes(make: SimpleNamespace, table: Callable[..., Batches]) -> None:
    """A source is as many seconds behind as its waiting rows took to come, however few of them are read meanwhile."""
    batches = limited(table(make.paced(count=40)))
    arrivals = find_arrivals(batches)
    rows, seconds = find_lag(batches, arrivals, mean_rate(batches, arrivals))
    assert rows == 40_000
    assert seconds == pytest.approx(rows / (2000 / 2.0), rel=0.02)


def simulate(
    overhead: float, cost: float, rate: float, trigger: float, limit: float | None, waits: float
) -> list[float]:
    """Return what waits after each of 3000 batches that take what is there."""
    found = []
    for _ in range(3000):
        taken = min(waits, limit or np.inf)
        lasts = max(trigger, overhead + cost * taken)
        waits = waits - taken + rate * lasts
        found.append(waits)
    return found


@given(
    overhead=st.floats(0.01, 5),
    cost=st.floats(1e-6, 1e-2),
    load=st.floats(0.05, 0.9),
    trigger=st.sampled_from([0.0, 1.0, 10.0]),
    limit=st.one_of(st.none(), st.floats(100, 1e6)),
)
def test_headroom_is_where_it_falls_behind(
    overhead: float, cost: float, load: float, trigger: float, limit: float | None
) -> None:
    """A little below the headroom a simulated query keeps up, and a little above it falls behind for good."""
    rate = load / cost
    capacity = find_capacity(Fit(overhead=overhead, cost=cost, cost_error=0.0), rate, trigger, limit)
    assert capacity.headroom is not None
    below = simulate(overhead, cost, 0.95 * rate * capacity.headroom, trigger, limit, 0.0)
    above = simulate(overhead, cost, 1.05 * rate * capacity.headroom, trigger, limit, 0.0)
    assert max(below[-100:]) <= 1.001 * max(below[:2000])
    assert above[-1] > 1.2 * above[len(above) // 2]


@given(
    overhead=st.floats(0.01, 2),
    cost=st.floats(1e-5, 1e-3),
    load=st.floats(0.05, 0.8),
    trigger=st.sampled_from([0.0, 1.0, 10.0]),
    limit=st.one_of(st.none(), st.floats(3000, 1e5)),
)
def test_catch_up_is_what_a_simulation_takes(
    overhead: float, cost: float, load: float, trigger: float, limit: float | None
) -> None:
    """The time to catch up after an outage is that of simulating every batch."""
    rate = load / cost
    found = catch_up(overhead, cost, rate, trigger, limit, outage=600)
    bear = 1 / cost if limit is None else limit / max(trigger, overhead + cost * limit)
    if bear <= rate:
        assert found is None
        return
    assume(bear > 1.05 * rate)
    waits, passed = rate * 600, 0.0
    usual = min(max(rate * max(trigger, overhead / (1 - load)), 1.0), limit or np.inf)
    while waits > 1.01 * usual and passed < 1e7:
        taken = min(waits, limit or np.inf)
        lasts = max(trigger, overhead + cost * taken)
        waits, passed = waits - taken + rate * lasts, passed + lasts
    longest = max(trigger, overhead + cost * min(rate * 600, limit or np.inf))
    assert found == pytest.approx(passed, rel=0.02, abs=2 * longest if limit else 1e-6)


def test_headroom_of_unknown_cost_is_a_bound(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """Where overhead and cost cannot be told apart there is no headroom, but a least one."""
    path = write(make.paced(rate=lambda _: 250.0, overhead=0.2, cost=1e-3))
    query = inspect(read_telemetry([str(path)])).queries["clicks"]
    assert query.capacity.headroom is None
    assert query.capacity.least == pytest.approx(1 / (250 * 0.7 / 500))


@pytest.mark.parametrize("load", [0.4, 1.01])
def test_what_a_query_has_managed_is_the_least(
    make: SimpleNamespace, table: Callable[..., Batches], load: float
) -> None:
    """Whatever the fit tells, a query that keeps up bears its rate; one that falls behind what it did, and no more."""
    cost, rate = 1e-3, load / 1e-3
    rows, begun, batches = rate, make.EPOCH, []
    for number in range(80):
        seconds = round(0.5 + cost * rows, 3)
        batches.append(make.Batch(query="q", number=number, start=begun, rows=round(rows), seconds=seconds))
        begun, rows = begun + seconds, rate * seconds
    # All of a long batch as cost, as where the batches are too much alike.
    fit = Fit(cost_most=1.3 * batches[40].seconds / batches[40].rows)
    capacity = find_capacity(fit, rate, 0.0, None, done=managed(table(batches)))
    assert capacity.least is not None
    assert (0.97 if load > 1 else 1.0) <= capacity.least <= 1 / load


@given(
    overhead=st.floats(0.01, 5),
    cost=st.floats(1e-6, 1e-2),
    trigger=st.sampled_from([0.0, 1.0, 10.0]),
    limit=st.floats(100, 1e6),
    lost=st.booleans(),
)
def test_least_headroom_of_a_limited_query_holds(
    overhead: float, cost: float, trigger: float, limit: float, lost: bool
) -> None:
    """Where a limit applies and the cost is unknown, a simulated query keeps up below the least headroom.

    Where full batches keep up with the trigger whatever a row costs, that is the headroom itself.
    """
    rate = 100.0
    fit = Fit(overhead=overhead, cost_most=2 * cost) if lost else Fit(cost_most=overhead / limit + cost)
    capacity = find_capacity(fit, rate, trigger, limit)
    least = capacity.headroom if capacity.least is None else capacity.least
    assert least is not None
    waits = simulate(overhead, cost, 0.99 * rate * least, trigger, limit, 0.0)
    assert max(waits[-100:]) <= 1.001 * max(waits[:2000])
    if not lost:  # all of a full batch is counted as cost, which is what it takes
        assert least == pytest.approx(limit / max(trigger, overhead + cost * limit) / rate)
    if capacity.headroom is not None:
        assert capacity.headroom == pytest.approx(limit / trigger / rate)
        assert overhead + cost * limit <= 1.001 * trigger


def test_a_limit_that_may_be_chance_is_a_bound(make: SimpleNamespace, tmp_path: Path) -> None:
    """Where no source tells what waits, batches of one size may be those of the day: they bound the headroom only."""
    batches = make.paced(count=120, trigger=10.0, cost=1e-4, rate=lambda number: 50.0 if number // 20 % 2 else 10.0)
    reports = [make.progress(batch) for batch in batches]
    for report in reports:
        report["sources"] = [
            {"description": "DeltaSource[file:/in]", "numInputRows": report["sources"][0]["numInputRows"]}
        ]
    (tmp_path / "p").write_text("\n".join(map(json.dumps, reports)))
    inspection = inspect(read_telemetry([str(tmp_path / "p")]))
    capacity, rate = inspection.queries["clicks"].capacity, inspection.queries["clicks"].rate
    assert capacity.headroom is capacity.catch_up is None
    assert capacity.least == pytest.approx(50 / rate)
    (said,) = [finding.says for finding in inspection.findings if finding.kind == "limit"]
    assert "may apply; its source does not tell what waits" in said


def test_what_runs_beside(make: SimpleNamespace, table: Callable[..., Batches]) -> None:
    """How many batches ran during a batch is what lies in both, whoever ran them."""

    def row(start: float, seconds: float) -> Any:
        return make.Batch(query="q", number=int(start), start=make.EPOCH + start, rows=1, seconds=seconds)

    mine, others = table([row(0, 4), row(10, 4)]), table([row(1, 1), row(3, 3), row(12, 10)])
    np.testing.assert_allclose(Running.of([others]).during(mine), [0.5, 0.5], atol=1e-6)
    np.testing.assert_allclose(Running.of([mine, others]).during(mine), [1.5, 1.5], atol=1e-6)


@given(seed=st.integers(0, 1000))
def test_what_runs_beside_is_what_adding_up_gives(seed: int) -> None:
    """For batches of any times, what ran during a batch is the sum over all of what lies in both."""
    rng = np.random.default_rng(seed)

    class Table(SimpleNamespace):
        def __len__(self) -> int:
            return len(self.start)

    def made(count: int) -> Any:
        start, duration = np.sort(rng.uniform(0, 100, count)) + 1.7e9, rng.uniform(0.01, 9, count)
        return Table(start=start, duration=duration, end=start + duration)

    tables = [made(int(rng.integers(1, 20))) for _ in range(3)]
    mine = tables[0]
    expected = [
        sum(
            max(0.0, min(end, other.end[k]) - max(start, other.start[k])) for other in tables for k in range(len(other))
        )
        / (end - start)
        for start, end in zip(mine.start, mine.end, strict=True)
    ]
    np.testing.assert_allclose(Running.of(tables).during(mine), expected, atol=1e-3)
