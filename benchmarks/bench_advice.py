"""Whether advice on jobs in plain PySpark comes true: what inspect and advise say, against what the jobs then do.

Run on a quiet machine with two cores, after ``make kafka``: ``python benchmarks/bench_advice.py``; it takes about half
an hour and writes benchmarks/results/advice.{json,md}. ``--parts burst`` measures one part, ``--quick`` shorter ones.

* ``kinds``: `scripts/record_event_log.py` runs eleven queries of different kinds, under this Python and under each
  ``--python`` (of other versions of Spark). The fit of the first half of a query's batches predicts the second half.
* ``burst``: a query on Kafka is recorded at half of its capacity. ``advise --burst 3`` is asked for 0.8 times the
  worst latency that it predicts as things are, and its ``maxOffsetsPerTrigger`` is put in. Then a burst of three times
  the mean rate comes, without the limit and with it. The bound is fixed before either run.
* ``separate``: two queries on one driver of one core peak together. ``advise`` tells the p99 of a driver for each; then
  they run so, each driver on a core of its own.
* ``listener``: batches as fast as one query can, in turns with `penstock.Listener` and without.

A row's latency goes from when it was given to Kafka to the end of its batch, as the event log has it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from about import RESULTS, ROOT, revision
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from numpy.typing import NDArray

from penstock.advice import Aims, Burst, Report, consult, deployed
from penstock.errors import InputError
from penstock.files import plain
from penstock.inspection import fit_batches, inspect
from penstock.inspection.warm import warm
from penstock.telemetry import Batches, read_telemetry

sys.path.insert(0, str(ROOT / "scripts"))
from kafka import HOME, Broker

STEPS = 8000
"""Hashes a row: so dear that feeding the rows takes next to nothing of the machine."""

TRIES = 3
"""Recordings at most until one is at half of the capacity."""

SLICE = 0.02
"""Seconds between two deliveries to Kafka."""

WARM = 45.0
"""Seconds for which a young JVM gets rows before anything is measured."""

TRIGGER = 1.0
"""Seconds between batches, so that they are large enough to tell cost from overhead."""

Plan = Sequence[tuple[float, float]]
"""Seconds, and rows a second during them, one after the other."""

Array = NDArray[np.float64]


class Fed:
    """When the rows of a topic were given to Kafka: row k at `time[i]`, the first i with `count[i]` > k."""

    def __init__(self, begin: float) -> None:
        self.begin, self._rows = begin, [(begin, 0)]

    def add(self, when: float, count: int) -> None:
        """Take in that so many rows were given by then."""
        self._rows.append((when, count))

    def arrivals(self) -> Array:
        """Return when each row came (s since the epoch)."""
        when, count = (np.array(part) for part in zip(*self._rows, strict=True))
        return np.asarray(np.repeat(when[1:], np.diff(count)))


def client() -> dict[str, Any]:
    """Return how the broker is reached."""
    return {
        "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": os.environ["KAFKA_USER"],
        "sasl.password": os.environ["KAFKA_PASSWORD"],
    }


def feed(plans: Mapping[str, Plan]) -> dict[str, Fed]:
    """Deliver rows to topics at the planned rates."""
    producer = Producer({**client(), "linger.ms": 2})
    begin, end = time.time(), max(sum(seconds for seconds, _ in plan) for plan in plans.values())
    edges = {topic: np.cumsum([0.0, *(seconds for seconds, _ in plan)]) for topic, plan in plans.items()}
    due = {topic: np.cumsum([0.0, *(seconds * rate for seconds, rate in plan)]) for topic, plan in plans.items()}
    done = dict.fromkeys(plans, 0)
    fed = {topic: Fed(begin) for topic in plans}
    passed = 0.0
    while passed < end:
        time.sleep(SLICE)
        passed = time.time() - begin
        for topic in plans:
            until = int(np.interp(passed, edges[topic], due[topic]))
            for _ in range(done[topic], until):
                producer.produce(topic, b"x")
            fed[topic].add(begin + passed, until)
            done[topic] = until
        producer.poll(0)
    producer.flush(30)
    return fed


def topics(*names: str) -> dict[str, str]:
    """Make topics; return them by what they are for."""
    made = {name: f"{name}-{os.urandom(4).hex()}" for name in names}
    admin = AdminClient(client())
    for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in made.values()]).values():
        future.result(30)
    return made


@contextmanager
def running(folder: Path, name: str, queries: list[dict[str, Any]], core: int | None = None) -> Iterator[Path]:
    """Run an application in plain PySpark; its event log lies in the folder that this gives, when it has ended."""
    work = folder / name
    (work / "log").mkdir(parents=True)
    jars = [str(jar) for jar in sorted((HOME / "connector").glob("*.jar"))]
    job = {"name": name, "cores": 1, "jars": jars, "log": str(work / "log"), "work": str(work), "queries": queries}
    (work / "job.json").write_text(json.dumps(job))
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    command = [*pinned, sys.executable, str(ROOT / "benchmarks" / "plain_job.py"), str(work / "job.json")]
    with (work / "errors").open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline() != b"ready\n":
            raise SystemExit((work / "errors").read_text()[-2000:])
        yield work / "log"
        process.stdin.close()
        process.wait(60)
    finally:
        process.kill()


def settled(log: Path, wanted: Mapping[str, int], patience: float = 180.0) -> None:
    """Wait until the queries have taken so many rows."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            told = read_telemetry([str(log)]).queries
        except InputError:  # no batch has ended yet
            told = {}
        if all(name in told and told[name].batches.rows.sum() >= count for name, count in wanted.items()):
            return
        time.sleep(2.0)
    raise SystemExit(f"the rows were not taken within {patience:g} s")


def latencies(batches: Batches, fed: Fed) -> tuple[Array, Array]:
    """Return when each row came (s from the beginning of the feed), and how long it waited (s)."""
    came = fed.arrivals()
    ended = np.repeat(batches.end, batches.rows.astype(int))
    assert ended.size == came.size, (ended.size, came.size)
    return came - fed.begin, ended - came


def run(folder: Path, name: str, queries: list[dict[str, Any]], plans: Mapping[str, Plan], **more: Any) -> Any:
    """Run one application while its topics are fed; return its log, and what was fed."""
    where = {query["name"]: query["topic"] for query in queries}
    with running(folder, name, queries, **more) as log:
        fed = feed({where[query]: plan for query, plan in plans.items()})
        settled(log, {query: fed[topic].arrivals().size for query, topic in where.items()})
    return log, {query: fed[topic] for query, topic in where.items()}


def query(name: str, topic: str, limit: float | None = None, trigger: float = TRIGGER) -> dict[str, Any]:
    """Return a query as `plain_job.py` takes it; trigger 0: as fast as it can."""
    interval = f"{1000 * trigger:.0f} milliseconds" if trigger else None
    return {"name": name, "topic": topic, "steps": STEPS, "limit": limit, "trigger": interval}


def capacity(folder: Path, seconds: float) -> float:
    """Return the rows a second that one core can take, from a short run at rates that vary."""
    made = topics("probe")
    plan = [(WARM, 100.0), *((seconds / 8, rate) for rate in (50.0, 400.0, 100.0, 600.0) * 2)]
    log, _ = run(folder, "probe", [query("probe", made["probe"])], {"probe": plan})
    batches = read_telemetry([str(log)]).queries["probe"].batches
    # A rough figure does, which only scales the rates: the last third of the batches, least squares.
    late = slice(2 * len(batches) // 3, None)
    cost = float(np.polyfit(batches.rows[late], batches.duration[late], 1)[0])
    if cost <= 0:
        raise SystemExit("the probing run does not tell the cost of a row: the machine is too busy")
    return 1 / cost


def halves(batches: Batches) -> float | None:
    """Return the median error by which the fit of the first half of the batches predicts the second half."""
    there = np.flatnonzero(batches.rows > 0)
    first, second = there[: there.size // 2], there[there.size // 2 :]
    done = warm(batches.rows[first], batches.duration[first], batches.run[first])
    fit = fit_batches(batches.rows[first][done], batches.duration[first][done])
    if fit.cost is None:
        return None
    return float(np.median(fit.seconds(batches.rows[second]) / batches.duration[second] - 1))


def kinds(folder: Path, pythons: Sequence[str], quick: bool) -> dict[str, Any]:
    """Run queries of many kinds under each Python; return the errors of their second halves."""
    found = {}
    for number, python in enumerate(pythons):
        out = folder / f"kinds-{number}.zstd"
        script = ROOT / "scripts" / "record_event_log.py"
        words = [python, str(script), str(out), "--batches", "12" if quick else "72"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        told = read_telemetry([str(out)])
        version = next(iter(told.applications.values())).version
        # "first" and "second" disturb each other on purpose.
        errors = {n: halves(log.batches) for n, log in told.queries.items() if n not in ("first", "second")}
        known = [abs(error) for error in errors.values() if error is not None]
        found[version] = {"queries": errors, "median": float(np.median(known))}
    return found


def advised(log: Path, since: float, aims: Aims, burst: Burst) -> Report:
    """Return what `penstock advise --since` says of a log."""
    deployment = deployed(inspect(read_telemetry([str(log)]), since))
    return consult(deployment, aims, burst, np.random.default_rng(0)).report


def burst(folder: Path, scale: float, most: float) -> dict[str, Any]:
    """Record, ask for advice, and let the burst come with the advice and without."""
    length = 30.0 * scale
    made = topics("without", "with")
    for attempt in range(TRIES):
        varied = [(10.0 * scale, share * most) for share in (0.25, 0.75, 0.5, 0.4, 0.6, 0.3, 0.7, 0.5) * 2]
        name = f"recorded-{attempt}"
        plan = [(WARM, 0.4 * most), *varied]
        log, fed = run(folder, name, [query("clicks", topics(name)[name])], {"clicks": plan})
        since = fed["clicks"].begin + WARM
        seen = inspect(read_telemetry([str(log)]), since).queries["clicks"]
        if seen.fit.cost is not None and abs(seen.fit.cost * most - 1) < 0.15:
            break
        # The probe was off: it shall be half of the capacity.
        most = most if seen.fit.cost is None else 1 / seen.fit.cost
    ahead = Burst(factor=3.0, length=length)
    free = advised(log, since, Aims(), ahead)
    asked = 0.8 * free.latency["clicks"].worst[1]
    report = advised(log, since, Aims(latency=asked), ahead)
    mean = report.deployment.jobs["clicks"].rate
    found: dict[str, Any] = {"asked": asked, "mean_rate": mean, "length": length, "halves": halves(seen.batches)}
    limits = [advice for advice in report.advice if advice.proposal.setting == "maxOffsetsPerTrigger"]
    if not limits:
        return {**found, "worst": free.latency["clicks"].worst, "advice": [a.proposal.kind for a in report.advice]}
    advice = limits[0]
    found |= {"limit": advice.proposal.new, "also": dict(advice.proposal.also)}
    plan = [(WARM, 0.4 * most), *varied[:8], (length, 3 * mean), (length, mean)]
    begin = sum(seconds for seconds, _ in plan[:-2])
    changed = {"limit": float(advice.proposal.new), "trigger": float(advice.proposal.also.get("trigger", TRIGGER))}
    for name, settings, expected in (("without", {}, advice.before), ("with", changed, advice.after)):
        log, fed = run(folder, name, [query("clicks", made[name], **settings)], {"clicks": plan})
        came, waited = latencies(read_telemetry([str(log)]).queries["clicks"].batches, fed["clicks"])
        rows = waited[came >= begin]
        found[name] = {
            "predicted": {"worst": expected.worst, "p99": expected.p99},
            "measured": {"worst": float(rows.max()), "p99": float(np.quantile(rows, 0.99))},
            "kept": bool(rows.max() <= asked),
        }
    return found


def separate(folder: Path, scale: float, most: float) -> dict[str, Any]:
    """Record two queries on one driver, ask for advice, and run them on a driver each."""
    names = ("left", "right")
    plan = [(WARM, 0.15 * most), *[(20.0 * scale, 0.15 * most), (8.0 * scale, 0.6 * most)] * 5, (20.0, 0.15 * most)]
    made = topics(*names)
    log, fed = run(folder, "together", [query(n, made[n]) for n in names], dict.fromkeys(names, plan), core=0)
    before = [measured(log, n, fed[n]) for n in names]
    report = advised(log, fed["left"].begin + WARM, Aims(), Burst())
    apart = [advice for advice in report.advice if advice.proposal.kind == "separate"]
    if not apart:
        worst = {name: row.worst for name, row in report.latency.items()}
        return {"worst": worst, "advice": [advice.proposal.kind for advice in report.advice]}
    advice = apart[0]
    made = topics(*names)
    with ExitStack() as both:
        logs = [both.enter_context(running(folder, n, [query(n, made[n])], core=k)) for k, n in enumerate(names)]
        given = feed({made[n]: plan for n in names})
        for n, one in zip(names, logs, strict=True):
            settled(one, {n: given[made[n]].arrivals().size})
    after = [measured(one, n, given[made[n]]) for n, one in zip(names, logs, strict=True)]
    about = [names.index(name) for name in advice.proposal.about]
    found: dict[str, Any] = {"about": advice.proposal.about}
    for key, rows, expected in (("together", before, advice.before), ("apart", after, advice.after)):
        p99 = float(np.quantile(np.concatenate([rows[k] for k in about]), 0.99))
        found[key] = {"predicted": expected.p99, "measured": p99, "off": expected.p99[1] / p99 - 1}
    return found


def measured(log: Path, name: str, fed: Fed) -> Array:
    """Return how long the rows of a query waited that came when it was warm (s)."""
    came, waited = latencies(read_telemetry([str(log)]).queries[name].batches, fed)
    return waited[came >= WARM]


def listener(folder: Path, turns: int, seconds: float) -> dict[str, Any]:
    """Return batches a second of one query without a listener and with one, in turns."""
    from pyspark.sql import SparkSession

    import penstock

    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.ui.showConsoleProgress": "false"}
    spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    stream = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "listened")).start()

    def counted() -> float:
        first, begin = stream.lastProgress["batchId"], time.monotonic()
        time.sleep(seconds)
        return float((stream.lastProgress["batchId"] - first) / (time.monotonic() - begin))

    while stream.lastProgress is None:
        time.sleep(1.0)
    time.sleep(2 * seconds)
    ratios, rates = [], []
    for turn in range(turns):
        heard = penstock.Listener(folder / f"told-{turn}", prometheus=0)
        without = counted()
        spark.streams.addListener(heard)
        told = counted()
        spark.streams.removeListener(heard)
        heard.close()
        # What drifts through a turn disturbs the mean of both sides alike.
        without = (without + counted()) / 2
        ratios.append(told / without - 1)
        rates.append(without)
    stream.stop()
    spark.stop()
    error = float(np.std(ratios, ddof=1) / np.sqrt(turns))
    return {"batches_a_second": float(np.mean(rates)), "change": float(np.mean(ratios)), "standard_error": error}


def page(found: dict[str, Any]) -> str:
    """Return the results for people."""
    lines = [
        "# Advice on plain PySpark jobs, put into practice",
        "",
        f"`python benchmarks/bench_advice.py`, {found['when']}, revision {found['revision']}, "
        f"load before {found['load_before']:.2f}.",
        "",
    ]
    for version, row in found.get("kinds", {}).items():
        lines += [f"Spark {version}: the first half predicts the second within {row['median']:.1%} (median).", ""]
    if "with" in (row := found.get("burst", {})):
        lines += [
            f"A burst of three times the mean rate for {row['length']:g} s; asked for {row['asked']:.3g} s:",
            "",
            "| | worst, predicted (s) | worst, measured (s) | bound |",
            "|---|---|---|---|",
        ]
        for name, label in (("without", "as it was"), ("with", f"`maxOffsetsPerTrigger` {row['limit']:g}")):
            one = row[name]
            low, middle, high = one["predicted"]["worst"]
            kept = "kept" if one["kept"] else "missed"
            worst = one["measured"]["worst"]
            lines.append(f"| {label} | {middle:.3g} ({low:.3g} to {high:.3g}) | {worst:.3g} | {kept} |")
        lines.append("")
    if "apart" in (row := found.get("separate", {})):
        lines += ["| drivers | p99, predicted (s) | p99, measured (s) | off |", "|---|---|---|---|"]
        for key, label in (("together", "one for both queries"), ("apart", "one each, as advised")):
            one = row[key]
            lines.append(f"| {label} | {one['predicted'][1]:.3g} | {one['measured']:.3g} | {one['off']:+.1%} |")
        lines.append("")
    if row := found.get("listener"):
        lines += [
            f"A listener changes the throughput of a query of {row['batches_a_second']:.0f} batches/s by "
            f"{row['change']:+.2%} (standard error {row['standard_error']:.2%}).",
            "",
        ]
    return "\n".join(lines)


def main() -> None:
    """Measure the parts, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ("kinds", "burst", "separate", "listener")
    parser.add_argument("--parts", nargs="+", choices=names, default=list(names))
    parser.add_argument("--python", action="append", default=[], help="a Python with another pyspark; may be repeated")
    parser.add_argument("--quick", action="store_true", help="shorter runs, whose figures mean little")
    parser.add_argument("--logs", type=Path, help="keep the event logs in this folder")
    parser.add_argument("--out", type=Path, default=RESULTS / "advice.json")
    given = parser.parse_args()
    scale = 0.3 if given.quick else 1.0
    found: dict[str, Any] = {
        "machine": {"system": platform.platform(), "cores": os.cpu_count(), "python": platform.python_version()},
        "revision": revision(),
        "when": time.strftime("%Y-%m-%d"),
        "quick": given.quick,
        "load_before": os.getloadavg()[0],
    }
    with tempfile.TemporaryDirectory(prefix="bench-advice-") as name, ExitStack() as stack:
        broker = Broker(HOME / "run").start(patience=300.0)
        stack.callback(broker.stop)
        os.environ |= broker.known
        folder = given.logs or Path(name)
        most = capacity(folder, 60.0 * scale) if {"burst", "separate"} & set(given.parts) else 0.0
        measures: dict[str, Callable[[], dict[str, Any]]] = {
            "kinds": lambda: kinds(folder, [sys.executable, *given.python], given.quick),
            "burst": lambda: burst(folder, scale, most),
            "separate": lambda: separate(folder, scale, most),
            "listener": lambda: listener(folder, 2 if given.quick else 12, 10.0 * scale),
        }
        for part in given.parts:
            found[part] = plain(measures[part]())
            print(part, json.dumps(found[part]), file=sys.stderr)
    given.out.write_text(json.dumps(found, indent=2) + "\n")
    given.out.with_suffix(".md").write_text(page(found))


if __name__ == "__main__":
    main()
