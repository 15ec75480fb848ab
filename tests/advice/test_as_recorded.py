"""What logs show besides rates and costs: long waits, a backlog, schedules, typical batches, state, sources.

The truth is a recursion of its own, batch by batch, that also writes the logs.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import attrs
import msgspec
import numpy as np
import pytest

from penstock.advice import Aims, Burst, Consultation, advise, consult, deployed, with_burst
from penstock.advice.busiest import busiest
from penstock.advice.replay import replay
from penstock.errors import InputError
from penstock.inspection import inspect
from penstock.telemetry import read_telemetry
from penstock.telemetry.events import StateProgress


@attrs.frozen(eq=False)
class Ran:
    """Batches as they ran, columns start, rows, seconds and rows left behind; and when rows had arrived, by number."""

    table: np.ndarray
    edges: np.ndarray
    arrived: np.ndarray

    def worst(self, since: float = 0.0) -> float:
        """Return the longest latency of the rows of batches from a time on; of rows that wait then, since then."""
        start, rows, seconds, _ = self.table.T
        first = np.interp(np.cumsum(rows) - rows + 1, self.arrived, self.edges)
        there = start >= since
        return float((start + seconds - np.maximum(first, start[there][0] if since else 0.0))[there].max())

    def batches(self, make: Any, name: str = "clicks", **more: Any) -> list[Any]:
        """Return them for a log."""
        offsets = np.cumsum(self.table[:, 1]) - self.table[:, 1]
        return [
            make.Batch(
                query=name, number=n, start=make.EPOCH + start, rows=int(rows), seconds=seconds, lag=int(left),
                offset=int(offsets[n]), **more,
            )
            for n, (start, rows, seconds, left) in enumerate(self.table)
        ]  # fmt: skip


def ran(rates: np.ndarray, overhead: float, cost: float, limit: float = math.inf, noise: float = 0.0) -> Ran:
    """Run a query without a trigger on rows that arrive evenly within each second."""
    rng = np.random.default_rng(1)
    arrived, edges = np.concatenate([[0.0], np.cumsum(rates)]), np.arange(rates.size + 1.0)
    now, taken, found = 0.0, 0.0, []
    while now < edges[-1]:
        waiting = math.floor(float(np.interp(now, edges, arrived)) + 1e-6) - taken
        if waiting < 1:
            now += 0.01
            continue
        rows = min(waiting, limit)
        seconds = (overhead + cost * rows) * math.exp(noise * rng.standard_normal())
        found.append((now, rows, seconds, waiting - rows))
        now, taken = now + seconds, taken + rows
    # Rising, so that the time of a row is one.
    return Ran(np.array(found), edges, arrived + 1e-9 * edges)


def asked(path: Path, latency: float, since: float | None = None) -> Consultation:
    found = deployed(inspect(read_telemetry([str(path)]), since))
    return consult(found, Aims(latency=latency), Burst(), np.random.default_rng(0))


def kinds(found: Consultation) -> set[str]:
    return {advice.proposal.kind for advice in found.report.advice}


OVERLOAD = np.concatenate([np.full(1200, 500.0), np.full(600, 1200.0), np.full(3600, 300.0)])
"""Of a query that bears 667 rows/s."""


def overloaded(job: Any, deployment: Any, **more: Any) -> Any:
    slow = job("slow", rates=OVERLOAD, overhead=1.0, cost=0.001, limit=2000.0, cost_error=1e-5, spread=0.03, **more)
    return deployment(slow, job("light", rates=np.full(5400, 20.0), overhead=0.1), cores=2.0)


def test_a_long_wait_is_replayed_from_its_beginning(job: Any, deployment: Any) -> None:
    """A light query beside it makes no window that is shorter than the overload, whose worst wait is the true one."""
    truth = ran(OVERLOAD, 1.0, 0.001, 2000.0).worst()
    assert truth > 400
    whole = overloaded(job, deployment)
    found = consult(whole, Aims(latency=60.0), Burst(), np.random.default_rng(0))
    low, middle, high = found.report.latency["slow"].worst
    assert low <= truth <= high
    assert middle == pytest.approx(truth, rel=0.02)
    assert found.report.deployment.periods < whole.periods
    assert any(note.startswith("only the busiest") for note in found.report.notes)
    # What is usual is the mean of the whole time, also behind a burst.
    assert found.report.deployment.jobs["slow"].rate == pytest.approx(OVERLOAD.mean())
    burst = consult(whole, Aims(latency=60.0), Burst(factor=2.0, length=30.0), np.random.default_rng(0))
    rates = burst.report.deployment.jobs["slow"].rates
    assert rates[-60:] == pytest.approx(np.repeat([2 * OVERLOAD.mean(), OVERLOAD.mean()], 30))


def test_waits_at_different_times_are_both_replayed(job: Any, deployment: Any) -> None:
    """Two queries on drivers of their own wait long at different times: both waits are the true ones."""
    early, late = (
        job(name, driver=name, overhead=1.0, cost=0.001, limit=2000.0, rates=rates)
        for name, rates in (("a", OVERLOAD), ("b", np.roll(OVERLOAD, 1200)))
    )
    light = job("light", rates=np.full(5400, 20.0), driver="a", overhead=0.1)
    whole = attrs.evolve(deployment(early, late, light), drivers={"a": 2.0, "b": 2.0})
    latency = consult(whole, Aims(latency=60.0), Burst(), np.random.default_rng(0)).report.latency
    for name, rates in (("a", OVERLOAD), ("b", np.roll(OVERLOAD, 1200))):
        assert latency[name].worst[1] == pytest.approx(ran(rates, 1.0, 0.001, 2000.0).worst(), rel=0.02)


def test_a_wait_that_is_too_long_begins_with_its_backlog(
    job: Any, deployment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a part may not have all batches of a wait, the rows that wait when it begins are carried over into it."""
    monkeypatch.setattr("penstock.advice.busiest.LONGEST", 6000)
    found = consult(overloaded(job, deployment), Aims(latency=60.0), Burst(), np.random.default_rng(0))
    assert found.report.deployment.jobs["slow"].waiting > 50_000
    assert found.report.latency["slow"].worst[1] == pytest.approx(ran(OVERLOAD, 1.0, 0.001, 2000.0).worst(), rel=0.02)
    assert any("interval is too narrow" in note for note in found.report.notes)


def test_a_log_of_too_many_batches_is_replayed_coarsely(
    job: Any, deployment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where not even one replay of all is possible, one with fewer and larger batches finds the longest wait."""
    whole = overloaded(job, deployment)

    def most(asked: Any) -> Any:
        if asked is whole:
            raise InputError("more than 4,000,000 batches to replay")
        return replay(asked)

    monkeypatch.setattr("penstock.advice.busiest.replay", most)
    monkeypatch.setattr("penstock.advice.busiest.COARSE", 1000)
    found = consult(whole, Aims(latency=60.0), Burst(), np.random.default_rng(0))
    assert found.report.latency["slow"].worst[1] == pytest.approx(ran(OVERLOAD, 1.0, 0.001, 2000.0).worst(), rel=0.03)
    assert busiest(whole).whole == {}


def test_a_log_without_long_waits_keeps_its_short_part(job: Any, deployment: Any) -> None:
    """Where rows never wait long, the part is the one of the highest load, with the batches of the quickest query."""
    wave = 300 + 200 * np.sin(np.arange(5400) / 900)
    part = busiest(deployment(job(rates=wave, overhead=0.1))).deployment
    assert part.periods == 500
    assert part.jobs["q"].rates.mean() > 490


def test_a_backlog_at_the_beginning_is_worked_off(make: Any, write: Any) -> None:
    """Looked at from the end of an overload on, the rows that wait are there, and those behind them wait for them."""
    there = ran(OVERLOAD[:4200], 1.0, 0.001, 2000.0, noise=0.02)
    found = asked(write(there.batches(make)), 60.0, since=make.EPOCH + 1800)
    truth = there.worst(since=1800.0)
    assert truth > 400
    low, _, high = found.report.latency["clicks"].worst
    assert low <= 1.01 * truth
    assert high >= 0.99 * truth
    assert any("rows of clicks wait at first" in note for note in found.report.notes)
    assert not any(advice.proposal.saves > 0 for advice in found.report.advice)


def test_batches_of_one_size_last_as_long_as_they_did(make: Any, write: Any) -> None:
    """Where overhead and cost are not known, the latency is at least the true one, and no cores are taken away."""
    there = ran(np.full(400, 1000.0), 0.5, 1e-4, noise=0.03)
    for latency in (0.5, 60.0):
        found = asked(write(there.batches(make)), latency)
        assert not found.report.deployment.jobs["clicks"].certain
        assert there.worst() <= found.report.latency["clicks"].worst[2] <= 6 * there.worst()
        assert found.agreement["clicks"]["replayed"] > 0.9 * found.agreement["clicks"]["recorded"]
        assert kinds(found) == set()


def test_a_cost_that_is_lost_in_the_overhead_is_not_nothing(make: Any, write: Any) -> None:
    """Rows whose cost the noise hides are not replayed as free: at five times the rate they wait as long as they would.

    No batch is taken to last longer than it did, and the figures are marked as an upper bound.
    """
    there = ran(np.full(60, 400.0), 0.6, 6e-4, noise=0.3)
    log = write(there.batches(make))
    fit = inspect(read_telemetry([str(log)])).queries["clicks"].fit
    assert fit.overhead is not None
    assert fit.cost is None
    found = asked(log, 60.0)
    assert not found.report.deployment.jobs["clicks"].certain
    assert any("clicks: a row counts as the most" in note for note in found.report.notes)
    assert found.agreement["clicks"]["replayed"] == pytest.approx(found.agreement["clicks"]["recorded"], rel=0.1)
    assert there.worst() <= found.report.latency["clicks"].worst[2]
    more = ran(np.full(60, 2000.0), 0.6, 6e-4, noise=0.3).worst()
    assert more > 30
    assert more <= found.report.growth[5.0]["clicks"]["worst"] <= 3 * more


def test_full_batches_last_as_long_as_they_did(make: Any, write: Any) -> None:
    """Looked at while a backlog is worked off in full batches, each takes its 3 s, and no core is freed."""
    there = ran(OVERLOAD[:3000], 1.0, 0.001, 2000.0)
    log = write([batch for batch in there.batches(make) if 1900 <= batch.start - make.EPOCH < 2500])
    found = asked(log, 60.0)
    assert not found.report.deployment.jobs["clicks"].certain
    assert found.agreement["clicks"]["replayed"] == pytest.approx(3.0, rel=0.01)
    assert found.report.latency["clicks"].worst[1] == pytest.approx(there.worst(1900.0), rel=0.03)
    assert not any(advice.proposal.saves > 0 for advice in found.report.advice)


def test_a_limit_that_holds_a_query_back_is_raised(make: Any, write: Any) -> None:
    """Where rows wait for a limit that is too small, a larger one is advised, with the latency that it has in truth."""
    rates = 700 + 400 * np.sin(np.arange(900) / 30) + 2300 * (np.arange(900) // 100 == 3)
    found = asked(write(ran(rates, 0.5, 1e-4, limit=1000, noise=0.03).batches(make)), 20.0)
    (advice,) = [each for each in found.report.advice if each.proposal.kind == "rate-limit"]
    assert advice.proposal.old == 1000
    truth = ran(rates, 0.5, 1e-4, limit=float(advice.proposal.new), noise=0.03).worst()
    assert truth < 3 < 20 < advice.before.worst[0]
    assert advice.after.worst[1] == pytest.approx(truth, rel=0.05)


def test_full_batches_do_not_tell_what_more_rows_take(penstock: Any, make: Any, write: Any) -> None:
    """Of a query that falls behind in batches of one size nobody says that nothing pays: a larger limit may."""
    log = write(ran(np.full(300, 1100.0), 0.9, 1e-4, limit=1000, noise=0.03).batches(make))
    shown = penstock("advise", log, "--latency", "20")
    assert "no change of a setting that can be judged pays" in shown.out
    assert "clicks falls behind with at most 1,000 rows a batch" in shown.err


@pytest.mark.parametrize(
    ("source", "setting"),
    [
        ("KafkaV2[Subscribe[clicks]]", "maxOffsetsPerTrigger"),
        ("CloudFilesSource[/Volumes/in]", "cloudFiles.maxFilesPerTrigger"),
        ("org.apache.iceberg.spark.source.SparkMicroBatchStream@1f2e", "rows per batch"),
        ("TextSocketV2[host: localhost, port: 9999]", None),
    ],
)
def test_a_limit_has_the_name_that_its_source_gives_it(make: Any, write: Any, source: str, setting: str | None) -> None:
    """No option is named that a source does not have, and nothing is advised where it has none."""
    log = write(make.paced(trigger=2.0, noise=0.02))
    log.write_text(log.read_text().replace("KafkaV2[Subscribe[clicks]]", source))
    found = with_burst(deployed(inspect(read_telemetry([str(log)]))), 3.0, 20.0)
    told = [each.proposal for each in advise(found, Aims(latency=8.0), np.random.default_rng(0), 5).advice]
    limits = [each for each in told if each.kind == "rate-limit"]
    assert [each.setting for each in limits] == [setting] * (setting is not None)
    assert all(("if it has one" in each.remark) == (setting == "rows per batch") for each in limits)


def test_batches_without_rows_are_not_compared(make: Any, write: Any) -> None:
    """Batches that only move a watermark on have no part in what a replay is compared with."""
    full = make.paced(count=40, trigger=60.0, overhead=1.0, rate=lambda n: 50 + 30 * np.sin(n))
    empty = [attrs.evolve(each, start=each.start + 30, rows=0, seconds=0.6, number=100 + each.number) for each in full]
    agreed = asked(write([*full, *empty]), 60.0).agreement["clicks"]
    assert agreed["recorded"] == pytest.approx(np.median([each.seconds for each in full]), rel=0.05)
    assert agreed["replayed"] == pytest.approx(agreed["recorded"], rel=0.2)


@pytest.mark.parametrize(
    ("sink", "known"),
    [
        ("KafkaTable", True),
        ("org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@4a5c567b", True),
        ("org.apache.spark.sql.kafka010.KafkaSinkV1$Files", False),
        ("FileSink[/kafka/out]", False),
    ],
)
def test_a_sink_of_kafka_is_known_by_its_last_name(make: Any, write: Any, sink: str, known: bool) -> None:
    """Rows leave during a batch in the logs of older versions of Spark too, which name the classes of a sink."""
    log = write(make.paced())
    log.write_text(log.read_text().replace('"description":"Files"', f'"description":"{sink}"'))
    assert deployed(inspect(read_telemetry([str(log)]))).jobs["clicks"].progressive == known


HOURS = range(24)


def once(make: Any) -> list[Any]:
    """Return a query that runs for one batch each hour."""
    rows = [round(36_000 * (1 + 0.5 * math.sin(hour))) for hour in HOURS]
    return [
        make.Batch(
            query="job", number=h, run=h, start=make.EPOCH + 3600 * h, rows=rows[h], seconds=5 + 0.001 * rows[h],
            offset=sum(rows[:h]),
        )
        for h in HOURS
    ]  # fmt: skip


def in_parts(make: Any) -> list[Any]:
    """Return a query that each hour takes all that is there in batches of 5000 rows (AvailableNow)."""
    found: list[Any] = []
    offset = 0
    for hour in HOURS:
        left, start = round(36_000 * (1 + 0.3 * math.sin(hour))), make.EPOCH + 3600 * hour
        while left:
            rows = min(left, 5000)
            left -= rows
            found.append(
                make.Batch(
                    query="job", number=len(found), run=hour, start=start, rows=rows, seconds=5 + 0.001 * rows,
                    offset=offset, lag=left,
                )
            )  # fmt: skip
            start, offset = start + found[-1].seconds, offset + rows
    return found


@pytest.mark.parametrize("runs", [once, in_parts])
def test_rows_wait_for_a_scheduled_run(penstock: Any, make: Any, write: Any, runs: Any) -> None:
    """The rows of a query that a scheduler runs each hour wait for an hour and their batch; it gets no advice."""
    batches = runs(make)
    first = [batch for n, batch in enumerate(batches) if n == 0 or batch.run != batches[n - 1].run]
    # The oldest row of a run came with the start of the run before.
    truth = max(3600 + batch.seconds for batch in first[1:])
    log = write(batches)
    found = asked(log, 60.0)
    query = inspect(read_telemetry([str(log)])).queries["job"]
    assert query.rate == pytest.approx(sum(batch.rows for batch in batches if batch.run) / 3600 / 23, rel=0.01)
    assert found.report.deployment.jobs["job"].scheduled
    assert truth <= found.report.latency["job"].worst[1] <= 1.05 * truth
    assert found.report.advice == ()
    assert found.agreement["job"]["replayed"] == pytest.approx(found.agreement["job"]["recorded"], rel=0.1)
    shown = penstock("advise", log, "--latency", "60")
    assert "job is run about every 60 min by a scheduler" in shown.err


@pytest.mark.parametrize("missing", [(), (5, 6, 13)])
def test_scheduled_runs_meet_only_if_they_did(make: Any, write: Any, missing: tuple[int, ...]) -> None:
    """Two queries that a loop runs in turn, in some rounds not at all, do not run at once in the replay."""
    rng, batches = np.random.default_rng(0), []
    for turn in (turn for turn in range(20) if turn not in missing):
        start = make.EPOCH + 123 + 600 * turn + rng.uniform(0, 0.5)
        for name in "ab":
            rows = round(rng.uniform(90_000, 110_000))
            batches.append(
                make.Batch(query=name, number=turn, run=turn, start=start, rows=rows, seconds=20 + 0.002 * rows)
            )
            start += batches[-1].seconds + 30
    found = deployed(inspect(read_telemetry([str(write(batches))])))
    one, other = (replay(found)[name].start + found.start - make.EPOCH for name in "ab")
    assert one % 600 == pytest.approx(123, abs=2)
    assert np.all((other % 600 > 350) & (other % 600 < 400))


def test_a_limit_that_may_be_chance_is_none(make: Any, write: Any) -> None:
    """Files of equal size look like a limit where nobody tells what waits: no replay has it, and a note says so."""
    told = write(make.paced(count=60, rate=lambda n: 400.0 if n % 3 else 100.0, lag=5))
    untold = told.with_name("untold")
    untold.write_text(told.read_text().replace('"latestOffset"', '"x"').replace('"avgOffsetsBehindLatest"', '"x"'))
    for path, limit in ((told, 800.0), (untold, math.inf)):
        found = deployed(inspect(read_telemetry([str(path)])))
        assert found.jobs["clicks"].limit == limit
        assert ("a limit of 800 rows may apply to clicks; it is replayed as none" in found.notes) == (path == untold)


def test_restarts_are_no_schedule(make: Any, write: Any) -> None:
    """A query that ran all the time, was run by hand now and then, or only twice, is on no schedule; one that waits
    for a trigger while it runs keeps it, however evenly its runs are apart.
    """

    def job(*begins: float, trigger: float = 0.1, count: int = 40) -> Any:
        batches = [
            attrs.evolve(batch, number=count * run + batch.number)
            for run, begin in enumerate(begins)
            for batch in make.paced(count=count, trigger=trigger, begin=make.EPOCH + begin, run=run)
        ]
        return deployed(inspect(read_telemetry([str(write(batches))]))).jobs["clicks"]

    # Under a trigger of 0.1 s batches of 0.2 s follow each other.
    for begins in ((0, 12, 24, 36), (0, 1000), (0, 1000, 1200, 9000, 9200)):
        assert not job(*begins).scheduled
    assert job(0, 1000, 2000).scheduled
    for begins in ((0, 100, 200, 300), (0, 1000, 2000)):
        assert not job(*begins, trigger=2.0).scheduled
        assert job(*begins, trigger=2.0).trigger == 2.0


@pytest.mark.slow
def test_a_burst_in_a_long_log_is_not_averaged_away(make: Any, write: Any) -> None:
    """One batch of many rows in four days is replayed as it was: its rows came within its trigger."""
    burst = make.paced(trigger=60.0, count=5760, rate=lambda n: 100.0 if n == 3000 else 5 + 3 * math.sin(n))
    there = deployed(inspect(read_telemetry([str(write(burst))])))
    assert there.period == 60.0
    assert there.jobs["clicks"].rates.max() == pytest.approx(100.0)
    worst = consult(there, Aims(latency=90.0), Burst(), np.random.default_rng(0)).report.latency["clicks"].worst
    assert worst[1] == pytest.approx(60 + burst[3000].seconds, rel=0.02)


@pytest.mark.parametrize("trigger", [10.0, 0.0])
def test_rows_that_come_rarely_come_at_once(make: Any, write: Any, trigger: float) -> None:
    """Rows that come once an hour were not there before: they wait for the trigger and their batch, and no more."""
    rng, offset, batches = np.random.default_rng(1), 0, []
    for hour in range(48):
        rows = int(rng.integers(20_000, 80_000))
        start = 3600 * hour + (10.0 * rng.integers(10, 300) if trigger else round(rng.uniform(100, 3000), 3))
        batches.append(
            make.Batch(
                query="clicks", number=hour, start=make.EPOCH + start, rows=rows, offset=offset,
                seconds=round((0.5 + 4e-4 * rows) * (1 + 0.03 * rng.standard_normal()), 3),
            )
        )  # fmt: skip
        offset += rows
    # Without a trigger, rows are told of to a second.
    truth = max(trigger, 1.0) + max(batch.seconds for batch in batches[1:])
    found = asked(write(batches), 60.0)
    assert found.report.deployment.jobs["clicks"].trigger == trigger
    low, _, high = found.report.latency["clicks"].worst
    assert 0.97 * low <= truth <= 1.03 * high
    assert high - low < 0.3 * truth
    if trigger:
        assert found.agreement["clicks"]["replayed"] == pytest.approx(found.agreement["clicks"]["recorded"], rel=0.15)


def test_cores_stay_where_the_replay_is_off(job: Any, deployment: Any) -> None:
    """Where replayed batches differ much from the recorded ones, nothing that frees cores is advised."""

    def freed(recorded: float) -> tuple[bool, bool]:
        there = deployment(job(trigger=2.0, recorded=recorded), cores=4.0)
        report = consult(there, Aims(latency=60.0), Burst(), np.random.default_rng(0)).report
        held = any(note.startswith("no advice that frees cores") for note in report.notes)
        return any(advice.proposal.saves > 0 for advice in report.advice), held

    assert freed(1.0) == (True, False)
    assert freed(5.0) == (False, True)


def test_drivers_that_followed_each_other_are_not_put_together(penstock: Any, make: Any, write: Any) -> None:
    """Light drivers become one if they ran at the same time, and not if one had ended before the other began."""

    def together(begin: float) -> set[str]:
        light = {"overhead": 0.1, "cost": 1e-4}
        one, other = make.paced("a", **light), make.paced("b", begin=make.EPOCH + begin, **light)
        logs = write(one, "a", app="a"), write(other, "b", app="b")
        done = penstock("advise", *logs, "--latency", "60", "--burst", "2", "--json")
        assert done.code == 0, done.err
        return {row["query"] for row in done.document["advice"] if row["kind"] == "together"}

    assert len(together(60)) == 1
    assert together(600) == set()


def test_real_time_mode_is_left_out(penstock: Any, make: Any, write: Any) -> None:
    """A query in real-time mode is not replayed, and told of; with no other there is nothing to advise on."""
    log = write([*make.paced("a"), *make.paced("b")])
    plain = log.read_text()
    scan = plain.replace('"Stage Infos":[]', '"Stage Infos":["RealTimeStreamScan"]')
    both = zip(plain.splitlines(), scan.splitlines(), strict=True)
    log.write_text("\n".join(marked if make.identifier("b") in line else line for line, marked in both))
    done = penstock("advise", log, "--weight", "b=2", "--json")
    assert list(done.document["queries"]) == ["a"]
    assert any(note.startswith("left out: b; in real-time mode") for note in done.document["notes"])
    log.write_text(scan)
    assert "nothing to advise on: in real-time mode" in penstock("advise", log).err


def test_each_source_has_its_own_limit(penstock: Any, make: Any, tmp_path: Path) -> None:
    """Of two Kafka sources each takes up to its maxOffsetsPerTrigger: both together take the replayed limit."""
    rates = 400 + 100 * np.sin(np.arange(400)) + 1500 * (np.arange(400) // 40 == 5)
    reports = [make.progress(batch) for batch in ran(rates, 0.5, 0.0008, noise=0.02).batches(make)]

    def limit(shares: tuple[int, ...]) -> Any:
        for report in reports:
            (source, *_) = report["sources"]
            rows = report.setdefault("all", source["numInputRows"])
            counts = [rows * share // 4 for share in shares[1:]]
            counts.insert(0, rows - sum(counts))
            report["sources"] = [
                {**source, "description": f"KafkaV2[Subscribe[{n}]]", "numInputRows": count}
                for n, count in enumerate(counts)
            ]
        (tmp_path / "log").write_text("\n".join(json.dumps(report) for report in reports))
        done = penstock("advise", tmp_path / "log", "--latency", "10", "--json")
        return next(row for row in done.document["advice"] if row["kind"] == "rate-limit")

    whole, apart = limit((4,)), limit((3, 1))
    assert whole["also"] == {}
    assert apart["setting"] == "maxOffsetsPerTrigger"
    (other,) = apart["also"].items()
    assert other[0] == "maxOffsetsPerTrigger of KafkaV2[Subscribe[1]]"
    assert apart["to"] + other[1] == pytest.approx(whole["to"], rel=0.05)
    assert apart["to"] == pytest.approx(3 * other[1], rel=0.05)
    assert f"each source has this option for itself: {apart['to']:,.0f} for KafkaV2[Subscribe[0]]" in apart["remark"]


@pytest.mark.parametrize("others", [True, False])
def test_the_limit_of_one_of_several_sources_is_told_of(make: Any, tmp_path: Path, others: bool) -> None:
    """Where one of several sources is limited, a note says that its rows may wait longer, and nothing is advised."""
    rates = 400 + 100 * np.sin(np.arange(400)) + 1500 * (np.arange(400) // 40 == 5)
    batches = ran(rates, 0.5, 0.0008, limit=1000, noise=0.02).batches(make)
    reports = [make.progress(batch) for batch in batches]
    for number, report in enumerate(reports):
        rows = 10 * (number % 3) if others else 0
        report["sources"].append({"description": "KafkaV2[Subscribe[orders]]", "numInputRows": rows})
    (tmp_path / "log").write_text("\n".join(map(json.dumps, reports)))
    report = asked(tmp_path / "log", 10.0).report
    assert report.deployment.jobs["clicks"].limit == pytest.approx(1000, rel=0.03)
    assert report.deployment.jobs["clicks"].joint == others
    assert any("is that of one of several sources" in note for note in report.notes) == others
    assert bool(report.advice) != others


def test_state_of_which_the_settings_tell_nothing(make: Any, write: Any) -> None:
    """A program may set partitions and store itself: where the settings leave them out, the default is not assumed."""
    batches = make.paced(overhead=0.6, state=5_000_000)
    path = write(batches)
    path.write_text(path.read_text().replace("loadedMapCacheHitCount", "ownMetric"))
    text = path.read_text().replace('"spark.sql.shuffle.partitions":"4"', '"spark.sql.streaming.a":"b"')
    path.write_text(text.replace('"commitTimeMs":4', '"commitTimeMs":900'))
    found = asked(path, 0.1)
    facts = found.report.deployment.jobs["clicks"].facts
    assert math.isnan(facts.partitions)
    assert facts.provider == ""
    assert facts.commit == pytest.approx(0.9)
    assert "shuffle" not in kinds(found)


@pytest.mark.parametrize(
    ("partitions", "metric", "advised"),
    [
        (8, "rocksdbGetCount", set()),
        (8, "loadedMapCacheHitCount", {"spark.sql.streaming.stateStore.providerClass"}),
        (200, "rocksdbGetCount", {"spark.sql.shuffle.partitions"}),
    ],
)
def test_progress_tells_more_of_state_than_settings(
    make: Any, write: Any, partitions: int, metric: str, advised: set[str]
) -> None:
    """Partitions and store that progress shows count, whatever the settings say, and only they get advice."""
    path = write(make.paced(overhead=1.5, cost=1e-4, state=5_000_000), cores=8)
    told = path.read_text().replace('"commitTimeMs":4', f'"commitTimeMs":11000,"numShufflePartitions":{partitions}')
    path.write_text(told.replace("loadedMapCacheHitCount", metric))
    found = asked(path, 0.1)
    assert found.report.deployment.jobs["clicks"].facts.partitions == partitions
    settings = {row.proposal.setting for row in found.report.advice if row.proposal.kind == "shuffle"}
    assert settings == advised


def test_commits_count_where_cores_are_told(penstock: Any, make: Any, tmp_path: Path) -> None:
    """Of progress alone the cores that commits are spread over are not known: the state gets advice once they are."""
    reports = [make.progress(batch) for batch in make.paced(overhead=1.5, cost=1e-4, state=1000)]
    for report in reports:
        report["stateOperators"][0].update(commitTimeMs=11_000, numShufflePartitions=200)
    (tmp_path / "log").write_text("\n".join(json.dumps(report) for report in reports))
    for words, kinds in (([], set()), (["--cores", "log=8"], {"shuffle"})):
        done = penstock("advise", tmp_path / "log", "--latency", "0.1", *words, "--json")
        assert {row["kind"] for row in done.document["advice"]} & {"shuffle"} == kinds


def test_progress_tells_partitions_and_metrics_of_state() -> None:
    """A stateful operator's partitions and the metrics of its store are read, where it has them."""
    text = b'{"operatorName": "s", "numShufflePartitions": 8, "customMetrics": {"rocksdbGetCount": 1}}'
    told = msgspec.json.decode(text, type=StateProgress)
    assert told.num_shuffle_partitions == 8
    assert b"rocksdb" in bytes(told.custom_metrics)
    bare = msgspec.json.decode(b"{}", type=StateProgress)
    assert bare.num_shuffle_partitions is None
    assert bytes(bare.custom_metrics) == b"null"
