"""Units as a run's folder keeps them, without Spark."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from penstock.errors import EngineError, InputError
from penstock.latency.fragments import Fragment, fragments
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.compile import RECALLED, Deployment, Query
from penstock.spark.hop.directory import DirectoryLog
from penstock.spark.left import claimed, hosts_of, placement_of
from penstock.spark.paths import paths_of, settled
from penstock.spark.run import reshape
from penstock.spark.run.folder import begun, claim, epoch_of, note, open_schedules, owned
from penstock.spark.run.history import History, write_history
from penstock.spark.run.reports import recount
from penstock.spark.run.reshape import Border, go_on
from penstock.spark.run.rows import noted_of_logs
from penstock.spark.run.units import Unit, stamped
from penstock.spark.shipped.checkpoint import begun_and_ended, offsets
from penstock.spark.shipped.place import Place, RemotePlace, place_of
from penstock.spark.shipped.spec import LogExit, Origin, SinkExit, WriterSpec
from penstock.spark.shipped.told import error_of, manifest_of, report_of
from penstock.spark.shipped.turn import KNOBS, decided_last
from penstock.spark.shipped.writer import known

EVENTS = {"format": "json", "schema": "k string, at timestamp", "time": "at"}


def network(**more: Any) -> Network:
    """Return a filter and a window behind it, and what else is given."""
    operators = {
        "kept": {"kind": "filter", "input": "events", "where": "true"},
        "counted": {"kind": "aggregate", "input": "kept", "window": "10 seconds", "by": "k"},
        **more,
    }
    return parse_network(
        {"name": "n", "sources": {"events": EVENTS}, "operators": operators, "sinks": {"out": {"input": "counted"}}}
    )


ON = {"kept": "h1", "counted": "h1"}
FAR = {"kind": "filter", "input": "kept", "where": "k = 'a'"}


@pytest.mark.parametrize("folder", ["foo://x", "s3a://b b/x", "file://data/x", "file:x", "taken"])
def test_a_folder_that_cannot_be_reached_is_named(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error of input with one line, that of a scheme says which ones there are; a name may hold a colon."""
    monkeypatch.chdir(tmp_path)
    Path("taken").touch()
    with pytest.raises(InputError, match="cannot be read: ") as caught:
        claimed(folder)
    assert str(caught.value).startswith(f"{folder}: ")
    assert "\n" not in str(caught.value)
    assert ("use a path, file, s3a" in str(caught.value)) == (folder == "foo://x")
    assert claimed("backup:1") is None


def test_a_store_that_refuses_to_write_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of object stores have a text and no number."""

    def make(self: Place) -> None:
        raise OSError("Bucket 'b' not found.")

    monkeypatch.setattr(RemotePlace, "make", make)
    with pytest.raises(InputError, match="cannot be written: Bucket 'b' not found"), owned(place_of("s3a://b/x")):
        pass


@pytest.mark.parametrize(
    ("trigger", "window", "step"), [(3.0, 2, 6.0), (1.0, 4, 4.0), (2.5, 10, 2.5), (1.0, 3600, 1.0)]
)
def test_scheduled_sources_begin_with_trigger_and_window(
    tmp_path: Path, trigger: float, window: int, step: float
) -> None:
    """They begin at a multiple of the trigger, and with a window where the two meet within seconds."""
    counted = {"kind": "aggregate", "input": "kept", "window": window, "by": "k"}
    made = Deployment(network(counted=counted), ON, str(tmp_path), schedules={"events": {}})
    before = time.time()
    open_schedules(made, trigger, 0.0)
    begin = epoch_of(made.place)
    assert before < begin <= before + step + 1
    open_schedules(made, trigger, before + 100)
    # A run that goes on had begun when its queries started, not when all of them had a batch.
    assert begun(made.place) == (begin, before + 100)
    assert begin % step == pytest.approx(0, abs=1e-6)


def test_names_do_not_depend_on_hosts() -> None:
    """A query is named by its first operator; operators that are apart are queries of their own, on any host."""
    made = network()
    assert [part.name for part in fragments(made, ON)] == ["kept"]
    apart = fragments(made, ON, apart={"counted"})
    assert [(part.name, part.operators) for part in apart] == [("kept", ("kept",)), ("counted", ("counted",))]
    moved = fragments(made, {"kept": "h2", "counted": "h1"}, apart={"counted"})
    assert {part.name: part.operators for part in moved} == {part.name: part.operators for part in apart}


def test_a_folder_keeps_units(tmp_path: Path) -> None:
    """What runs is read as it was written; a unit that moved is found where it is, another network is refused."""
    deployment = Deployment(network(), ON, str(tmp_path), apart=frozenset(["counted"]))
    first = claim(deployment)
    assert claim(deployment) == first
    units = tuple(unit.on("h2") if unit.name == "counted" else unit for unit in first.units)
    whole = network(far=FAR)
    far = Unit(Fragment("far", "h3", ("far",)), "far@3", {"far": -4}, {"kept": 7})
    placed = {**ON, "counted": "h2", "far": "h3"}
    note(attrs.evolve(deployment, network=whole, placement=placed), attrs.evolve(
        first, units=(*units, far), since={"kept->far": 5}, grown=whole
    ))  # fmt: skip
    document = claimed(str(tmp_path))
    assert document is not None
    assert dict(placement_of(document)) == {"kept": "h1", "counted": "h2"}
    assert hosts_of(document) == {"h1", "h2", "h3"}
    again = claim(attrs.evolve(deployment, placement=placement_of(document)))
    assert again.units == (*units, far)
    assert again.since == {"kept->far": 5}
    assert again.grown is not None
    assert again.grown.operators == whole.operators
    with pytest.raises(InputError, match="another network"):
        claim(attrs.evolve(deployment, network=whole))


def test_a_run_goes_on_with_other_options_that_change_no_answer(tmp_path: Path) -> None:
    """How much a batch reads, whether messages may be gone, and costs may change, also once the network has grown."""
    base, whole = network(), network(far=FAR)
    deployment = Deployment(base, ON, str(tmp_path))
    (source,) = base.sources.values()

    def having(**options: str) -> Deployment:
        told = attrs.evolve(source, options={**source.options, **options})
        steps = [attrs.evolve(operator, cost=(0.5,)) for operator in base.operators.values()]
        parts = [told], steps, [attrs.evolve(sink, weight=2.0) for sink in base.sinks.values()]
        return attrs.evolve(deployment, network=Network.of(base.name, *parts))

    note(attrs.evolve(deployment, network=whole, placement={**ON, "far": "h3"}), attrs.evolve(
        claim(deployment), grown=whole
    ))  # fmt: skip
    again = claim(having(failOnDataLoss="false", maxOffsetsPerTrigger="9")).grown
    assert again is not None
    assert again.sources[source.name].options["failOnDataLoss"] == "false"
    assert again.operators["kept"].cost == (0.5,)
    with pytest.raises(InputError, match="another network"):
        claim(having(subscribe="others"))


def with_files(path: str) -> Network:
    """Return a network whose rows go to files."""
    made = network()
    sink = attrs.evolve(made.sinks["out"], format="json", options={"path": path})
    return Network.of(made.name, made.sources.values(), made.operators.values(), [sink])


def test_relative_paths_hold_a_run_where_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started in another folder, a relative path leads elsewhere and is refused; an absolute one goes on."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    relative = Deployment(with_files("results"), ON, str(tmp_path / "run"))
    absolute = Deployment(with_files(str(here / "results")), ON, str(tmp_path / "other"))
    monkeypatch.chdir(here)
    begun = claim(relative), claim(absolute)
    assert (claim(relative), claim(absolute)) == begun
    monkeypatch.chdir(there)
    assert claim(absolute) == begun[1]
    with pytest.raises(InputError, match=f"begun with file://{here}/results, got file://{there}/results") as refused:
        claim(relative)
    assert refused.value.at == "sinks.out.options.path"


def test_settled_paths_mean_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a settled network every path is absolute, but of sources that are left as they are."""
    made = with_files("results")
    files = attrs.evolve(made.sources["events"], options={"path": "clicks"})
    whole = Network.of(made.name, [files], made.operators.values(), made.sinks.values())
    monkeypatch.chdir(tmp_path)
    found = paths_of(whole)
    assert found == {
        "sources.events.options.path": f"file://{tmp_path}/clicks",
        "sinks.out.options.path": f"file://{tmp_path}/results",
    }
    assert settled(whole, {"events"}).sources == whole.sources
    far = settled(whole)
    monkeypatch.chdir("/")
    assert paths_of(far) == found


def test_a_folder_keeps_how_outputs_grow(tmp_path: Path) -> None:
    """A network that grew on the way comes back with the growth of its operators."""
    deployment = Deployment(network(), ON, str(tmp_path))
    growth = {"exponent": 0.5, "at": 100.0}
    whole = network(far={"kind": "aggregate", "input": "kept", "window": 1, "by": "k", "growth": growth})
    first = claim(deployment)
    note(attrs.evolve(deployment, network=whole, placement={**ON, "far": "h3"}), attrs.evolve(first, grown=whole))
    again = claim(deployment).grown
    assert again is not None
    assert again.operators == whole.operators


def query(folder: Place, unit: Unit, origins: tuple[str, ...], inputs: tuple[str, ...], *logs: str) -> Query:
    """Return a query as the compiler would describe it, without its frame."""
    ways = tuple(LogExit(name, "_e0", (), (0,), False, False) for name in logs)
    known = tuple(Origin(name, True, 0) for name in origins)
    spec = WriterSpec(folder, unit.name, known, ways, (), (), {}, (), timed=True, knobs=None)
    frame: Any = None
    return stamped(Query(unit.fragment, frame, spec, (), (), inputs), unit, 1)


def run_batch(made: Query, number: int, lines: list[str]) -> None:
    """Leave what a batch leaves."""
    spec, folder = made.spec, made.spec.folder
    head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1})
    (spec.checkpoint / "offsets" / str(number)).replace("\n".join(["v1", head, *lines]).encode())
    (spec.checkpoint / "commits" / str(number)).replace(b"v1\n{}")
    (spec.checkpoint / "sources" / "0" / "seen").replace(b"files")
    manifest = {
        "counts": {}, "rows": {way.writer: [way.base + number, 1] for way in spec.logs}, "visible": 1.0,
        "frontiers": {origin.name: 10 + place for place, origin in enumerate(spec.origins)}, "latest": 12, "speed": [],
    }  # fmt: skip
    manifest_of(folder, made.name, number).replace(json.dumps(manifest).encode())
    report = {"start": 0.0, "duration": 1.0, "rows": 1, "counts": {}, "late": {}, "frontiers": {}}
    report_of(folder, made.name, number).replace(json.dumps(report).encode())
    for way in spec.logs:
        (folder / "logs" / way.writer / f"{way.base + number:012d}.arrow").replace(b"")


def test_a_query_goes_on_behind_a_border(tmp_path: Path) -> None:
    """A query of another shape reads on from where the old one was, writes on in its logs, and knows its frontiers."""
    folder = Place(str(tmp_path))
    unit = Unit.new(Fragment("a", "h1", ("a", "b")))
    old = query(folder, unit, ("one", "two"), ("one", "two", "one"), "a")
    for number in range(3):
        run_batch(old, number, [f'{{"x": {number}}}', '{"y": 5}', f'{{"x": {number}}}'])
    new = query(folder, unit, ("two", "one"), ("two", "one"), "a", "b")
    went = go_on(new, unit, [Border.of(old)])
    # Readers of the log that begins hear of the frontier before any row comes.
    assert went.bases == {"b": -2}
    log = DirectoryLog(folder / "logs" / "b")
    assert (log.marked(0), log.length(), log.settled()) == ((11, 12), 1, 1)
    then = stamped(new, went, 2)
    assert then.spec.checkpoint.name.startswith("a@2-")
    assert begun_and_ended(then.spec.checkpoint) == (2, 2)
    assert offsets(then.spec.checkpoint, 2)[1:] == [{"y": 5}, {"x": 2}]
    assert (then.spec.checkpoint / "sources" / "1" / "seen").read() == b"files"
    manifest = json.loads(manifest_of(folder, "a", 2).read())
    assert known(then.spec, 2) == ({"0": 11, "1": 10}, 12)
    assert manifest["rows"] == {"a": [2, 1]}
    assert {way.writer: way.base + 3 for way in then.spec.logs} == {"a": 3, "b": 1}
    assert DirectoryLog(folder / "logs" / "a").length() == 3


def test_a_border_that_a_kill_left_changes_nothing(tmp_path: Path) -> None:
    """Killed before anybody knew of its new shape, a query goes on with its frontiers, and does its next batch."""
    folder = Place(str(tmp_path))
    unit = Unit.new(Fragment("a", "h1", ("a", "b")))
    old = query(folder, unit, ("one", "two"), ("one", "two"), "a")
    run_batch(old, 0, ["{}", "{}"])
    go_on(query(folder, unit, ("two",), ("two",), "a"), unit, [Border.of(old)])
    recount(old)
    assert known(old.spec, 0) == ({"0": 10, "1": 11}, 12)
    other = query(folder, Unit.new(Fragment("b", "h1", ("b",))), ("a",), ("a",))
    for number in range(2):
        run_batch(other, number, ["{}"])
    # The border has the number of the batch that comes next.
    go_on(query(folder, unit, ("one", "two"), ("one", "two")), unit, [Border.of(old), Border.of(other)])
    assert (folder / "batches" / "a").numbers() == [0, 1]
    recount(old)
    assert (folder / "batches" / "a").numbers() == [0]


def test_a_cut_off_batch_is_no_border(tmp_path: Path) -> None:
    """A query whose last batch left something and was not ended must end it before it can change its shape."""
    folder = Place(str(tmp_path))
    unit = Unit.new(Fragment("a", "h1", ("a",)))
    made = query(folder, unit, ("one",), ("one",), "a")
    run_batch(made, 0, ["{}"])
    (folder / "logs" / "a" / f"{1:012d}.arrow").replace(b"")
    with pytest.raises(EngineError, match="has not stopped at the end of a batch"):
        Border.of(made)


def test_a_batch_that_topics_hold_is_no_border(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a batch has left in a topic and nobody has noted is found there."""
    folder = Place(str(tmp_path))
    made = query(folder, Unit.new(Fragment("a", "h1", ("a",))), ("one",), ("one",), "a")
    run_batch(made, 0, ["{}"])
    for length in (1, 2):
        monkeypatch.setattr(reshape, "log_of", lambda *_, length=length: SimpleNamespace(length=lambda: length))
        if length == 1:
            assert Border.of(made).batch == 0
        else:
            with pytest.raises(EngineError, match="has not stopped at the end of a batch"):
                Border.of(made)


def test_a_batch_that_failed_while_it_was_sent_is_no_border(tmp_path: Path) -> None:
    """A sink's topic may hold a part of it: the query does the rest before it changes its shape."""
    folder = Place(str(tmp_path))
    made = query(folder, Unit.new(Fragment("a", "h1", ("a",))), ("one",), ("one",))
    sink = SinkExit("out", (0, 1), (), "kafka", {"topic": "out"}, "")
    made = attrs.evolve(made, spec=dataclasses.replace(made.spec, sinks=(sink,)))
    run_batch(made, 0, ["{}"])
    for batch, error in ((0, "KafkaException: x"), (1, "Fenced: x"), (1, "KafkaException: x")):
        error_of(folder, "a").replace(json.dumps({"generation": 1, "batch": batch, "error": error}).encode())
        if batch == 0 or error.startswith("Fenced"):
            assert Border.of(made).batch == 0
        else:
            with pytest.raises(EngineError, match="has not stopped at the end of a batch"):
                Border.of(made)


def test_a_batch_without_its_report_is_no_border(tmp_path: Path) -> None:
    """Where Spark counts, a query stays as it is until its last batch has been counted."""
    folder = Place(str(tmp_path))
    made = query(folder, Unit.new(Fragment("a", "h1", ("a",))), ("one",), ("one",), "a")
    made = attrs.evolve(made, spec=dataclasses.replace(made.spec, observations={"p": {"one->a": (0, None)}}))
    run_batch(made, 0, ["{}"])
    assert Border.of(made).batch == 0
    report_of(folder, "a", 0).remove()
    with pytest.raises(EngineError, match="what its last batch counted is not known"):
        Border.of(made)


def test_branches_at_different_positions_are_no_border(tmp_path: Path) -> None:
    """A query that has read one input up to two places cannot go on from one of them."""
    folder = Place(str(tmp_path))
    made = query(folder, Unit.new(Fragment("a", "h1", ("a",))), ("one",), ("one", "one"))
    run_batch(made, 0, ['{"x": 1}', '{"x": 2}'])
    with pytest.raises(EngineError, match="a has come to different positions in 'one'"):
        Border.of(made)


def test_readers_begin_where_rows_are_noted(tmp_path: Path) -> None:
    """A batch that a log has and no manifest tells of is neither counted nor passed over."""
    folder = Place(str(tmp_path))
    made = query(folder, Unit.new(Fragment("a", "h1", ("a",))), ("one",), ("one",), "a")
    for number in range(3):
        run_batch(made, number, ["{}"])
    (folder / "logs" / "a" / f"{3:012d}.arrow").replace(b"")
    assert noted_of_logs(folder) == {"a": (3, 3)}
    write_history(folder, History(upto={"a": 2}, rows={"a": 7, "b": 5}))
    assert noted_of_logs(folder) == {"a": (8, 3), "b": (5, None)}


def test_two_positions_do_not_join(tmp_path: Path) -> None:
    """Queries that have come to different positions in one input cannot go on as one."""
    folder = Place(str(tmp_path))
    parts = [Unit.new(Fragment(name, "h1", (name,))) for name in "ab"]
    queries = [query(folder, unit, ("one",), ("one",)) for unit in parts]
    for number, each in enumerate(queries):
        run_batch(each, 0, [f'{{"x": {number}}}'])
    both = Unit.new(Fragment("a", "h1", ("a", "b")))
    with pytest.raises(EngineError, match="different positions in 'one'"):
        go_on(query(folder, both, ("one",), ("one",)), both, [Border.of(each) for each in queries])


def test_two_queries_go_on_as_one(tmp_path: Path) -> None:
    """A query of a writer and its reader reads on where the writer was, and begins anew in the reader's log."""
    folder = Place(str(tmp_path))
    writer, reader = (Unit.new(Fragment(name, "h1", (name,))) for name in "ab")
    first = query(folder, writer, ("one",), ("one", RECALLED), "a")
    second = query(folder, reader, ("a", "far"), ("a", "far", RECALLED), "b")
    for number in range(3):
        run_batch(first, number, [f'{{"x": {number}}}', '{"logOffset": 1}'])
    for number in range(5):
        run_batch(second, number, ['{"log": "a", "batch": 3}', f'{{"y": {number}}}', '{"logOffset": 7}'])
    for name, stream, kept in (("a", "one->a", 400), ("b", "a->b", 700)):
        content = {"limits": {stream: kept}, "windows": {}}
        (folder / KNOBS / name / f"{2:012d}.json").replace(json.dumps(content).encode())
    both = Unit.new(Fragment("a", "h1", ("a", "b")))
    made = query(folder, both, ("one", "far"), ("far", "one", RECALLED), "b")
    went = go_on(made, both, [Border.of(first), Border.of(second)])
    then = stamped(made, went, 2)
    assert begun_and_ended(then.spec.checkpoint) == (4, 4)
    assert offsets(then.spec.checkpoint, 4)[1:] == [{"y": 4}, {"x": 2}, {"logOffset": 1}]
    assert {way.writer: way.base + 5 for way in then.spec.logs} == {"b": 5}
    assert known(then.spec, 4) == ({"0": 10, "1": 11}, 12)
    assert decided_last(folder / KNOBS / "a")["limits"] == {"one->a": 400, "a->b": 700}
    # A kill came before anybody knew of it: the writer goes on in its own numbers.
    recount(first)
    assert (folder / "batches" / "a").numbers() == [0, 1, 2]
    assert (folder / "batches" / "b").numbers() == [0, 1, 2, 3, 4]
