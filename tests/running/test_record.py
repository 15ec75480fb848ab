"""What earlier runs say of how far the next one may be."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from penstock.arrays import Array
from penstock.cluster import Cluster, Host
from penstock.latency.draws import AT_FIRST, TAILS
from penstock.latency.estimate import KEYS, Quantiles, Spread
from penstock.load import Statistics
from penstock.load.statistics import LASTING, HostStatistics, parse_statistics
from penstock.running.drift import Seen
from penstock.running.record import (
    ENV,
    OUTSIDE,
    PREDICTED,
    PRIOR,
    TAILS_EDGE,
    TRUSTED,
    Line,
    Record,
    off_by,
    spread,
    stretches,
)

CLUSTER = Cluster.uniform(2)
KNOWN = Statistics(
    hosts={name: HostStatistics(speed=1e6, unrest=0.03, wander=0.04) for name in CLUSTER.hosts}, operators={}
)

ALONE = math.hypot(0.03, LASTING * 0.04)


def report(first: float, second: float, busy: float = 1.0, fixed: float = 0.0) -> list[Seen]:
    """Return the batches of a run of 100 s, one a host, that took so much longer than they should."""
    took = {"h1": first, "h2": second}
    return [
        Seen(host, 0.0, 100.0, 100 * busy, 100 * busy / more, 100 * busy / more * fixed) for host, more in took.items()
    ]


def between(record: Record, cluster: Cluster = CLUSTER) -> float | None:
    """Return what the record says of the first host."""
    return record.applied(KNOWN, cluster).hosts["h1"].between_runs


def test_what_runs_were_off_comes_back(tmp_path: Path) -> None:
    """Levels with a standard deviation of 0.2 are found again once there are many; before, calibration's own counts."""
    record, rng = Record(tmp_path / "runs.jsonl"), np.random.default_rng(0)
    assert between(record) is None
    alone = record.applied(KNOWN, CLUSTER).hosts["h1"]
    assert (alone.may_differ, alone.overhead_may_differ) == pytest.approx((ALONE, ALONE))
    record.note(KNOWN, CLUSTER, report(1.0, 1.0))
    assert between(record) == pytest.approx(ALONE * math.sqrt(2 / 4), rel=0.01)
    for _ in range(100):
        record.note(KNOWN, CLUSTER, report(*np.exp(0.2 * rng.standard_normal(2))))
    known = record.applied(KNOWN, CLUSTER).hosts["h1"]
    assert known.between_runs == pytest.approx(0.2, rel=0.25)
    assert (known.may_differ, known.overhead_may_differ) == (known.between_runs, known.overhead_between_runs)


def test_short_batches_may_be_off_by_more_than_long_ones(tmp_path: Path) -> None:
    """Runs whose overhead differs by 0.4 and whose cost by 0.1 teach the one and the other."""
    record, rng = Record(tmp_path / "runs.jsonl"), np.random.default_rng(1)
    for _ in range(60):
        batches = []
        for host in CLUSTER.hosts:
            speed, overhead = np.exp([0.1, 0.4] * rng.standard_normal(2))
            for k in range(50):
                work = 0.1 if k % 2 else 2.0
                took = speed * (overhead * 0.5 + work)
                batches.append(Seen(host, 2.0 * k, 2.0 * k + took, took, 0.5 + work, 0.5))
        record.note(KNOWN, CLUSTER, batches)
    known = record.applied(KNOWN, CLUSTER).hosts["h1"]
    assert known.between_runs == pytest.approx(0.1, rel=0.4)
    assert known.overhead_between_runs == pytest.approx(0.4, rel=0.4)


levels = st.tuples(st.floats(-0.6, 0.6), st.floats(0, 1), st.floats(0.05, 1))


@given(st.lists(levels, min_size=1, max_size=12), st.floats(0.03, 0.3))
def test_spreads_are_the_likeliest(rows: list[tuple[float, float, float]], before: float) -> None:
    """No small change of either variance is likelier than those that are told, nor what was believed before.

    Lines that do not tell the two apart have two maxima, one for each that is blamed: then both are blamed alike.
    """
    found = np.log(spread([Line("here", *row) for row in rows], before))
    level, fixed, busy = np.array(rows).T

    def unlikely(logs: np.ndarray) -> float:
        own = np.exp(2 * logs)
        each = own[0] + own[1] * fixed**2
        known = TRUSTED * (2 * logs + before**2 / own)
        return float(busy @ (np.log(each) + level**2 / each) + known.sum())

    slope = [(unlikely(found + step) - unlikely(found - step)) / 2e-4 for step in 1e-4 * np.eye(2)]
    assert slope == pytest.approx([0.0, 0.0], abs=0.05)
    assert unlikely(found) <= unlikely(np.full(2, math.log(before))) + 1e-9


def test_spreads_are_the_likeliest_of_several() -> None:
    """Where overheads differ by 0.3 and speeds hardly, that is told, though starting from like variances misses it."""
    for seed in range(3, 7):
        rng = np.random.default_rng(seed)
        overhead, speed = 0.3 * rng.standard_normal(20), 0.03 * rng.standard_normal(20)
        lines = [
            Line("here", float(own + fixed * over), fixed, busy)
            for over, own in zip(overhead, speed, strict=True)
            for fixed, busy in ((0.7, 0.1), (0.1, 0.3))
        ]
        found = spread(lines, 0.02)
        assert found[0] < 0.05
        assert found[1] == pytest.approx(0.3, rel=0.4)


def drawn(width: float, **stretch: float) -> Spread:
    """Return the interval of a prediction of 10 s that may be off by a share, as it was drawn."""
    ends = dict.fromkeys(KEYS, (10 * (1 - width), 10 * (1 + width)))
    return Spread(draws=9, total=ends, sinks={}, low=np.full(2, 8.0), high=np.full(2, 12.0), stretch=stretch)


@pytest.mark.parametrize(("true", "width"), [(0.03, 0.2), (0.1, 0.1), (0.05, 0.05 * 1.645)])
def test_intervals_come_to_hold_what_comes(tmp_path: Path, true: float, width: float) -> None:
    """Too wide or too narrow as drawn, intervals hold nine of ten, and not much more, once runs have told how far they
    were off.
    """
    record, rng, held = Record(tmp_path / "runs.jsonl"), np.random.default_rng(2), []
    center = Quantiles(10.0, 10.0, 10.0, 10.0)
    for number in range(200):
        known = record.applied(KNOWN, CLUSTER).intervals
        told = drawn(width, **known).around(center, {}, np.full(2, 10.0))
        came = 10 * (1 + true * float(rng.standard_normal()))
        held.append(told.total["worst"][0] <= came <= told.total["worst"][1])
        row = dict.fromkeys(("max", "p99", "p50", "mean"), came)
        off = off_by(told, dict.fromkeys(row, 10.0), row)
        if number == PREDICTED:
            half = (told.total["p99"][1] - told.total["p99"][0]) / 20
            assert half == pytest.approx(1.645 * true, rel=0.4)
        record.note(KNOWN, CLUSTER, report(1.0, 1.0), off)
    assert 0.83 <= np.mean(held[12:]) <= 0.99


def test_what_an_interval_was_off_by_does_not_depend_on_how_it_was_stretched() -> None:
    """What is noted is a share of the way to the end as drawn; where nothing came, nothing is noted."""
    center, came = Quantiles(10.0, 10.0, 10.0, 10.0), dict.fromkeys(("max", "p99", "p50", "mean"), 11.0)
    for stretch in (0.3, 1.0, 2.0):
        told = drawn(0.2, worst=stretch).around(center, {}, np.full(2, 10.0))
        assert told.total["worst"] == pytest.approx((10 - 2 * stretch, 10 + 2 * stretch))
        assert told.total["mean"] == pytest.approx((8.0, 12.0))
        assert told.high.tolist() == pytest.approx([10 + 2 * stretch] * 2)
        assert off_by(told, dict.fromkeys(came, 10.0), came) == pytest.approx(dict.fromkeys(KEYS, 0.5))
        assert off_by(told, dict.fromkeys(came, 10.0), dict.fromkeys(came)) == {}
        assert off_by(Spread.none(center, {}, np.zeros(0)), dict.fromkeys(came, 10.0), came) == {}


def test_a_miss_counts_where_the_interval_ends_at_the_prediction() -> None:
    """On a side on which draws left no room, what comes is as far off as can be, and never farther."""
    keys = ("max", "p99", "p50", "mean")
    for low in (10.0, 9.99):
        told = Spread(draws=9, total=dict.fromkeys(KEYS, (low, 14.0)), sinks={}, low=np.zeros(1), high=np.zeros(1))
        came = dict(zip(keys, (7.0, 12.0, 10.0, 30.0), strict=True))
        off = off_by(told, dict.fromkeys(keys, 10.0), came)
        assert off == pytest.approx({"worst": -OUTSIDE, "p99": 0.5, "p50": 0.0, "mean": OUTSIDE})


def test_each_latency_has_its_own_stretch() -> None:
    """What is far outside counts as just outside, and nothing known stretches nothing."""
    assert stretches([]) == {}
    found = stretches([{"worst": 0.5}, {"worst": -0.5, "p99": 30.0}])
    assert found["worst"] < found["p99"] == stretches([{"p99": OUTSIDE}])["p99"]


@given(st.lists(st.floats(-OUTSIDE, OUTSIDE), min_size=1, max_size=PREDICTED))
def test_stretches_are_the_likeliest(off: list[float]) -> None:
    """No other width is likelier for errors with Student's tails, beside the usual one."""

    def unlikely(logarithms: list[float] | Array) -> Array:
        width = np.exp(logarithms)
        told = student.logpdf(TAILS_EDGE * np.array(off)[:, None] / width, TAILS).sum(axis=0) - len(off) * np.log(width)
        return -told + PRIOR / 2 * (2 * np.log(width) + AT_FIRST["worst"] ** 2 / width**2)

    found = math.log(stretches([{"worst": each} for each in off])["worst"])
    assert unlikely([found])[0] <= unlikely(np.linspace(-3, 2, 501)).min() + 1e-3
    assert student.cdf(TAILS_EDGE, TAILS) == pytest.approx(0.95, abs=1e-4)


def test_one_spoilt_run_hardly_widens_the_intervals_of_quiet_ones() -> None:
    """Nineteen runs near their predictions and one far outside are told by the nineteen."""
    off = [0.2 * (-1) ** k for k in range(19)]
    quiet, spoilt = (stretches([{"worst": each} for each in row])["worst"] for row in (off, [*off, OUTSIDE]))
    assert spoilt < 1.2 * quiet < 0.7


def test_an_idle_host_says_little(tmp_path: Path) -> None:
    """A run counts by how busy its hosts were."""
    record = Record(tmp_path / "runs.jsonl")
    record.note(KNOWN, CLUSTER, report(2.0, 2.0, busy=1e-6))
    assert between(record) == pytest.approx(ALONE, rel=1e-3)


def test_each_machine_has_its_own(tmp_path: Path) -> None:
    """Hosts elsewhere are known by where they listen; hosts here by nothing else, whatever they are called."""
    record = Record(tmp_path / "runs.jsonl")
    away = attrs.evolve(CLUSTER, hosts={n: Host(name=n, spark=f"sc://{n}:15002") for n in CLUSTER.hosts})
    record.note(KNOWN, away, report(1.5, 1.0), {"worst": 0.1})
    assert between(record) is None
    assert not record.applied(KNOWN, CLUSTER).intervals
    assert record.applied(KNOWN, away).intervals["worst"] < 1
    first, second = (record.applied(KNOWN, away).hosts[name].between_runs for name in ("h1", "h2"))
    assert first > second


def test_hosts_that_were_not_calibrated_say_nothing(tmp_path: Path) -> None:
    """Only what a calibration in place told can be off."""
    record = Record(tmp_path / "runs.jsonl")
    record.note(Statistics(hosts={"h1": HostStatistics(factor=2.0)}, operators={}), CLUSTER, report(1.5, 1.5))
    record.note(KNOWN, CLUSTER, report(1.5, 1.5, busy=0.0))
    assert between(record) is None


def test_the_file_stays_small_and_may_be_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the latest lines; one that is broken, or cannot be written, is as none."""
    monkeypatch.setattr("penstock.running.record.KEPT", 5)
    record = Record(tmp_path / "runs.jsonl")
    for _ in range(8):
        record.note(KNOWN, CLUSTER, report(1.1, 1.1))
    assert len(record.file.read_text().splitlines()) == 5
    for text in ("what is this\n", "{}\n", "[1]\n", '{"place": "here", "level": null, "fixed": 0, "busy": 1}\n', "\0"):
        record.file.write_text(text)
        assert between(record) is None, text
    record.note(KNOWN, CLUSTER, report(1.1, 1.1))
    assert between(record) is not None
    (tmp_path / "file").touch()
    lost = Record(tmp_path / "file" / "runs.jsonl")
    lost.note(KNOWN, CLUSTER, report(1.1, 1.1))
    assert between(lost) is None


def test_a_broken_line_takes_no_other_with_it(tmp_path: Path) -> None:
    """What a writer that was killed left half written is passed over."""
    record = Record(tmp_path / "runs.jsonl")
    record.note(KNOWN, CLUSTER, report(1.1, 1.1))
    known = between(record)
    with record.file.open("a") as file:
        file.write('{"place": "here", "level": 0.1, "fi\n[1]\n')
        file.write('{"off": ' + "[" * 5000 + "]" * 5000 + "}\n")
    assert between(record) == known
    record.note(KNOWN, CLUSTER, report(1.1, 1.1))
    assert len(record.file.read_text().splitlines()) == 4


def test_runs_that_end_together_are_all_noted(tmp_path: Path) -> None:
    """Those that write at the same time wait for each other."""
    record = Record(tmp_path / "some" / "runs.jsonl")
    with ThreadPoolExecutor(4) as pool:
        for _ in range(40):
            pool.submit(record.note, KNOWN, CLUSTER, report(1.1, 1.1))
    assert len(record.file.read_text().splitlines()) == 80


def test_the_variable_names_it(tmp_path: Path) -> None:
    """It is in the user's cache, or where PENSTOCK_RECORD says, or nowhere."""
    assert Record.of_user({}).file.name == "runs.jsonl"
    assert Record.of_user({ENV: str(tmp_path / "mine")}).file == tmp_path / "mine"
    nowhere = Record.of_user({ENV: ""})
    nowhere.note(KNOWN, CLUSTER, report(1.1, 1.1))
    assert between(nowhere) is None


def test_statistics_keep_it(tmp_path: Path) -> None:
    """What earlier runs say goes into a statistics file and comes back."""
    record = Record(tmp_path / "runs.jsonl")
    record.note(KNOWN, CLUSTER, report(1.2, 1.2), dict.fromkeys(KEYS, 0.4))
    told = record.applied(KNOWN, CLUSTER)
    back = parse_statistics(json.loads(json.dumps(told.document())))
    assert back.hosts == told.hosts
    assert back.intervals == told.intervals
    assert set(back.intervals) == {*KEYS}
