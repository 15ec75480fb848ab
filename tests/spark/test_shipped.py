"""What runs on the hosts beside the queries: places, identities, python steps, and who may deliver."""

from __future__ import annotations

import copy
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.run.reports import short
from penstock.spark.run.runner import Runner
from penstock.spark.shipped.gate import Fenced, check, close, committing, owner_of, take_over
from penstock.spark.shipped.identity import unique
from penstock.spark.shipped.place import Place, RemotePlace, absolute, place_of, scheme_of
from penstock.spark.shipped.python_step import StepError, wrap_python


@pytest.mark.parametrize(
    ("uri", "want"),
    [
        ("/data/out", "file:///data/out"),
        ("file:///data/out", "file:///data/out"),
        ("file:/data/out", "file:///data/out"),
        ("file:///data/with blank", "file:///data/with blank"),
        ("s3a://bucket/out", "s3a://bucket/out"),
        ("abfss://box@account.dfs.core.windows.net/out", "abfss://box@account.dfs.core.windows.net/out"),
    ],
)
def test_paths_and_uris_reach_spark_as_they_are(uri: str, want: str) -> None:
    """A path becomes a file URI, a URI stays."""
    assert absolute(uri) == want


def test_a_relative_path_is_below_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths are those of the process that names them."""
    monkeypatch.chdir(tmp_path)
    assert absolute("out") == f"file://{tmp_path}/out"
    assert isinstance(place_of("s3a://bucket/x"), RemotePlace)
    assert scheme_of("out/a:b") == ""


@pytest.mark.parametrize("uri", ["file://data/in", "file:in", "file:", "FILE://out"])
def test_a_file_uri_names_a_whole_path(uri: str) -> None:
    """No part of a URI is taken for a host and lost, nor for a path that begins in the current folder."""
    for find in (absolute, place_of):
        with pytest.raises(ValueError, match=r"write file:///… with the whole path"):
            find(uri)
    assert absolute("file://localhost/in") == absolute("file:///in") == "file:///in"


def test_a_name_with_a_colon_is_no_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheme is what a slash follows behind the colon."""
    monkeypatch.chdir(tmp_path)
    assert place_of("backup:1").uri == absolute("backup:1") == f"file://{tmp_path}/backup:1"


@pytest.mark.parametrize("name", ["f#2", "a%20b", "größe", "a b", "a?b", "f+o"])
def test_keys_are_taken_as_they_are_written(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of an object store is the same for Hadoop, a folder's child, who reads it by its URI, and on a host."""
    # With an address of its own it asks nobody for the region.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    child = place_of("s3a://bucket/run") / name / "0.json"
    assert child.uri == f"s3a://bucket/run/{name}/0.json"
    for found in (child, place_of(child.uri), copy.copy(child)):
        assert isinstance(found, RemotePlace)
        assert found._at()[1] == f"bucket/run/{name}/0.json"


@pytest.fixture(params=["local", "remote"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A local folder, and one that pyarrow's file systems reach."""
    if request.param == "local":
        yield Place(str(tmp_path / "run"))
        return
    from pyarrow import fs

    remote = RemotePlace("mock:///run")
    remote._known = (fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "run")
    yield remote


def test_files_appear_whole_and_once(place: Place) -> None:
    """A file is published once, replaced at will, listed, moved and removed, on any file system."""
    file = place / "batches" / "0.json"
    assert not file.exists()
    assert file.publish(b"one")
    assert not file.publish(b"two")
    assert file.read() == b"one"
    file.replace(b"three")
    assert file.read() == b"three"
    assert (place / "batches").names() == ["0.json"]
    assert (place / "nothing").names() == []
    file.move(place / "other" / "1.json")
    assert (place / "batches").names() == []
    place.remove()
    assert not (place / "other").exists()
    place.remove()


@given(values=st.lists(st.integers(0, 5), max_size=60), salt=st.none() | st.integers(0, 3))
def test_identities_are_unique_and_do_not_depend_on_order(values: list[int], salt: int | None) -> None:
    """Equal identities become different ones, the same set of them in whatever order rows come."""
    found = unique(pa.array(values, pa.int64()), salt).to_pylist()
    assert len(set(found)) == len(values)
    assert sorted(found) == sorted(unique(pa.array(sorted(values), pa.int64()), salt).to_pylist())
    if salt is None and len(set(values)) == len(values):
        assert found == values


WHOLE = pa.schema(
    [("n", pa.int64()), ("__id", pa.int64()), ("__stimulus", pa.int64()), ("__time", pa.timestamp("us", "UTC"))]
)


def batches(*sizes: int) -> Iterator[pa.RecordBatch]:
    """Return batches of rows whose envelope follows from their number."""
    total = 0
    for size in sizes:
        numbers = list(range(total, total + size))
        times = [10 * n for n in numbers]
        yield pa.RecordBatch.from_pydict({"n": numbers, "__id": numbers, "__stimulus": times, "__time": times}, WHOLE)
        total += size


def through(function: Any, *sizes: int, kept: bool = False, needed: bool = True) -> list[dict[str, Any]]:
    """Return the rows that a function makes of batches, with envelope."""
    run = wrap_python(function, ["n"], pa.schema([("n", pa.int64())]), name="step", kept=kept, needed=needed)
    return [row for batch in run(batches(*sizes)) for row in batch.to_pylist()]


def test_rows_keep_their_own_event_time() -> None:
    """Rows that a step passes on, drops, repeats or sorts have the times of the rows that they come from."""

    def twice_backwards(taken: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in list(taken)[::-1]:
            odd = batch.filter(pa.compute.equal(pa.compute.bit_wise_and(batch.column("n"), 1), 1))
            yield odd.take(pa.array(range(odd.num_rows))[::-1])
            yield odd

    rows = through(twice_backwards, 5, 0, 4)
    assert sorted(row["n"] for row in rows) == [1, 1, 3, 3, 5, 5, 7, 7]
    assert all(row["__stimulus"] == 10 * row["n"] for row in rows)
    assert len({row["__id"] for row in rows}) == len(rows)
    assert {row["__id"] for row in rows} >= {1, 3, 5, 7}


def test_a_step_that_keeps_rows_need_not_number_them() -> None:
    """With rows = 'kept' the function sees the user's columns only, and batches may be cut anew."""

    def whole(taken: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(list(taken))
        assert table.column_names == ["n"]
        yield from table.combine_chunks().to_batches(max_chunksize=2)

    rows = through(whole, 3, 4, kept=True)
    assert [(row["n"], row["__id"], row["__stimulus"]) for row in rows] == [(n, n, 10 * n) for n in range(7)]
    with pytest.raises(ValueError, match="took 7 rows and gave 6"):
        through(lambda taken: (batch.slice(1) if batch.num_rows == 3 else batch for batch in taken), 3, 4, kept=True)


def test_a_step_that_does_not_say_where_rows_come_from() -> None:
    """It is refused where windows need event times; elsewhere its rows have the latest times and own identities."""

    def sums(taken: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in taken:
            yield pa.RecordBatch.from_pydict({"n": [batch.num_rows] * 2})

    with pytest.raises(ValueError, match="_row"):
        through(sums, 3)
    rows = through(sums, 3, 2, needed=False)
    assert [(row["n"], row["__stimulus"]) for row in rows] == [(3, 20), (3, 20), (2, 40), (2, 40)]
    assert len({row["__id"] for row in rows}) == 4
    with pytest.raises(ValueError, match="changed the column"):
        through(lambda taken: (b.set_column(1, "_row", pa.array([9] * b.num_rows)) for b in taken), 3)


def looks(taken: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in taken:
        yield batch.select(["m"])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (looks, r"operator 'step': KeyError: .*m.* \(test_shipped\.py, line \d+: yield batch\.select\(\[\"m\"\]\)\)"),
        (lambda taken: 1, "operator 'step': TypeError: 'int' object is not iterable"),
        (lambda taken: map(pa.Table.from_batches, [[*taken]]), "gave a Table: it must yield Arrow record batches"),
        (lambda taken: (b.rename_columns(["m", "_row"]) for b in taken), "gave no column 'n'; it gave m: set .schema"),
        (
            lambda taken: (b.set_column(0, "n", pa.array(["x"] * b.num_rows)) for b in taken),
            "the column 'n' as string, not int64, and it cannot be cast: .* set .schema",
        ),
    ],
)
def test_a_step_that_fails_is_told_in_the_users_words(function: Any, said: str) -> None:
    """Operator, reason and the user's own line are told, whatever lines of Spark and penstock stand around them."""
    with pytest.raises(StepError, match=said) as caught:
        through(function, 3)
    lines = "".join(traceback.format_exception(caught.value))
    assert short(f"PythonException: Please see below.\n{lines} SQLSTATE: 38000") == str(caught.value)


def test_what_a_step_could_not_be_handed_is_not_its_fault() -> None:
    """What fails before a function gets its rows goes on as it is."""

    def broken() -> Iterator[pa.RecordBatch]:
        yield from batches(2)
        raise OSError("the stream ends")

    run = wrap_python(
        lambda taken: iter(taken), ["n"], pa.schema([("n", pa.int64())]), name="step", kept=True, needed=True
    )
    with pytest.raises(OSError, match="the stream ends"):
        list(run(broken()))


def test_only_the_newest_generation_commits(tmp_path: Path) -> None:
    """A unit that was taken over cannot commit, and a take-over waits for a commit that is under way."""
    folder = Place(str(tmp_path))
    first = take_over(folder, "a")
    order = []
    held = threading.Event()

    def commit() -> None:
        with committing(folder, "a", first):
            held.set()
            time.sleep(0.2)
            order.append("commit")

    thread = threading.Thread(target=commit)
    thread.start()
    held.wait()
    second = take_over(folder, "a")
    order.append("take-over")
    thread.join()
    assert order == ["commit", "take-over"]
    assert second > first
    with pytest.raises(Fenced), committing(folder, "a", first):
        pytest.fail("committed")
    with committing(folder, "a", second):
        pass
    take_over(folder, "a", deliver=False)
    with pytest.raises(Fenced), committing(folder, "a", second):
        pytest.fail("committed")
    assert take_over(folder, "a") > second


def test_nobody_is_stopped_while_it_commits(tmp_path: Path) -> None:
    """A batch that begins to be committed while somebody waits for its end is not cut off, however long that takes."""
    folder, order, threads = Place(str(tmp_path)), list[str](), list[threading.Thread]()
    generation = take_over(folder, "a")
    spec = SimpleNamespace(folder=folder, generation=generation, checkpoint=folder / "checkpoints" / "a")
    (spec.checkpoint / "offsets" / "0").publish(b"")

    class Handle:
        """Commits the batch once it has been looked at."""

        def commit(self) -> None:
            with committing(folder, "a", generation):
                time.sleep(0.5)
                order.append("commit")
            time.sleep(0.1)
            (spec.checkpoint / "commits" / "0").publish(b"")
            order.append("noted")

        @property
        def isActive(self) -> bool:  # noqa: N802 - Spark's
            if not threads:
                threads.append(threading.Thread(target=self.commit))
                threads[0].start()
            return True

        def stop(self) -> None:
            order.append("stop")

    runner = Runner(SimpleNamespace(name="a"), SimpleNamespace(spec=spec, name="a"))  # type: ignore[arg-type]
    runner.handle = Handle()  # type: ignore[assignment]
    runner.look = lambda *_: None  # type: ignore[method-assign]
    runner.end(SimpleNamespace(alive=lambda: True), 0.2)  # type: ignore[arg-type]
    threads[0].join()
    assert order == ["commit", "noted", "stop"]
    assert owner_of(folder, "a")["generation"] == 0


def test_a_closing_unit_ends_its_batch(tmp_path: Path) -> None:
    """A unit that closes commits the batch that runs and begins no other; another unit of the run goes on."""
    folder = Place(str(tmp_path))
    mine, other = take_over(folder, "a"), take_over(folder, "b")
    check(folder, "a", mine)
    close(folder, "a")
    with committing(folder, "a", mine):
        pass
    with pytest.raises(Fenced):
        check(folder, "a", mine)
    check(folder, "b", other)
    check(folder, "a", take_over(folder, "a"))


def test_columns_of_the_envelope_are_integers() -> None:
    """Identities are 64-bit integers whatever is mixed in."""
    ids = unique(pa.chunked_array([pa.array([1, 1], pa.int64()), pa.array([2], pa.int64())]), 7)
    assert ids.type == pa.int64()
    assert np.unique(ids.to_numpy()).size == 3
