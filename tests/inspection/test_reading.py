"""Reading logs: every form gives the same table, and damage costs what is damaged only."""

from __future__ import annotations

import bz2
import codecs
import json
import tracemalloc
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.inspection import inspect
from penstock.telemetry import QueryLog, Telemetry, read_telemetry
from penstock.telemetry.codecs import blocks
from penstock.telemetry.documents import Documents
from penstock.telemetry.events import offsets
from penstock.telemetry.files import find_logs
from penstock.telemetry.reader import Reader

FORMS = ("plain", "zstd", "zstd in frames", "gz", "lz4", "snappy", "lz4 frame")


def check(log: QueryLog, batches: list[Any]) -> None:
    """Compare a table with what was written."""
    table = log.batches
    assert table.number.tolist() == [batch.number for batch in batches]
    assert table.rows.tolist() == [batch.rows for batch in batches]
    np.testing.assert_allclose(table.start, [round(batch.start, 3) for batch in batches], atol=1e-6)
    np.testing.assert_allclose(table.duration, [batch.seconds for batch in batches], atol=5.1e-4)
    np.testing.assert_allclose(table.lag, [batch.lag for batch in batches])
    np.testing.assert_allclose(table.parts["walCommit"], 0.010)
    assert not table.rows.flags.writeable


@pytest.mark.parametrize("version", ["3.3.4", "3.4.1", "3.5.6", "4.0.1", "4.3.0"])
@pytest.mark.parametrize("form", FORMS)
def test_each_codec_and_version(make: SimpleNamespace, tmp_path: Path, form: str, version: str) -> None:
    """An event log reads alike whichever Spark wrote it and whichever codec packed it."""
    batches = make.paced(lag=lambda number: 10 * number, tasks=(0.1, 0.2))
    path = tmp_path / "app-1"
    path.write_bytes(make.CODECS[form](make.text(make.events(batches, version=version))))
    read = read_telemetry([str(path)])
    assert not read.warnings
    check(read.queries["clicks"], batches)
    assert read.queries["clicks"].batches.tasks.tolist() == [2.0] * len(batches)
    np.testing.assert_allclose(read.queries["clicks"].batches.task_seconds, 0.3)
    assert read.applications["app-1"].version == version
    assert read.applications["app-1"].cores == 4
    assert read.applications["app-1"].task_seconds == pytest.approx(0.3 * len(batches))


def test_byte_order_mark(make: SimpleNamespace, tmp_path: Path) -> None:
    """A mark in front of the first line, as some editors write it, damages nothing."""
    batches = make.paced()
    (tmp_path / "app-1").write_bytes(codecs.BOM_UTF8 + make.text(make.events(batches)))
    read = read_telemetry([str(tmp_path / "app-1")])
    assert not read.warnings
    check(read.queries["clicks"], batches)


def test_rolling_folder(make: SimpleNamespace, tmp_path: Path) -> None:
    """A rolled event log is read in the order of its numbers, and a compacted file stands for those before it."""
    lines = make.events(make.paced(count=40))
    folder = tmp_path / "history" / "eventlog_v2_app-1"
    folder.mkdir(parents=True)
    (folder / "appstatus_app-1.inprogress").touch()
    parts = {"events_1_app-1": lines[:30], "events_2_app-1": lines[30:60], "events_10_app-1": lines[60:]}
    for name, part in parts.items():
        (folder / name).write_bytes(make.text(part))
    (folder / ".events_1_app-1.crc").write_bytes(b"crc\0")
    read = read_telemetry([str(tmp_path / "history")])
    check(read.queries["clicks"], make.paced(count=40))
    assert not read.warnings
    assert not read.skipped
    (folder / "events_2_app-1.compact").write_bytes(make.text([line for line in lines[:60] if "Progress" not in line]))
    kept = read_telemetry([str(folder)]).queries["clicks"].batches
    first = json.loads(next(line for line in lines[60:] if "Progress" in line))["progress"]["batchId"]
    assert kept.number.tolist() == list(range(first, 40))


def test_history_server_folder(make: SimpleNamespace, write: Callable[..., Path], tmp_path: Path) -> None:
    """A folder with several applications' logs gives all their queries, each with its application."""
    write(make.paced("clicks"), "logs/app-1")
    write(make.paced("orders"), "logs/deep/app-2.inprogress", app="app-2")
    (tmp_path / "logs" / "notes.txt").write_text("not a log\n")
    read = read_telemetry([str(tmp_path / "logs")])
    assert {name: log.app for name, log in read.queries.items()} == {"clicks": "app-1", "orders": "app-2"}
    assert len(read.skipped) == 1
    assert "notes.txt" in read.skipped[0]


def test_linked_folders_are_read_once(make: SimpleNamespace, write: Callable[..., Path], tmp_path: Path) -> None:
    """A folder behind a link is read as if it lay there, and links that lead round in circles come to an end."""
    write(make.paced("clicks"), "logs/day/app-1")
    write(make.paced("orders"), "elsewhere/app-2", app="app-2")
    for link, target in (("logs/a", "elsewhere"), ("logs/b", "logs/day"), ("logs/day/up", "logs"), ("elsewhere/c", "")):
        (tmp_path / link).symlink_to(tmp_path / target)
    read = read_telemetry([str(tmp_path / "logs")])
    assert {name: log.app for name, log in read.queries.items()} == {"clicks": "app-1", "orders": "app-2"}
    assert [log.name for log in find_logs([str(tmp_path / "logs")])].count("app-1") == 1


def test_a_clock_that_is_set_back_is_told(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """Batches that begin before those before them give a warning, unless another run has them."""
    batches = make.paced()
    back = [attrs.evolve(batch, start=batch.start - 3600 * (batch.number >= 30)) for batch in batches]
    (warning,) = read_telemetry([str(write(back))]).warnings
    assert warning.startswith("app-1: the clock was set back by ")
    assert warning.endswith("while clicks ran; its rates may be wrong")
    other = [attrs.evolve(batch, run=int(batch.number >= 30)) for batch in back]
    assert read_telemetry([str(write(other))]).warnings == ()


def test_databricks_folder(make: SimpleNamespace, tmp_path: Path) -> None:
    """A log that Databricks rolled is one log, with the file that is still written at its end."""
    lines = make.events(make.paced())
    names = ("eventlog-2026-01-01--00-10.gz", "eventlog-2026-01-01--00-20.gz", "eventlog")
    for number, name in enumerate(names):
        part = make.text(lines[number * 70 : (number + 1) * 70 if number < 2 else None])
        (tmp_path / name).write_bytes(make.CODECS["gz"](part) if name.endswith("gz") else part)
    check(read_telemetry([str(tmp_path)]).queries["clicks"], make.paced())


@pytest.mark.parametrize("text_offsets", [True, False])
def test_progress_lines(make: SimpleNamespace, tmp_path: Path, text_offsets: bool) -> None:
    """JSON lines of progress give the same batches, without what only an event log knows."""
    batches = make.paced(lag=7)
    path = tmp_path / "progress.jsonl"
    reports = [json.dumps(make.progress(batch, text_offsets=text_offsets)) for batch in batches]
    path.write_bytes(make.text(reports))
    read = read_telemetry([str(path)])
    check(read.queries["clicks"], batches)
    assert np.isnan(read.queries["clicks"].batches.tasks).all()
    assert read.queries["clicks"].app == "progress.jsonl"


def test_told_twice_counts_once(make: SimpleNamespace, write: Callable[..., Path], tmp_path: Path) -> None:
    """A batch in two files counts once, and the telling with its tasks is kept."""
    batches = make.paced(tasks=(0.1, 0.3))
    write(batches)
    (tmp_path / "progress.jsonl").write_bytes(make.text([json.dumps(make.progress(batch)) for batch in batches]))
    read = read_telemetry([str(tmp_path / "progress.jsonl"), str(tmp_path / "app-1")])
    check(read.queries["clicks"], batches)
    assert read.queries["clicks"].batches.tasks.tolist() == [2.0] * len(batches)


def logged(reports: list[dict[str, Any]], stamp: str) -> str:
    """Return a driver's log with progress among its other lines, as Spark writes it."""
    lines = ["Ivy Default Cache set to: /root", *[f"{stamp} INFO SparkContext: {{starts}}"] * 11_000]
    for report in reports:
        shown = json.dumps(report, indent=2, separators=(",", " : "))
        lines += [f"{stamp} INFO MicroBatchExecution: Streaming query made progress: {shown}", f"{stamp} WARN X: {{"]
        lines += ["java.lang.Exception: said twice", "\tat org.apache.spark.Some.where(Some.scala:1)"]
    return "\n".join(lines)


PROGRESS = {
    "array": json.dumps,
    "pretty array": lambda reports: json.dumps(reports, indent=2),
    "no indent": lambda reports: json.dumps(reports, indent=0),
    "pretty objects": lambda reports: "\n".join(json.dumps(report, indent=2) for report in reports),
    "objects behind each other": lambda reports: "".join(json.dumps(report) for report in reports),
    "driver log": lambda reports: logged(reports, "26/01/01 10:00:00"),
    "driver log with brackets": lambda reports: logged(reports, "[2026-01-01 10:00:00,123]"),
    "driver log on one line": lambda reports: "\n".join(
        f"26/01/01 10:00:00 INFO MicroBatchExecution: Streaming query made progress: {json.dumps(report)}"
        for report in reports
    ),
}
"""Progress in the forms in which people have it."""


@pytest.mark.parametrize("form", PROGRESS)
@pytest.mark.parametrize("block", [997, 2**22])
def test_progress_in_each_form(
    make: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, block: int
) -> None:
    """Progress reads alike whether it is an array, pretty-printed, or among the lines of a driver's log."""
    monkeypatch.setattr("penstock.telemetry.reader.BLOCK", block)
    batches = make.paced(lag=7)
    path = tmp_path / "progress"
    path.write_text(PROGRESS[form]([{**make.progress(batch), "note": '}, {"id": \\ {['} for batch in batches]))
    read = read_telemetry([str(path)])
    assert not read.warnings
    check(read.queries["clicks"], batches)


def test_an_array_may_be_longer_than_a_line(
    make: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An array on one line is read object by object, however long it is."""
    monkeypatch.setattr("penstock.telemetry.reader.LONGEST", 10_000)
    monkeypatch.setattr("penstock.telemetry.reader.BLOCK", 4_000)
    batches = make.paced(lag=7)
    (tmp_path / "a").write_text(json.dumps([make.progress(batch) for batch in batches]))
    check(read_telemetry([str(tmp_path / "a")]).queries["clicks"], batches)


def test_a_pretty_object_that_is_cut_off_costs_itself_only(make: SimpleNamespace, tmp_path: Path) -> None:
    """Of pretty-printed progress in which some lost its end, the others are read, with a warning."""
    batches = make.paced()
    texts = [json.dumps(make.progress(batch), indent=2) for batch in batches]
    log = logged([make.progress(batch) for batch in batches], "26/01/01 10:00:00")
    at = log.rindex('"walCommit"')
    for text in ("\n".join([*texts, texts[0][:300]]), log[:at] + "\n26/01/01 INFO X: y\n" + log[log.rindex("WARN") :]):
        (tmp_path / "cut").write_text(text)
        read = read_telemetry([str(tmp_path / "cut")])
        assert len(read.queries["clicks"].batches) >= len(batches) - 1
        assert len(read.warnings) == 1


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), -float("inf")])
def test_python_writes_nan(make: SimpleNamespace, tmp_path: Path, rate: float) -> None:
    """A rate that is NaN or infinite, as Python's json writes it, damages nothing."""
    batches = make.paced()
    (tmp_path / "p").write_text(
        "\n".join(json.dumps({**make.progress(batch), "inputRowsPerSecond": rate}) for batch in batches)
    )
    check(read_telemetry([str(tmp_path / "p")]).queries["clicks"], batches)


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (repr, "expected JSON, got Python's print"),
        (lambda report: repr([report]), "expected JSON, got Python's print"),
        (lambda report: json.dumps({"type": "else"}), "expected progress of a streaming query as JSON"),
        (lambda report: json.dumps([1, 2]), "expected progress of a streaming query as JSON"),
    ],
)
def test_what_is_no_progress_says_so(
    make: SimpleNamespace, tmp_path: Path, write: Callable[[Any], str], says: str
) -> None:
    """What begins like JSON and is no progress is refused for that, without talk of event logs, and named once."""
    (tmp_path / "arr.json").write_text(write(make.progress(make.paced(count=1)[0])) + "\n")
    with pytest.raises(InputError, match=says) as caught:
        read_telemetry([str(tmp_path / "arr.json")])
    assert "eventLog" not in str(caught.value)
    assert "json.dumps" in str(caught.value)
    assert str(caught.value).count("arr.json") == 1


def test_files_without_batches_are_named_once(tmp_path: Path) -> None:
    """Several files in which nothing is are each named once, with why; a driver's log is known for one."""
    (tmp_path / "a").write_text("26/01/01 10:00:00 INFO X: y\n")
    (tmp_path / "b").write_text("1,2\n")
    with pytest.raises(InputError, match="made progress") as caught:
        read_telemetry([str(tmp_path / name) for name in "ab"])
    assert str(caught.value).startswith("nothing could be read: a: it is a log")
    assert str(caught.value).count("b: it is neither") == 1


def test_same_name_at_the_same_time(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """Two queries of one name that run at the same time are two, and are told apart by their identifiers."""
    one, two = make.paced("clicks"), make.paced("others")
    lines = [line.replace('"name":"others"', '"name":"clicks"') for line in make.events([*one, *two])]
    path = write(one)
    path.write_bytes(make.text(lines))
    names = list(read_telemetry([str(path)]).queries)
    assert names == sorted(f"clicks-{make.identifier(word)[:8]}" for word in ("clicks", "others"))


def test_new_checkpoint_is_the_same_query(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """A query that is started again under its name on a new checkpoint is one query with two identifiers."""
    one = make.paced("clicks", count=20)
    two = make.paced("later", count=20, begin=make.EPOCH + 100)
    path = write(one)
    lines = [line.replace('"name":"later"', '"name":"clicks"') for line in make.events([*one, *two])]
    lines = [line.replace("Subscribe[later]", "Subscribe[clicks]") for line in lines]
    path.write_bytes(make.text(lines))
    log = read_telemetry([str(path)]).queries["clicks"]
    assert len(log.ids) == 2
    assert len(log.batches) == 40
    assert log.batches.run.tolist() == [0] * 20 + [1] * 20


def test_deployments_side_by_side_stay_apart(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """Two queries of one name that ran at the same time, and again on new checkpoints, are not taken for each other."""
    for number, word in enumerate(("east", "west", "east-later", "west-later")):
        path = write(make.paced(count=20, begin=make.EPOCH + 5 * number + 86_400 * (number // 2), run=number), word)
        lines = path.read_text().replace(make.identifier("clicks"), make.identifier(word))
        path.write_text(lines)
    found = read_telemetry([str(path.parent)]).queries
    assert sorted(log.ids for log in found.values()) == sorted(
        (make.identifier(word),) for word in ("east", "west", "east-later", "west-later")
    )


def test_a_checkpoint_that_was_gone_back_to(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """A query on a new checkpoint while its old one rested is the same query, unless both ran at once some day."""
    runs = [("old", 0), ("new", 1000), ("old", 2000), ("new", 2010)]
    for many, queries in ((3, 1), (4, 2)):
        for number, (word, begin) in enumerate(runs[:many]):
            path = write(make.paced(count=20, begin=make.EPOCH + begin, run=number), f"app-{number}")
            path.write_text(path.read_text().replace(make.identifier("clicks"), make.identifier(word)))
        found = read_telemetry([str(path.parent)]).queries
        assert len(found) == queries
        assert sum(len(log.batches) for log in found.values()) == 20 * many


def test_idle_reports_are_no_batches(make: SimpleNamespace, tmp_path: Path) -> None:
    """Reports of a query that only looked for data are no batches."""
    reports = [make.progress(batch) for batch in make.paced(count=10)]
    idle = {**reports[-1], "batchId": 10, "durationMs": {"latestOffset": 3, "triggerExecution": 3}}
    idle["sources"] = [{**idle["sources"][0], "numInputRows": 0}]
    (tmp_path / "p").write_bytes(make.text(json.dumps(report) for report in [*reports, idle, idle]))
    assert len(read_telemetry([str(tmp_path / "p")]).queries["clicks"].batches) == 10


@pytest.mark.parametrize("form", FORMS)
def test_most_of_a_log_that_is_cut_off_is_read(make: SimpleNamespace, tmp_path: Path, form: str) -> None:
    """Of a long log that lacks its last tenth, in whatever form, most batches are read."""
    data = make.CODECS[form](make.text(make.events(make.paced(count=3000))))
    (tmp_path / "cut").write_bytes(data[: int(0.9 * len(data))])
    assert len(read_telemetry([str(tmp_path / "cut")]).queries["clicks"].batches) > 1000


@given(share=st.floats(0.05, 0.999), form=st.sampled_from(FORMS))
def test_cut_off_anywhere(make: SimpleNamespace, tmp_path: Path, share: float, form: str) -> None:
    """Of a log that is cut off anywhere, the batches before the cut are read, and nothing is made up."""
    batches = make.paced(count=30)
    data = make.CODECS[form](make.text(make.events(batches)))
    path = tmp_path / "cut"
    path.write_bytes(data[: int(share * len(data))])
    try:
        table = read_telemetry([str(path)]).queries["clicks"].batches
    except InputError:
        assert share < 0.95 or form != "plain"
        return
    assert table.number.tolist() == list(range(len(table)))
    assert table.rows.tolist() == [batch.rows for batch in batches[: len(table)]]
    if form == "plain":
        whole = data[: int(share * len(data))].count(b'QueryProgressEvent","progress"')
        assert len(table) >= whole - 1


@given(noise=st.lists(st.binary(max_size=200), max_size=20), data=st.data())
def test_damage_costs_only_what_is_damaged(
    make: SimpleNamespace, tmp_path: Path, noise: list[bytes], data: st.DataObject
) -> None:
    """Lines of anything among the events cost nothing but a warning."""
    batches = make.paced(count=20)
    lines = [line.encode() for line in make.events(batches)]
    for junk in noise:
        lines.insert(data.draw(st.integers(0, len(lines))), junk.replace(b"\n", b"?"))
    path = tmp_path / "noisy"
    path.write_bytes(b"\xff" + b"\n".join([b"", *lines, b""]))
    read = read_telemetry([str(path)])
    check(read.queries["clicks"], batches)
    assert len(read.warnings) == 1


@given(content=st.binary(max_size=2000))
def test_any_bytes_are_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    """Bytes that are no log are refused by an InputError, whatever they are."""
    path = tmp_path / "bytes"
    path.write_bytes(content)
    with pytest.raises(InputError, match="nothing could be read"):
        read_telemetry([str(path)])


@pytest.mark.parametrize("magic", [b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"LZ4Block", b"\x82SNAPPY\x00", b"ZV", b"BZh"])
@given(rest=st.binary(max_size=300))
def test_broken_streams_are_refused(tmp_path: Path, magic: bytes, rest: bytes) -> None:
    """A compressed file of nonsense is refused, not a trace."""
    path = tmp_path / "broken"
    path.write_bytes(magic + rest)
    with pytest.raises(InputError):
        read_telemetry([str(path)])


def test_huge_line_is_passed_over(make: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of endless length is passed over without being held in memory."""
    monkeypatch.setattr("penstock.telemetry.reader.LONGEST", 10_000)
    batches = make.paced(count=10)
    lines = make.events(batches)
    path = tmp_path / "long"
    path.write_bytes(make.text([*lines[:10], "x" * 5_000_000, *lines[10:]]))
    read: Telemetry = read_telemetry([str(path)])
    check(read.queries["clicks"], batches)
    assert "1 of" in read.warnings[0]


@pytest.mark.parametrize("form", ["bz2", "gz", "zstd", "lz4 frame"])
def test_little_that_becomes_much_is_read_in_parts(make: SimpleNamespace, form: str) -> None:
    """A small file that unpacks to a large one is never held as a whole, and nothing of it is lost."""
    data = bytes(9_000_000) + np.random.default_rng(1).bytes(100_000) + bytes(1_000_000)
    packed = 2 * {"bz2": bz2.compress, **make.CODECS}[form](data)
    found = list(blocks(BytesIO(packed), 2**18))
    assert b"".join(found) == 2 * data
    assert max(map(len, found)) == 2**18


def test_an_only_line_that_is_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of one endless line is not called empty."""
    monkeypatch.setattr("penstock.telemetry.reader.LONGEST", 2**20)
    (tmp_path / "log").write_bytes(b"x" * 5_000_000)
    with pytest.raises(InputError, match="its only line is longer than 1 MB"):
        read_telemetry([str(tmp_path / "log")])


def test_an_object_of_many_lines_is_kept_as_its_bytes() -> None:
    """What is open takes about the memory of its text, however many lines that has."""
    documents = Documents(2**20)
    tracemalloc.start()
    for _ in range(100_000):
        documents.take(b"{ ")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert documents.depth == 100_000
    assert most < 2**20


DEEP = "[" * 5000 + "]" * 5000


@pytest.mark.parametrize(
    "line",
    [
        f'{{"Event":"SparkListenerLogStart","x":{DEEP}}}',
        f'{{"id":"a","runId":"b","timestamp":"2026-01-01T00:00:00Z","x":{DEEP}}}',
    ],
)
def test_a_line_that_is_nested_too_deeply_is_damage(make: SimpleNamespace, tmp_path: Path, line: str) -> None:
    """A line of brackets within brackets costs nothing but itself."""
    batches = make.paced(count=10)
    lines = make.events(batches)
    (tmp_path / "deep").write_bytes(make.text([*lines[:10], line, *lines[10:]]))
    read = read_telemetry([str(tmp_path / "deep")])
    check(read.queries["clicks"], batches)
    assert "1 of" in read.warnings[0]


@pytest.mark.parametrize("offset", [DEEP, json.dumps(DEEP), '{"a":' * 900 + "1" + "}" * 900])
def test_an_offset_that_is_nested_too_deeply_is_none(offset: str) -> None:
    """How far an offset is that nobody can take apart is not known."""
    assert offsets(msgspec.Raw(offset.encode())) is None


@pytest.mark.parametrize("when", ["2026-13-01T00:00:00Z", "soon"])
def test_a_start_at_no_time_is_damage(make: SimpleNamespace, tmp_path: Path, when: str) -> None:
    """A query of which only its start is told, at a time that is none, is no query; others are read."""
    batches = make.paced(count=10)
    odd = {"Event": f"{make.STREAMING}QueryStartedEvent", "id": "x", "runId": "y", "name": "odd", "timestamp": when}
    (tmp_path / "log").write_bytes(make.text([json.dumps(odd, separators=(",", ":")), *make.events(batches)]))
    read = read_telemetry([str(tmp_path / "log")])
    check(read.queries["clicks"], batches)
    assert list(read.queries) == ["clicks"]
    assert "1 of" in read.warnings[0]


def test_a_large_file_of_something_else_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in which no line is an event is not read to its end."""
    monkeypatch.setattr("penstock.telemetry.reader.BLOCK", 10_000)
    path = tmp_path / "data.csv"
    path.write_text("1,2,3\n" * 500_000)
    (log,) = find_logs([str(path)])
    reader = Reader(log, lambda _, __: None)
    assert not list(reader)
    assert reader.lines < 20_000
    assert "neither" in reader.nothing()[0]


@pytest.mark.parametrize("bad", ["57969-03-12T04:00:00.000Z", "soon"])
def test_odd_event_times_cost_nothing_else(make: SimpleNamespace, tmp_path: Path, bad: str) -> None:
    """A batch whose youngest event time is no time counts, and only that time is unknown; so if all are like this."""
    batches = make.paced()
    for every in (2, 1):
        reports = [make.progress(batch) for batch in batches]
        for report in reports:
            report["eventTime"] = {"max": report["timestamp"] if report["batchId"] % every else bad}
        (tmp_path / "p").write_text("\n".join(map(json.dumps, reports)))
        read = read_telemetry([str(tmp_path / "p")])
        assert not read.warnings
        check(read.queries["clicks"], batches)
        assert np.isnan(read.queries["clicks"].batches.event_time).mean() == 1 / every


@pytest.mark.parametrize("bad", ["0001-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z", "57969-03-12T04:00:00.000Z"])
@pytest.mark.parametrize("place", [0, 7])
def test_a_batch_at_no_time_is_damage(make: SimpleNamespace, tmp_path: Path, bad: str, place: int) -> None:
    """A batch that began at a time which no clock shows is left out as damaged, wherever it stands."""
    batches = make.paced()
    reports = [make.progress(batch) for batch in batches]
    reports[place]["timestamp"] = bad
    (tmp_path / "p").write_text("\n".join(map(json.dumps, reports)))
    read = read_telemetry([str(tmp_path / "p")])
    check(read.queries["clicks"], [*batches[:place], *batches[place + 1 :]])
    assert read.warnings == (f"p: 1 of 60 lines are damaged, the first is {place + 1}",)


@pytest.mark.parametrize("text_offsets", [True, False])
def test_rows_behind_are_of_all_partitions(make: SimpleNamespace, tmp_path: Path, text_offsets: bool) -> None:
    """Kafka's mean over the partitions counts once for each partition, of however many topics."""
    reports = [make.progress(batch) for batch in make.paced(count=20)]
    for report in reports:
        (source,) = report["sources"]
        end = {"t": {"0": 1, "1": 2}, "u": {"0": 3}, "v": {"0": 4, "1": 5}}
        source.update(latestOffset=None, metrics={"avgOffsetsBehindLatest": "7.0"})
        source.update(startOffset=None, endOffset=json.dumps(end) if text_offsets else end)
    (tmp_path / "p").write_text("\n".join(map(json.dumps, reports)))
    assert read_telemetry([str(tmp_path / "p")]).queries["clicks"].batches.lag.tolist() == [35.0] * 20


@pytest.mark.parametrize("key", ["batchId", "numInputRows", "commitTimeMs", "numRowsTotal", "endOffset"])
def test_numbers_that_are_too_large(make: SimpleNamespace, tmp_path: Path, key: str) -> None:
    """A number that nothing can hold costs its batch, or the offset that it is, and is no traceback."""
    batches = make.paced(count=20, state=100)
    reports = [make.progress(batch) for batch in batches]
    hit = {"batchId": reports[7], "numInputRows": reports[7]["sources"][0], "endOffset": reports[7]["sources"][0]}
    hit.get(key, reports[7]["stateOperators"][0])[key] = 10**400
    (tmp_path / "p").write_text("\n".join(map(json.dumps, reports)))
    read = read_telemetry([str(tmp_path / "p")])
    kept = batches if key == "endOffset" else [batch for batch in batches if batch.number != 7]
    table = read.queries["clicks"].batches
    assert table.number.tolist() == [batch.number for batch in kept]
    assert table.rows.tolist() == [batch.rows for batch in kept]
    assert len(read.warnings) == (key != "endOffset")


def test_a_query_whose_reports_are_all_damaged(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """A query of which no batch can be read is passed over with why, and the others are read."""
    path = write([*make.paced("clicks"), *make.paced("views")])
    lines = path.read_text().splitlines()
    broken = [
        line.replace('"batchId":', '"batchId":1000000000000000000000') if '"name":"views"' in line else line
        for line in lines
    ]
    path.write_bytes(make.text(broken))
    read = read_telemetry([str(path)])
    assert set(read.queries) == {"clicks"}
    assert read.skipped == (
        "query 'views' of app-1: it began no batch, or has the continuous trigger, which reports none",
    )
    assert len(read.warnings) == 1


def test_attempts_of_an_application_add_up(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """Logs of an application's attempts add up; of two that tell of the same time, one counts."""
    one = make.paced(count=100, tasks=(0.2, 0.2))
    two = make.paced(count=100, tasks=(0.2, 0.2), begin=make.EPOCH + 600, run=1)
    paths = [write(batches, name, app="app-1") for batches, name in ((two, "b"), (one, "c"), (two, "a"))]
    application = read_telemetry(list(map(str, paths))).applications["app-1"]
    assert application.task_seconds == pytest.approx(2 * 100 * 0.4)
    assert application.changes[:, 1].tolist() == [4, 4]
    assert application.cores == 4
    assert application.attempts == (make.EPOCH - 5, make.EPOCH + 595)
    found = inspect(read_telemetry(list(map(str, paths))))
    assert {finding.kind for finding in found.findings} == {"restart"}
    assert found.document()["apps"]["app-1"]["busy"] == pytest.approx(80 / (4 * 803.6), rel=0.01)


def test_logs_of_one_name_are_applications_of_their_own(make: SimpleNamespace, tmp_path: Path) -> None:
    """Logs that do not state an application are one each, named by as much of their path as tells them apart; parts of
    one that was rolled have one query.
    """
    drivers = {"a/driver-1": "clicks", "a/driver-2": "orders", "b/driver-2": "views"}
    for folder, name in drivers.items():
        (tmp_path / folder).mkdir(parents=True)
        lines = [json.dumps(make.progress(batch)) for batch in make.paced(name)]
        (tmp_path / folder / "stderr.1").write_bytes(make.text(lines[:40]))
        (tmp_path / folder / "stderr").write_bytes(make.text(lines[40:]))
    found = inspect(read_telemetry([str(tmp_path / "a")]))
    assert {name: query.log.app for name, query in found.queries.items()} == {
        "clicks": "driver-1/stderr", "orders": "driver-2/stderr",
    }  # fmt: skip
    assert list(found.applications) == ["driver-1/stderr", "driver-2/stderr"]
    read = read_telemetry([str(tmp_path / folder) for folder in drivers])
    assert {name: log.app for name, log in read.queries.items()} == {
        name: f"{folder}/stderr" for folder, name in drivers.items()
    }
    for name, log in read.queries.items():
        check(log, make.paced(name))


def test_logs_that_state_one_application_are_one(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """Whatever folders they lie in, logs of one stated application are joined."""
    one, two = write(make.paced("clicks"), "a/log"), write(make.paced("orders"), "b/log")
    assert list(read_telemetry([str(one), str(two)]).applications) == ["app-1"]


def test_order_of_paths_does_not_matter(make: SimpleNamespace, write: Callable[..., Path]) -> None:
    """The same logs in another order give the same tables."""
    paths = [
        str(write(make.paced(name, count=20), f"app-{name}", app=f"app-{name}"))
        for name in ("clicks", "orders", "views")
    ]
    one, other = read_telemetry(paths), read_telemetry(paths[::-1])
    assert list(one.queries) == list(other.queries)
    assert list(one.applications) == list(other.applications)


def test_no_such_path(tmp_path: Path) -> None:
    """A path that does not exist is refused by name."""
    with pytest.raises(InputError, match="no such file"):
        read_telemetry([str(tmp_path / "missing")])
