"""Forecasts of a run and drift, on synthetic runs whose hosts keep their speed or lose it."""

from __future__ import annotations

import math
from types import SimpleNamespace

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import combine_pvalues

from penstock.cluster import Cluster, SparkSettings
from penstock.latency.batches import BatchHosts, PlacedBatches
from penstock.latency.cores import alone
from penstock.latency.microbatch import MicrobatchResult, predicted
from penstock.load import Statistics, load_model
from penstock.load.fitting import SHORTEST
from penstock.load.statistics import HostStatistics
from penstock.network.file import parse_network
from penstock.network.shapes import chain
from penstock.running.drift import (
    FARTHEST,
    HORIZONS,
    MISSED,
    YOUNG,
    Drift,
    Seen,
    Speed,
    Watch,
    chance,
    history,
    in_short,
    learned,
)
from penstock.running.ended import seen
from penstock.running.forecast import AGAIN, BACK, Course
from penstock.running.outlook import forecasts, with_measured
from penstock.workload import Rates

HOST = HostStatistics(overhead=0.2, factor=1.0, error=0.02, residual=0.05, unrest=0.02)
STATISTICS = Statistics(hosts={"h1": HOST, "h2": HOST})
CLUSTER = attrs.evolve(Cluster.uniform(2), spark=SparkSettings(trigger=1.0))
PLACEMENT = {"o1.1": "h1", "o1.2": "h2"}
NETWORK = chain([0.004, 0.003])


def world(
    rng: np.random.Generator, length: int, slow: tuple[float, float] = (1e9, 1.0), residual: float = 0.05
) -> tuple[Course, list[Seen], MicrobatchResult]:
    """Return a run of so many seconds on hosts of which the first is slower by a factor from a moment on."""
    rate = np.where(np.arange(length) % 40 < 30, 120.0, 200.0)
    rates = Rates.of(1.0, {"s1": rate})
    placed: PlacedBatches = BatchHosts.of(STATISTICS, CLUSTER).placed(load_model(NETWORK, rates), PLACEMENT)
    noise = np.exp(rng.normal(0, residual, (2, length + 200)))
    noise[0, int(slow[0]) :] *= slow[1]
    pace = placed._pace([1.0, 1.0])._replace(noise=noise.tolist())
    result = predicted(placed.made, placed.queries, pace, [1.0, 1.0])
    batches = [
        Seen(PLACEMENT[b.query], b.start, b.start + b.duration, b.duration, 0.2 + b.load, 0.2) for b in result.batches
    ]  # fmt: skip
    course = Course(network=NETWORK, cluster=CLUSTER, placement=PLACEMENT, statistics=STATISTICS, rates=rates)
    return course, sorted(batches, key=lambda batch: batch.end), result


def watched(batches: list[Seen]) -> Watch:
    """Return what is believed after batches."""
    watch = Watch.of(BatchHosts.of(STATISTICS, CLUSTER))
    for batch in batches:
        watch = watch.after(batch)
    return watch


def test_drift_tells_a_slow_core_from_more_work() -> None:
    """Where batches did the fixed loop, a drift says how fast the core is; where they did not, nothing."""
    _, batches, _ = world(np.random.default_rng(1), 80, (40.0, 1.6))
    slow = [attrs.evolve(batch, core=1.0 if batch.end < 40 else 0.62) for batch in batches]
    (drift,), (other,) = watched(slow).drifts, watched(batches).drifts
    assert drift.core == pytest.approx(0.62)
    assert "its core is 0.62 times as fast" in drift.says
    assert other.core is None
    assert "core" not in other.says


def test_a_host_that_drifted_often_is_told_of_in_one_line() -> None:
    """In short each host has one line: what its only drift says, or how many there were and how far they went."""
    found = [Drift("h1", 8.0, 5.0, 1.5), Drift("h2", 9.0, 6.0, 1.25), Drift("h1", 20.0, 16.0, 3.0)]
    assert in_short([]) == []
    assert in_short(found) == [
        "drift: batches of h1 left their interval 2 times, first from 5 s on: they took 1.50 to 3.00 times as long as "
        "calibrated; calibrate again, or look at what else runs there",
        found[1].says,
    ]


def test_steady_hosts_do_not_drift() -> None:
    """Hosts that keep their speed are called drifting in one run of five minutes out of twenty, at most."""
    found = [watched(world(np.random.default_rng(seed), 300)[1]).drifts for seed in range(20)]
    assert sum(map(bool, found)) <= 1


def test_young_code_is_no_drift() -> None:
    """Batches of hosts that have just started may take twice as long; those that come later may not."""
    course, batches, _ = world(np.random.default_rng(3), 120)
    slow = [attrs.evolve(batch, duration=2.5 * batch.duration) if batch.start < 15 else batch for batch in batches]
    assert forecasts(course, slow, np.random.default_rng(0))[1]
    assert not forecasts(attrs.evolve(course, young=YOUNG), slow, np.random.default_rng(0))[1]
    _, batches, _ = world(np.random.default_rng(3), 120, (60, 1.6))
    (drift,) = forecasts(attrs.evolve(course, young=YOUNG), batches, np.random.default_rng(0))[1]
    assert 60 < drift.time <= 75


@pytest.mark.parametrize("error", [5.0, 90.0])
def test_a_factor_that_nobody_knows_leaves_forecasts_bounded(error: float) -> None:
    """A host whose batches hardly tell its cost has forecasts of the size of what comes."""
    course, batches, _ = world(np.random.default_rng(1), 60)
    rows = {**STATISTICS.hosts, "h2": attrs.evolve(STATISTICS.hosts["h2"], error=error, correlation=-0.5)}
    course = attrs.evolve(course, statistics=attrs.evolve(STATISTICS, hosts=rows))
    for each in forecasts(course, batches, np.random.default_rng(0))[0]:
        assert 0 <= each.low <= each.predicted <= each.high <= 20 * each.predicted


@pytest.mark.parametrize("factor", [1.4, 0.7])
def test_a_host_slowed_in_mid_run(factor: float) -> None:
    """A host of another speed is called drifting within 15 s, alone, and within 30 s more its batches fit again."""
    for seed in range(10):
        _, batches, _ = world(np.random.default_rng(seed), 150, (60, factor))
        drifts = [drift for drift in watched(batches).drifts if drift.time >= 60]
        assert drifts[0].host == "h1"
        assert drifts[0].time <= 60 + 15
        assert {drift.host for drift in drifts} == {"h1"}
        watch = watched([batch for batch in batches if batch.end <= 105])
        assert np.exp(watch.known["h1"].level) == pytest.approx(factor, rel=0.1)
        later = [batch for batch in batches if batch.end > 105 and batch.host == "h1" and batch.start < 150]
        assert np.mean([watch.known["h1"].tail(batch) < MISSED for batch in later]) <= 0.3
    assert drifts[0].slower == pytest.approx(factor, rel=0.15)


@pytest.mark.parametrize("then", [0.6, 1.0])
def test_a_host_changes_again_while_it_is_being_learned(then: float) -> None:
    """Of a host that becomes slow and 15 s later as before, or fast, both are seen; then its latest batches count."""
    for seed in range(10):
        _, batches, _ = world(np.random.default_rng(seed), 120)
        mine = [batch for batch in batches if batch.host == "h1"]
        factors = [1.6 if 60 <= batch.start < 75 else then if batch.start >= 75 else 1.0 for batch in mine]
        watch = watched(
            [attrs.evolve(batch, duration=k * batch.duration) for k, batch in zip(factors, mine, strict=True)]
        )
        first, second = watch.drifts
        assert 60 < first.time < 75 < second.time < 90
        assert first.slower == pytest.approx(1.6, rel=0.15)
        assert np.exp(watch.speed("h1", 120.0).level) == pytest.approx(then, rel=0.05)


@pytest.mark.parametrize(("trigger", "took"), [(5.0, 1.0), (20.0, 1.0), (1.0, 8.0), (1.0, 15.0)])
def test_drift_is_seen_however_far_batches_lie_apart(trigger: float, took: float) -> None:
    """A host that becomes half as fast is called drifting after three batches, though few of them end in 15 s."""
    watch, ends = Watch.of(BatchHosts.of(STATISTICS, CLUSTER)), []
    for number in range(20):
        begin = max([number * trigger, *ends[-1:]])
        ends.append(begin + took * (1 if number < 10 else 2))
        watch = watch.after(Seen("h1", begin, ends[-1], ends[-1] - begin, took, 0.2))
    (drift,) = watch.drifts
    assert ends[10] < drift.time <= ends[12]
    assert drift.slower == pytest.approx(2.0, rel=0.1)


def test_a_pause_is_no_drift() -> None:
    """A second in which a host stands still is none, however short its batches are; three seconds of slowness are."""
    for slow, drifts in ((1.0, 0), (3.0, 1)):
        watch = Watch.of(BatchHosts.of(STATISTICS, CLUSTER))
        for number in range(100):
            begin = 0.25 * number
            took = 0.24 if 10 <= begin < 10 + slow else 0.1
            watch = watch.after(Seen("h1", begin, begin + took, took, 0.1, 0.05))
        assert sum(10 <= drift.since < 11 for drift in watch.drifts) == drifts


def test_a_host_that_was_never_calibrated_does_not_drift() -> None:
    """Where no error is known, nothing is certain: forecasts are wide at first, learn, and call nothing drift."""
    bare = HostStatistics(overhead=0.2, factor=1.0)
    watch = Watch.of(BatchHosts.of(Statistics(hosts={"h1": bare}), CLUSTER))
    at_first = watch.ahead("h1", 0.0, np.random.default_rng(0))[0]
    for number in range(40):
        watch = watch.after(Seen("h1", number, number + 0.9, 0.9, 0.3, 0.2))
    later = np.exp([1, 0.2 / 0.3] @ np.log(watch.ahead("h1", 40.0, np.random.default_rng(0))))
    assert not watch.drifts
    assert np.quantile(at_first, 0.9) > 4
    assert np.quantile(later, [0.1, 0.9]) == pytest.approx([3, 3], rel=0.5)


def test_forecasts_hold_what_comes() -> None:
    """Of the forecasts of steady runs nine of ten hold what is measured, for ten seconds and for sixty."""
    held: dict[float, list[bool]] = {horizon: [] for horizon in HORIZONS}
    for seed in range(6):
        course, batches, result = world(np.random.default_rng(seed), 120)
        told, _ = forecasts(course, batches, np.random.default_rng(seed))
        stimulus, latency, weight = result.whole()
        for each in with_measured(told, stimulus[weight > 0], latency[weight > 0]):
            if each.measured is not None and each.time + each.horizon <= 120:
                assert each.low <= each.predicted <= each.high
                held[each.horizon].append(each.low <= each.measured <= each.high)
    assert len(held[10.0]) == 6 * 11
    for rows in held.values():
        assert np.mean(rows) >= 0.9 - 3 * np.sqrt(0.9 * 0.1 / len(rows))


def test_forecasts_learn_what_a_host_has_become() -> None:
    """From 30 s after a host has slowed down, forecasts hold what comes; those of before did not know it."""
    late, early = [], []
    for seed in range(4):
        course, batches, result = world(np.random.default_rng(100 + seed), 160, (60, 1.5))
        told, drifts = forecasts(course, batches, np.random.default_rng(seed))
        assert drifts
        stimulus, latency, weight = result.whole()
        for each in with_measured(told, stimulus[weight > 0], latency[weight > 0]):
            inside = each.measured is not None and each.low <= each.measured <= each.high
            if each.horizon == 10 and 100 <= each.time <= 150:
                late.append(inside)
            if each.horizon == 10 and each.time == 60:
                early.append(inside)
    assert np.mean(early) <= 0.5
    assert np.mean(late) >= 0.75


def test_forecasts_know_only_what_was_before() -> None:
    """What happens after a forecast was made changes nothing of it."""
    course, batches, _ = world(np.random.default_rng(3), 120)
    whole, _ = forecasts(course, batches, np.random.default_rng(1))
    part, _ = forecasts(course, [batch for batch in batches if batch.end <= 60], np.random.default_rng(1))
    assert [each for each in whole if each.time <= 60] == [each for each in part if each.time <= 60]


def test_forecasts_know_when_windows_end() -> None:
    """A run that begins one second after a window knows it: its windows end a second before those of another run."""
    table = {"kind": "aggregate", "input": "s1", "window": 8.0, "cost": 0.0, "selectivity": 0.1}
    network = parse_network(
        {"name": "w", "sources": {"s1": {}}, "operators": {"o1.1": table}, "sinks": {"out": {"input": "o1.1"}}}
    )
    course, batches, _ = world(np.random.default_rng(1), 40)
    course = attrs.evolve(course, network=network, placement={"o1.1": "h1"})
    batches = [attrs.evolve(batch, duration=0.3, expected=0.3, end=batch.start + 0.3) for batch in batches]
    told = {}
    for epoch in (8e8, 8e8 + 1, 8e8 + 9):
        past = [batch for batch in batches if batch.end <= 14.5]
        told[epoch] = course.since(epoch).forecast(14.5, watched(past), past, np.random.default_rng(2))[0]
    # After 14.5 s a window ends at 16 s and 24 s, or at 15 s and 23 s; what it puts out is all that there is.
    assert told[8e8 + 1] == told[8e8 + 9]
    assert 1 <= told[8e8].predicted <= 3
    assert course.since(5.0).rates.start == 5.0


def overloaded(trigger: float, quiet: int = 0) -> tuple[Course, list[Seen], MicrobatchResult]:
    """Return a run of one host that is given 1.3 times what it can do, after quiet seconds with a tenth of that."""
    known = HostStatistics(overhead=0.1, error=0.005, residual=0.005)
    network, placement = chain([0.01]), {"o1.1": "h1"}
    cluster, statistics = attrs.evolve(CLUSTER, spark=SparkSettings(trigger=trigger)), Statistics(hosts={"h1": known})
    rates = Rates.of(1.0, {"s1": [13.0] * quiet + [130.0] * 400})
    result = BatchHosts.of(statistics, cluster).placed(load_model(network, rates), placement).run()
    batches = [Seen("h1", b.start, b.start + b.duration, b.duration, 0.1 + b.load, 0.1) for b in result.batches]
    course = Course(network=network, cluster=cluster, placement=placement, statistics=statistics, rates=rates)
    return course, batches, result


@pytest.mark.parametrize(("trigger", "quiet"), [(2.0, 0), (0.7, 0), (2.0, 500), (0.7, 500)])
def test_forecasts_of_an_overload_know_all_that_waits_and_what_comes_after_the_horizon(
    trigger: float, quiet: int
) -> None:
    """However old a backlog is, and whatever shares a batch with the last rows, they tell what comes; quickly."""
    course, batches, result = overloaded(trigger, quiet)
    stimulus, latency, weight = result.whole()
    for now in (quiet + 60.0, quiet + 110.0, quiet + 300.0):
        past = [batch for batch in batches if batch.end <= now]
        told = course.forecast(now, watched(past), past, np.random.default_rng(0))
        for each in with_measured(told, stimulus[weight > 0], latency[weight > 0]):
            assert each.predicted == pytest.approx(each.measured, rel=0.02)
    assert quiet - 10 <= course.begin(quiet + 300.0, past) <= quiet


def test_where_all_batches_are_long_a_forecast_goes_over_some_of_them() -> None:
    """Of more batches than can be gone over in a second it goes over the latest, from where the least waited."""
    course, _, _ = world(np.random.default_rng(1), 5000)
    batches = [Seen("h1", 1.5 * k, 1.5 * k + 1.5, 1.5, 1.5, 1.4) for k in range(3000)]
    assert course.begin(1000.0, batches[:600]) == 0.0
    assert batches[-AGAIN].start <= course.begin(4500.0, batches) <= 4500 - BACK
    slow = [attrs.evolve(batch, end=batch.end + 1) if batch.start > 3000 else batch for batch in batches]
    assert batches[-AGAIN].start <= course.begin(4500.0, slow) <= 3000
    calm = [attrs.evolve(batch, end=batch.end - 1) if 3000 < batch.start < 3010 else batch for batch in batches]
    assert 3000 <= course.begin(4500.0, calm) <= 3010


def test_rates_that_nobody_expected_go_on_as_they_were() -> None:
    """Where rates were not known before, a forecast goes on with the mean of the last ten seconds."""
    course, batches, _ = world(np.random.default_rng(3), 120)
    blind = attrs.evolve(course, expected=False)
    rates, _ = blind._rates(0.0, 35.0, 60.0)
    assert rates.of_source("s1")[:35].tolist() == course.rates.of_source("s1")[:35].tolist()
    assert rates.of_source("s1")[35:].tolist() == [160.0] * 60
    assert forecasts(blind, batches, np.random.default_rng(0))[0]


def test_a_run_is_seen_by_its_batches() -> None:
    """A run's batches come in the order of their ends, with what their counts should have taken, lost ones left out."""

    def batch(query: str, start: float, duration: float, tuples: int, known: bool = True) -> SimpleNamespace:
        stream = "s1->o1.1" if query == "o1.1" else "o1.1->o1.2"
        counts = {stream: (tuples, 0)}
        return SimpleNamespace(query=query, start=start, duration=duration, rows=tuples, counts=counts, known=known)

    batches = [batch("o1.1", 101, 2.0, 300), batch("o1.2", 100, 0.5, 50), batch("o1.1", 104, 0, 0, False)]
    outcome = SimpleNamespace(epoch=100.0, batches=batches, begun=())
    found = seen(NETWORK, CLUSTER, PLACEMENT, STATISTICS, outcome)
    assert [(each.host, each.start, each.end) for each in found] == [("h2", 0.0, 0.5), ("h1", 1.0, 3.0)]
    assert [each.expected for each in found] == pytest.approx([0.2 + 50 * 0.003, 0.2 + 300 * 0.004])


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0.01, 5)), min_size=1, max_size=8), st.integers(1, 3))
def test_shared_time_adds_up(given_: list[tuple[float, float]], cores: int) -> None:
    """What batches would have taken alone is what their cores worked in all, and no batch more than it ran."""
    spans = [(start, start + length) for start, length in given_]
    found = alone(spans, cores)
    moments = np.linspace(0, 15, 15_001)
    busy = sum(np.minimum(sum((a <= moments) & (moments < b) for a, b in spans), cores)) * (moments[1] - moments[0])
    assert sum(found) == pytest.approx(float(busy), abs=0.05)
    assert all(own <= b - a + 1e-9 for own, (a, b) in zip(found, spans, strict=True))


def test_a_speed_is_what_batches_say_and_what_was_known() -> None:
    """Many like batches are believed, few are weighed against what was known, and none leave it as it was."""
    batches = [Seen("h1", k, k + 0.5, 0.5 * 1.3, 0.5) for k in range(40)]
    before = Speed(0.0, 0.05, 0.05)
    assert np.exp(learned(batches, 40.0, before).level) == pytest.approx(1.3, rel=0.05)
    one = learned(batches[:1], 1.0, before)
    assert 0 < one.level < np.log(1.3)
    assert learned((), 10.0, before) == before
    assert learned(batches, 200.0, before) == before


def test_batches_of_ten_seconds_do_not_tell_the_next_ten() -> None:
    """Where speeds wander, like batches of a few seconds are weighed against what was known, however many they are."""
    batches = [Seen("h1", k / 100, k / 100 + 0.01, 0.5 * 1.3, 0.5) for k in range(1000)]
    still, restless = (Speed(doubt=0.1, residual=0.05, wander=wander) for wander in (0.0, 0.1))
    assert learned(batches, 10.0, still).level == pytest.approx(math.log(1.3), rel=0.05)
    found = learned(batches, 10.0, restless)
    assert found.level == pytest.approx(math.log(1.3) / 2, rel=0.1)
    assert found.doubt == pytest.approx(0.1 / math.sqrt(2), rel=0.1)


def test_a_batch_from_which_nothing_was_expected_says_next_to_nothing() -> None:
    """Where all rows are dropped and no overhead is known a batch was to take no time; what others say holds."""
    before = Speed(doubt=0.1, residual=0.05)
    usual = [Seen("h1", float(k), k + 0.9, 1.3, 1.0, 0.1) for k in range(30)]
    nothing = [Seen("h1", float(k), k + 0.2, 0.2, 0.0) for k in range(30)]
    assert learned(nothing, 31.0, before).level == pytest.approx(0.0, abs=0.1)
    both = learned([*usual, *nothing], 31.0, before)
    assert np.exp(both.level + both.fixed * 0.1) == pytest.approx(1.3, rel=0.1)


def test_short_batches_say_little_of_long_ones() -> None:
    """What batches take that are mostly overhead is known of such ones; long ones teach both apart."""
    before = Speed(doubt=0.1, fixed_doubt=0.3, residual=0.02, jitter=0.01)
    took = lambda at, work: Seen("h1", at, at + 1, 1.1 * (work + 0.7 * 0.5), work + 0.5, 0.5)  # noqa: E731
    short, long = [took(k, 0.05) for k in range(30)], [took(k, 0.05 + 3 * (k % 2)) for k in range(30)]
    one, both = learned(short, 31.0, before), learned(long, 31.0, before)
    assert one.expects(short[-1]) == pytest.approx(short[-1].ratio, abs=0.02)
    assert one.expects(long[-1]) != pytest.approx(long[-1].ratio, abs=0.05)
    assert one.doubt > 0.08
    assert one.tied < -0.9
    assert np.exp([both.level, both.fixed]).tolist() == pytest.approx([1.1, 0.7], rel=0.05)
    drawn = np.log(one.drawn(np.random.default_rng(0), 4_000))
    assert np.corrcoef(drawn)[0, 1] == pytest.approx(one.tied, abs=0.05)
    assert np.std(drawn, axis=1).tolist() == pytest.approx([one.doubt, one.fixed_doubt], rel=0.05)
    assert np.std(drawn[0] + drawn[1] * short[-1].share) < 0.03


def test_quiet_seconds_say_nothing_of_bursts_where_the_overhead_is_vague() -> None:
    """Where calibration hardly told the overhead, quiet batches do, roughly, and long ones are expected as before."""
    known = HostStatistics(
        overhead=SHORTEST, factor=1.2, error=0.07, overhead_error=0.28, correlation=-0.9, residual=0.18,
        between_runs=0.14, overhead_between_runs=0.15,
    )  # fmt: skip
    watch, rng = Watch(known={"h1": Speed.of(known)}, calibrated={"h1": Speed.of(known)}), np.random.default_rng(0)
    for k in range(10):
        took = 0.3 * math.exp(0.1 * rng.standard_normal())
        watch = watch.after(Seen("h1", 3.0 * k, 3.0 * k + took, took, SHORTEST + 0.02, SHORTEST))
    speed = watch.speed("h1", 30.0)
    assert not watch.drifts
    assert 0.15 < math.exp(speed.level + speed.fixed) * SHORTEST < 0.6
    assert math.exp(speed.level) == pytest.approx(1.0, abs=0.15)


def test_what_calibration_left_open_is_what_its_draws_leave_open() -> None:
    """Errors of factor and overhead that come from one regression stay tied where they are two levels."""
    known = HostStatistics(overhead=0.5, factor=1.0, error=0.05, overhead_error=0.1, correlation=-0.8)
    level, besides = np.log(attrs.evolve(Speed.of(known), wander=0.0).drawn(np.random.default_rng(0), 100_000))
    assert np.std(level) == pytest.approx(known.error, rel=0.02)
    assert np.std(level + besides) == pytest.approx(known.overhead_error / known.overhead, rel=0.02)
    assert np.corrcoef(level, level + besides)[0, 1] == pytest.approx(known.correlation, abs=0.02)


def test_chance_is_fishers_test() -> None:
    """How improbable batches are together is Fisher's test, in which none counts for more than one in a hundred."""
    for tails in ([0.5], [0.3, 0.9, 0.02], [0.05] * 6):
        assert chance(tails) == pytest.approx(combine_pvalues(tails, "fisher").pvalue)
    assert chance([1e-9, 0.0]) == chance([FARTHEST, FARTHEST])
    assert chance([1.0]) == 1.0


def test_history_keeps_the_last_speed() -> None:
    """An interval without a batch has the speed of the one before, and nothing is said of what has not ended."""
    batches = [Seen("h1", 0.0, 1.2, 1.2, 1.0), Seen("h1", 3.0, 5.0, 2.0, 1.0)]
    took, expected, fixed = history(batches, 1.0)["h1"]
    assert (took / expected).tolist() == pytest.approx([1.2, 1.2, 1.2, 2.0])
    assert not fixed.any()
