"""Networks over files, as people have them: sources without rows, sinks that share folders, rows that come late."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import attrs
import pyarrow.parquet as pq
import pytest
from sinks_kit import read_json

from penstock.cli.common import ending_in_order
from penstock.errors import EngineError, InputError
from penstock.network.file import parse_network
from penstock.running.report import unread
from penstock.spark.calibrate.samples import FIRST, read_samples
from penstock.spark.compile import Deployment
from penstock.spark.hop import directory
from penstock.spark.run import Engine, Outcome
from penstock.spark.run.folder import claim

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

BASE = "2026-03-01T12:"


def at(second: float) -> str:
    """Return a time, some seconds after noon."""
    return f"{BASE}{int(second) // 60:02d}:{second % 60:06.3f}Z"


def write_rows(folder: Path, number: int, rows: list[dict[str, Any]]) -> None:
    """Write a JSON file that is read after those with smaller numbers."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{number:03d}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(path, (1_700_000_000 + number,) * 2)


def document(here: Path, operators: dict[str, Any], sinks: dict[str, Any], **source: Any) -> dict[str, Any]:
    """Return a network over the files in ``here/in``."""
    events = {
        "format": "json", "schema": "n bigint, at timestamp, tags map<string,int>", "time": "at",
        "options": {"path": str(here / "in")}, **source,
    }  # fmt: skip
    return {"name": "files", "sources": {"events": events}, "operators": operators, "sinks": sinks}


def run(engine: Engine, network: dict[str, Any], folder: Path, host: Any = "h1", **how: Any) -> tuple[Outcome, Any]:
    """Run a network; return what came of it, and its streams."""
    graph = parse_network(network)
    placement = host if isinstance(host, dict) else dict.fromkeys(graph.operators, host)
    deployment = engine.prepare(graph, placement, folder)
    outcome = engine.run(deployment, **how) if how else engine.run_once(deployment)
    assert outcome.balanced(graph)
    return outcome, outcome.streams(graph)


ALL = {"kept": {"kind": "filter", "input": "events", "where": "n >= 0"}}


def test_a_file_that_a_cut_off_batch_has_still_to_read_must_be_there(engine: Engine, tmp_path: Path) -> None:
    """While its folder is away a run is refused, with nothing lost: once the file is back all of it is read."""
    network = document(tmp_path, ALL, {"out": {"input": "kept"}})
    for number in range(2):
        write_rows(tmp_path / "in", number, [{"n": n, "at": at(n)} for n in range(50)])
        run(engine, network, tmp_path / "run")
    # As a kill leaves it that came before the last batch was shown.
    for left in ("checkpoints/kept/commits/1", "batches/kept/*1.json", "sinks/out/*1.parquet"):
        next((tmp_path / "run").glob(left)).unlink()
    away = (tmp_path / "in").rename(tmp_path / "away")
    (tmp_path / "in").mkdir()
    with pytest.raises(InputError, match=r"^sources\.events\..*/in/001\.json is gone, .*put it back"):
        run(engine, network, tmp_path / "run")
    (tmp_path / "in").rmdir()
    away.rename(tmp_path / "in")
    _, streams = run(engine, network, tmp_path / "run")
    assert streams["kept->out"]["delivered"] == 100


def test_sinks_never_overwrite(engine: Engine, tmp_path: Path) -> None:
    """Two runs, and two sinks of a run, into one folder that is named as a URI leave all their rows there."""
    write_rows(tmp_path / "in", 0, [{"n": n, "at": at(n)} for n in range(50)])
    out = {"format": "json", "options": {"path": f"file://{tmp_path}/out"}}
    network = document(tmp_path, ALL, {"one": {"input": "kept", **out}, "two": {"input": "kept", **out}})
    run(engine, network, tmp_path / "first")
    assert len(read_json(tmp_path / "out")) == 100
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    run(engine, network, tmp_path / "second")
    assert len(read_json(tmp_path / "out")) == 200
    assert all((tmp_path / "out" / name).read_bytes() == content for name, content in before.items())
    # Once more with the same directory: nothing new.
    run(engine, network, tmp_path / "second")
    assert sorted(row["n"] for row in read_json(tmp_path / "out")) == sorted([*range(50)] * 4)


def test_an_empty_source_ends_in_time(engine: Engine, tmp_path: Path) -> None:
    """A run for a time over a folder without files ends, and takes the files that come later when it goes on."""
    (tmp_path / "in").mkdir()
    network = document(tmp_path, ALL, {"out": {"input": "kept"}})
    outcome, streams = run(engine, network, tmp_path / "run", seconds=1.0)
    assert outcome.seconds < 60
    assert streams["events->kept"]["arrived"] == 0
    write_rows(tmp_path / "in", 0, [{"n": n, "at": at(n)} for n in range(5)])
    _, streams = run(engine, network, tmp_path / "run")
    assert streams["kept->out"] == {"arrived": 5, "delivered": 5, "dropped": 0, "late": 0}


def test_files_that_spark_passes_over_are_told(engine: Engine, tmp_path: Path) -> None:
    """A file that is a week older than others is not read, and the run says so, which a higher maxFileAge mends."""
    network = document(tmp_path, ALL, {"out": {"input": "kept"}})
    write_rows(tmp_path / "in", 0, [{"n": n, "at": at(n)} for n in range(5)])
    outcome, _ = run(engine, network, tmp_path / "run")
    assert outcome.skipped == {}
    write_rows(tmp_path / "in", -8 * 86400, [{"n": n, "at": at(n)} for n in range(7)])
    outcome, streams = run(engine, network, tmp_path / "run")
    assert streams["events->kept"]["arrived"] == 5
    assert outcome.skipped == {"events": 1}
    (said,) = unread(outcome.gone, outcome.skipped, outcome.unfound, outcome.unremoved, {})
    assert said.startswith("penstock: 1 files of the source 'events' were not read: they are a week older")
    # As the documentation advises, in the same run.
    network["sources"]["events"]["options"]["maxFileAge"] = "30d"
    outcome, streams = run(engine, network, tmp_path / "run")
    assert (streams["events->kept"]["arrived"], outcome.skipped) == (12, {})


def test_a_source_that_nobody_reads(engine: Engine, tmp_path: Path, penstock: Any) -> None:
    """A source without readers changes nothing, also in the report."""
    from penstock.running.learned import measured_rates

    write_rows(tmp_path / "in", 0, [{"n": 1, "at": at(1)}])
    network = document(tmp_path, ALL, {"out": {"input": "kept"}})
    network["sources"]["idle"] = dict(network["sources"]["events"])
    outcome, _ = run(engine, network, tmp_path / "run")
    rates = measured_rates(parse_network(network), outcome)
    assert rates is not None
    assert rates.of_source("idle").sum() == 0
    assert rates.of_source("events").sum() == 1


def test_samples_of_several_sources_end_together(engine: Engine, tmp_path: Path) -> None:
    """Where one source is cut off, rows of the others that come later are no sample: none of theirs could meet them."""
    for name, files, seconds, begin in (("long", FIRST + 2, 1, 0), ("short", 2, 8, 0), ("late", 1, 1, 100)):
        for number in range(files):
            first = begin + number * seconds
            write_rows(tmp_path / name, number, [{"n": n, "at": at(n)} for n in range(first, first + seconds)])
    sources = {
        name: {
            "format": "json",
            "schema": "n bigint, at timestamp",
            "time": "at",
            "options": {"path": f"{tmp_path / name}"},
        }
        for name in ("long", "short", "late")
    }
    network = parse_network({"name": "three", "sources": sources})
    found = read_samples(engine.sessions["h1"], network, None)
    assert {name: frame.count() for name, frame in found.items()} == {"long": FIRST, "short": FIRST, "late": 1}


def test_maps_cross_from_host_to_host(engine: Engine, tmp_path: Path) -> None:
    """A column of type map, and values that are null, come out on another host as they went in."""
    rows = [{"n": 1, "at": at(1), "tags": {"a": 1, "b": None}}, {"n": 2, "at": at(2), "tags": None}]
    write_rows(tmp_path / "in", 0, rows)
    operators = {**ALL, "more": {"kind": "filter", "input": "kept", "where": "n < 9"}}
    network = document(tmp_path, operators, {"out": {"input": "more"}})
    run(engine, network, tmp_path / "run", {"kept": "h1", "more": "h2"})
    found = [row for path in (tmp_path / "run/sinks/out").iterdir() for row in pq.read_table(path).to_pylist()]
    assert [row["tags"] for row in sorted(found, key=lambda row: row["n"])] == [[("a", 1), ("b", None)], None]


def test_late_rows_are_counted(engine: Engine, tmp_path: Path) -> None:
    """Rows beyond the lateness count as late on the stream into the window, and those within it never do."""
    seconds = [[0, 20, 40], [41, 39, 60], [5, 62, 58], [61, 3, 80]]
    for number, part in enumerate(seconds):
        write_rows(tmp_path / "in", number, [{"n": second, "at": at(second)} for second in part])
    operators = {**ALL, "counted": {"kind": "aggregate", "input": "kept", "window": "10 seconds"}}
    sinks = {"out": {"input": "counted", "format": "json", "options": {"path": str(tmp_path / "out")}}}
    # Behind a hop more rows may come at once, before the frontier has moved.
    for folder, host, least in (("one", "h1", 2), ("two", {"kept": "h1", "counted": "h2"}, 0)):
        options = {"path": str(tmp_path / "in"), "maxFilesPerTrigger": "1"}
        network = document(tmp_path, operators, sinks, options=options, lateness="5 seconds")
        _, streams = run(engine, network, tmp_path / folder, host)
        late = streams["kept->counted"]["late"]
        assert least <= late <= 2
        assert streams["kept->counted"]["delivered"] == 12
        counts = {row["window_start"]: row["count"] for row in read_json(tmp_path / "out")}
        # Up to the frontier, 75 s, all windows are out; with what was late they hold all rows.
        assert sum(counts.values()) == 11 - late
        for path in (tmp_path / "out").iterdir():
            path.unlink()


def test_a_run_without_an_end_ends_in_order_when_asked(engine: Engine, tmp_path: Path) -> None:
    """Whoever asks a run to end gets what has come of it until then."""
    write_rows(tmp_path / "in", 0, [{"n": n, "at": at(n)} for n in range(50)])
    network = document(tmp_path, ALL, {"out": {"input": "kept"}})

    def heard(*_: Any) -> None:
        if [*(tmp_path / "run" / "sinks").rglob("*.parquet")]:
            signal.raise_signal(signal.SIGINT)

    with ending_in_order() as asked:
        outcome, streams = run(engine, network, tmp_path / "run", heard=heard)
    assert asked == [signal.SIGINT]
    assert streams["kept->out"]["delivered"] == 50
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert outcome.seconds < 60


def test_any_name_is_free(engine: Engine, tmp_path: Path) -> None:
    """A source may be called as the folder is from which a query that goes on recalls event time."""
    operators = {"counts": {"kind": "aggregate", "input": "recalled", "window": 10}}
    network = document(tmp_path, operators, {"out": {"input": "counts"}})
    network["sources"] = {"recalled": network["sources"]["events"]}
    write_rows(tmp_path / "in", 0, [{"n": n, "at": at(n)} for n in range(25)])
    run(engine, network, tmp_path / "run")
    write_rows(tmp_path / "in", 1, [{"n": n, "at": at(n)} for n in range(25, 45)])
    assert run(engine, network, tmp_path / "run")[1]["counts->out"]["arrived"] == 4


def test_a_run_goes_on_whatever_its_session_remembers(engine: Engine, tmp_path: Path) -> None:
    """Sources that a plan reads in several places keep their numbers when Spark's server has forgotten its frames."""
    kinds = {"by": "n", "kind": "aggregate"}
    operators = {
        "first": {**kinds, "input": "events", "window": 10},
        "between": {**kinds, "input": "others", "window": 10},
        "second": {**kinds, "input": "events", "window": 20},
    }
    network = document(tmp_path, operators, {f"{name}-out": {"input": name} for name in operators})
    events = network["sources"]["events"]
    network["sources"]["others"] = {**events, "options": {"path": str(tmp_path / "others")}}
    write_rows(tmp_path / "in", 0, [{"n": n, "at": at(n)} for n in range(40)])
    write_rows(tmp_path / "others", 0, [{"n": n, "at": at(n)} for n in range(0, 40, 2)])
    run(engine, network, tmp_path / "run")
    key = "spark.connect.session.planCache.enabled"
    engine.sessions["h1"].conf.set(key, "false")
    try:
        write_rows(tmp_path / "in", 1, [{"n": n, "at": at(n)} for n in range(40, 80)])
        write_rows(tmp_path / "others", 1, [{"n": n, "at": at(n)} for n in range(40, 80, 2)])
        streams = run(engine, network, tmp_path / "run")[1]
    finally:
        engine.sessions["h1"].conf.unset(key)
    found = {name: streams[f"{name}->{name}-out"]["arrived"] for name in operators}
    assert found == {"first": 70, "between": 35, "second": 60}


@pytest.mark.parametrize("where", ["together", "apart", "behind"])
def test_a_join_takes_what_is_just_within_the_lateness(engine: Engine, tmp_path: Path, where: str) -> None:
    """A row as late as it may be meets those of the run before; one that is a microsecond later counts as late."""
    given = "all" if where == "behind" else "events"
    operators = {
        "all": {"kind": "map", "input": "events"},
        "one": {"kind": "filter", "input": given, "where": "n < 10"},
        "two": {"kind": "filter", "input": given, "where": "n >= 10"},
        "pairs": {
            "kind": "join",
            "inputs": ["one", "two"],
            "on": "one.n DIV 99 = two.n DIV 99",
            "within": 1,
            "select": "one.n, two.n AS m",
        },
    }
    network = document(tmp_path, operators, {"out": {"input": "pairs"}}, lateness=1)
    beside = "h1" if where != "behind" else "h2"
    hosts = {"all": "h1", "one": beside, "two": beside, "pairs": "h1" if where == "together" else "h2"}
    write_rows(tmp_path / "in", 0, [{"n": n, "at": at(40 + n)} for n in range(3)])
    run(engine, network, tmp_path / "run", hosts)
    # The latest was 42 s: 41 s is in time.
    write_rows(tmp_path / "in", 1, [{"n": 11, "at": at(41)}, {"n": 12, "at": f"{BASE}00:40.999999Z"}])
    _, streams = run(engine, network, tmp_path / "run", hosts)
    found = [pq.read_table(part).to_pylist() for part in (tmp_path / "run/sinks/out").glob("*.parquet")]
    assert sorted((row["n"], row["m"]) for rows in found for row in rows) == [(0, 11), (1, 11), (2, 11)]
    assert streams["one->pairs"]["late"] == 1  # of both inputs
    if where == "together":
        # A folder for each source: both branches read one, and the other is what is recalled.
        assert sorted(place.name for place in (tmp_path / "run/checkpoints/all/sources").iterdir()) == ["0", "1"]


@pytest.mark.parametrize("others", [[], ["2026-03-01T12:00:00Z"] * 5])
def test_rows_before_1970_are_told(engine: Engine, tmp_path: Path, others: list[str]) -> None:
    """They enter no window or join, which a run says, whatever came with them; no more are late than a stream took."""
    operators = {
        "one": {"kind": "map", "input": "events"},
        "pairs": {"kind": "join", "inputs": ["one", "events"], "on": "one.n = events.n", "within": 1},
        "counts": {"kind": "aggregate", "input": "one", "window": "10 seconds", "slide": "1 second"},
    }
    network = document(tmp_path, operators, {"out": {"input": "pairs"}, "sums": {"input": "counts"}})
    times = [f"1969-12-31T23:58:{second:02d}Z" for second in range(20)]
    write_rows(tmp_path / "in", 0, [{"n": n, "at": time} for n, time in enumerate([*times, *others])])
    outcome, streams = run(engine, network, tmp_path / "run", "h1")
    assert outcome.early
    # Spark counts late rows of both inputs of a join, and once for each window.
    late = [streams[name]["late"] for name in ("one->pairs", "one->counts")]
    assert all(len(times) <= rows <= len(times) + len(others) for rows in late)


def test_a_run_leaves_little_behind(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs go when they are read, older batches become sums, and counts stay those of all runs."""
    monkeypatch.setattr(directory, "READ_ROWS", 30)
    operators = {**ALL, "more": {"kind": "filter", "input": "kept", "where": "n % 2 = 0"}}
    options = {"path": str(tmp_path / "in"), "maxFilesPerTrigger": "1"}
    network = document(tmp_path, operators, {"out": {"input": "more"}}, options=options)
    files = 0
    for _ in range(3):
        for _ in range(8):
            write_rows(tmp_path / "in", files, [{"n": n, "at": at(n)} for n in range(10)])
            files += 1
        outcome, streams = run(engine, network, tmp_path / "run", {"kept": "h1", "more": "h2"})
        assert streams["kept->more"]["arrived"] == 10 * files
        assert streams["more->out"]["delivered"] == 5 * files
        assert outcome.latencies()[1].sum() == 5 * files
    assert len(list((tmp_path / "run/logs/kept").iterdir())) <= 12
    left = {kind: len(list((tmp_path / f"run/{kind}").rglob("*.*"))) for kind in ("batches", "progress", "latency")}
    assert max(left.values()) <= 2 * 8 + 2 * 2 + 4, left


def test_a_run_goes_on_as_it_was_begun(tmp_path: Path) -> None:
    """What answers depend on must be the same when a run is resumed; the trigger and the hosts may change."""
    network = parse_network(document(tmp_path, ALL, {"out": {"input": "kept"}}))
    begun = Deployment(network, {"kept": "h1"}, str(tmp_path / "run"))
    identity = claim(begun)
    assert claim(begun) == identity
    other = parse_network(document(tmp_path, ALL, {"out": {"input": "kept"}}, lateness="1 second"))
    for changed, said in (
        ({"network": other}, "another network"),
        ({"placement": {"kept": "h2"}}, "another placement"),
        ({"keep": {"events->kept": 0.5}}, "keep fractions"),
        ({"live": frozenset({"events->kept"})}, "may change what it drops"),
        ({"schedules": {"events": {"rates": "[]"}}}, "other rates"),
    ):
        with pytest.raises(InputError, match=said):
            claim(attrs.evolve(begun, **changed))


STEPS = """
import pyarrow as pa


def sums(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"n": [batch.num_rows], "at": [None], "tags": [None]}, schema=pa.schema(
            [("n", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("tags", pa.map_(pa.string(), pa.int32()))]))


def declared(batches):
    yield from sums(batches)


declared.schema = "n bigint, at timestamp, tags map<string,int>"
"""


def test_a_step_that_hides_where_rows_come_from(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows behind it are refused: before the start where its columns say so, else with the remedy when it runs."""
    (tmp_path / "hiding_steps.py").write_text(STEPS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    write_rows(tmp_path / "in", 0, [{"n": n, "at": at(n)} for n in range(5)])
    for name, error in (("declared", InputError), ("sums", EngineError)):
        operators = {
            "step": {"kind": "python", "input": "events", "function": f"hiding_steps:{name}"},
            "counted": {"kind": "aggregate", "input": "step", "window": "10 seconds"},
        }
        network = document(tmp_path, operators, {"out": {"input": "counted"}})
        with pytest.raises(error, match="rows = 'kept'"):
            run(engine, network, tmp_path / name)
    del operators["counted"]
    _, streams = run(engine, document(tmp_path, operators, {"out": {"input": "step"}}), tmp_path / "free")
    assert streams["step->out"]["arrived"] == 1
