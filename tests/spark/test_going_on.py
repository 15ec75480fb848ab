"""What a run that goes on refuses: files to read that are gone, sinks newer than its folder, and damage to the folder.

Without Spark, but for what its hosts see of files.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from pyspark.errors.exceptions.connect import AnalysisException

from penstock.errors import InputError
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.compile import Deployment, Query
from penstock.spark.run.folder import claim, epoch_of, noted_sessions
from penstock.spark.run.history import History, read_history, write_history
from penstock.spark.run.lost import refuse_lost
from penstock.spark.run.newer import refuse_newer
from penstock.spark.run.outcome import read_batch
from penstock.spark.run.recall import recall
from penstock.spark.shipped.gate import owner_file, take_over
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.spec import SinkExit, WriterSpec
from penstock.spark.shipped.told import Damaged, manifest_of, report_of


def network(here: Path, **options: str) -> Network:
    """Return a filter over files."""
    events = {"format": "json", "schema": "n bigint", "options": {"path": str(here / "in"), **options}}
    kept = {"kind": "filter", "input": "events", "where": "true"}
    return parse_network({"name": "n", "sources": {"events": events}, "operators": {"kept": kept}})


class Session:
    """Looks for files as a host does, which may see some of its own, and keeps what it was asked."""

    def __init__(self) -> None:
        self.read, self.asked, self.own = self, list[str](), set[str]()

    def text(self, patterns: list[str]) -> SimpleNamespace:
        """Read files, all of which must be there."""
        paths = [pattern.removeprefix("file://").replace("\\", "") for pattern in patterns]
        self.asked += paths
        for path in paths:
            if path not in self.own:
                raise AnalysisException("", errorClass="PATH_NOT_FOUND", messageParameters={"path": f"file:{path}"})
        return SimpleNamespace(schema=None)


def query(here: Path, graph: Network, *, stateful: bool = False, sinks: tuple[SinkExit, ...] = ()) -> Query:
    """Return a query as the compiler would describe it; its frame knows a session."""
    fragment = Deployment(graph, {"kept": "h1"}, str(here)).fragments[0]
    waits = ("events->kept",) * stateful
    spec = WriterSpec(Place(str(here / "run")), "kept", (), (), sinks, (), {}, waits, timed=False, knobs=None)
    frame: Any = SimpleNamespace(sparkSession=Session())
    return Query(fragment, frame, spec, (), inputs=("events",))


def leave(query: Query, here: Path, ended: int, begun: int, listed: int) -> list[Path]:
    """Leave a checkpoint of batches with a file each, and the files; return these."""
    checkpoint = query.spec.checkpoint
    (here / "in").mkdir()
    files = [here / "in" / f"f {number}[1].json" for number in range(listed + 1)]
    for number, file in enumerate(files):
        file.touch()
        row = {"path": f"file://{file}".replace(" ", "%20"), "timestamp": 0, "batchId": number}
        (checkpoint / "sources" / "0" / str(number)).publish(f"v1\n{json.dumps(row)}".encode())
    for number in range(begun + 1):
        (checkpoint / "offsets" / str(number)).publish(f'v1\n{{}}\n{{"logOffset":{number}}}'.encode())
    for number in range(ended + 1):
        (checkpoint / "commits" / str(number)).publish(b"v1\n{}")
        manifest_of(query.spec.folder, "kept", number).publish(b"{}")
    return files


def test_files_that_a_planned_batch_has_still_to_read_must_be_there(tmp_path: Path) -> None:
    """Those that were read may be gone; of the others one that is gone is named, unless the source may miss some.

    A host is asked about no more than what is not to be seen from here, and may see it.
    """
    graph = network(tmp_path)
    going = query(tmp_path, graph)
    files = leave(going, tmp_path, 1, 2, 3)
    files[0].unlink()
    refuse_lost(going, graph)
    session: Any = going.frame.sparkSession
    assert session.asked == []
    for file in files[2:]:
        file.unlink()
        with pytest.raises(InputError, match=r"'kept' that was cut off .*put it back") as caught:
            refuse_lost(going, graph)
        assert caught.value.problem.startswith(f"{file} is gone")
        assert session.asked.pop() == str(file)
        refuse_lost(going, network(tmp_path, ignoreMissingFiles="true"))
        assert session.asked == []
        session.own.add(str(file))
        refuse_lost(going, graph)
        assert session.asked.pop() == str(file)
        file.touch()


@pytest.mark.parametrize("stateful", [False, True])
def test_files_of_a_batch_that_was_shown_are_needed_for_its_state_alone(tmp_path: Path, stateful: bool) -> None:
    """A kill before Spark noted its end lets it be done again: where nothing is remembered, nothing is missing."""
    graph = network(tmp_path)
    going = query(tmp_path, graph, stateful=stateful)
    files = leave(going, tmp_path, 1, 2, 2)
    manifest_of(going.spec.folder, "kept", 2).publish(b"{}")
    files[2].unlink()
    if stateful:
        with pytest.raises(InputError, match="is gone"):
            refuse_lost(going, graph)
    else:
        refuse_lost(going, graph)


def test_nothing_is_asked_where_all_that_was_listed_was_read(tmp_path: Path) -> None:
    """A run that ended in order, or has not begun, costs its hosts no question."""
    graph = network(tmp_path)
    for going in (query(tmp_path / "fresh", graph), query(tmp_path, graph)):
        if "fresh" not in going.spec.folder.path:
            leave(going, tmp_path, 2, 2, 2)
        refuse_lost(going, graph)
        assert going.frame.sparkSession.asked == []  # type: ignore[attr-defined]


def test_a_file_of_the_folder_that_was_emptied_is_named(tmp_path: Path) -> None:
    """It is an error of input, also of who delivers, which is no reason to begin anew; of sessions there are none."""
    graph = network(tmp_path)
    deployment = Deployment(graph, {"kept": "h1"}, str(tmp_path / "run"))
    place = deployment.place
    claim(deployment)
    assert take_over(place, "kept") == 1
    (place / "sessions.json").publish(b"")
    assert noted_sessions(deployment.folder) == {}
    report_of(place, "kept", 0).publish(b'{"frontiers": {}}')
    looks: dict[Place, Callable[[], object]] = {
        owner_file(place, "kept"): lambda: claim(deployment),
        place / "epoch": lambda: epoch_of(place),
        place / "history.json": lambda: read_history(place),
        manifest_of(place, "kept", 0): lambda: read_batch(place, "kept", 0),
        report_of(place, "kept", 0): lambda: recall(attrs.evolve(query(tmp_path, graph), recalled=(0,))),
    }
    for file, look in looks.items():
        for content in (b"", b"\0" * 40, b"[]"):
            file.replace(content)
            with pytest.raises(InputError, match="is damaged") as caught:
                look()
            assert caught.value.file == file.path
    with pytest.raises(Damaged):
        take_over(place, "kept")


def test_a_sink_that_is_newer_than_the_folder_is_refused(tmp_path: Path) -> None:
    """Its files of batches that were not planned came of a later state of the folder; those of others are no matter.

    The folder knows of batches by their manifests and its history; what a copy plans only that one knows.
    """
    out = tmp_path / "out"
    out.mkdir()
    way = SinkExit("rows", (0, 0), (), "json", {"path": str(out)}, "00-kept+rows")
    going = query(tmp_path, network(tmp_path), sinks=(way, far(way)))
    refuse_newer(going, copied=False)
    leave(going, tmp_path, 2, 3, 3)
    others = ("part-00-kept+rows2-000000000009-0.json", "part-01-kept+rows-000000000009-0.json", "part-9-0.json")
    for name in (*others, *(f"part-00-kept+rows-{number:012d}-0.json" for number in range(4))):
        (out / name).touch()
    refuse_newer(going, copied=False)
    (out / "part-00-kept+rows-000000000004-1.c000.json").touch()
    with pytest.raises(InputError, match=r"'rows' is newer than this folder, .* behind 2 .*rows-000000000003-…"):
        refuse_newer(going, copied=False)
    (out / "part-00-kept+rows-000000000004-1.c000.json").unlink()
    (going.spec.checkpoint / "offsets" / "3").remove()
    with pytest.raises(InputError, match=r"'rows' is newer than this folder"):
        refuse_newer(going, copied=False)
    refuse_newer(going, copied=True)
    write_history(going.spec.folder, History(upto={"kept": 4}))
    refuse_newer(going, copied=False)


def far(way: SinkExit) -> SinkExit:
    """Return a sink in a folder that cannot be looked at from here."""
    return SinkExit("far", way.seen, (), "json", {"path": "foo://far/out"}, "00-kept+far")
