"""Folders whose names Spark's readers would take for patterns."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from sinks_kit import read_json

from penstock.network import Network
from penstock.network.file import parse_network
from penstock.running.report import unread
from penstock.spark.calibrate.samples import check_samples
from penstock.spark.compile import Query
from penstock.spark.compile.drops import Drops
from penstock.spark.paths import paths_of, settled
from penstock.spark.run import Engine
from penstock.spark.run.unread import Unread, never_read, not_found
from penstock.spark.shipped import deliver as delivering
from penstock.spark.shipped.place import Place, RemotePlace, absolute

ODD = "a {x} [1]"
SAID = r"a \{x\} \[1\]"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with such a name."""
    folder = tmp_path / ODD
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def windows(path: str = "two") -> Network:
    """Return windows over two folders, into a third one."""
    shape = {"format": "json", "schema": "user string, at timestamp", "time": "at"}
    return parse_network(
        {
            "name": "n",
            "sources": {"one": {**shape, "options": {"path": "one"}}, "two": {**shape, "options": {"path": path}}},
            "operators": {
                "u": {"kind": "union", "inputs": ["one", "two"]},
                "w": {"kind": "aggregate", "input": "u", "window": "5 seconds", "by": "user"},
            },
            "sinks": {"o": {"input": "w", "format": "json", "options": {"path": "out [1]"}}},
        }
    )


def feed(file: Path, minute: int) -> None:
    """Write half a minute of rows."""
    file.parent.mkdir(exist_ok=True)
    rows = ({"user": "a", "at": f"2026-03-01T12:{minute:02d}:{second:02d}Z"} for second in range(30))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_places_are_read_as_they_are_called() -> None:
    """Spark is given a place of penstock's own as the pattern that fits it alone, in SQL too."""
    assert Place("/a/b c.json").pattern == Place("/a/b c.json").uri == "file:///a/b c.json"
    assert Place(r"/{b} [1]/*?\c").pattern == r"file:///\{b\} \[1\]/\*\?\\c"
    assert RemotePlace("s3a://b/run[1]").pattern == r"s3a://b/run\[1\]"
    drops = Drops(live=frozenset({"a->b"}), file=Place("/run [1]/limits"))
    assert r"text.`file:///run \[1\]/limits`" in str(drops.limit("a->b"))


def test_the_current_folder_is_no_pattern(here: Path) -> None:
    """What a user writes of a source may be a pattern, but not the folder before it; a sink's path is a name."""
    above = f"file://{here.parent}"
    assert absolute("in[1]*/../x") == f"{above}/{SAID}/x"
    assert absolute("../in[1]") == f"{above}/in[1]"
    assert absolute("/in[1]/") == absolute("file:/in[1]") == "file:///in[1]"
    made = windows("t*")
    told = {"one": f"{above}/{SAID}/one", "two": f"{above}/{SAID}/t*", "o": f"{above}/{ODD}/out [1]"}
    assert {key.split(".")[1]: uri for key, uri in paths_of(made).items()} == told
    assert paths_of(settled(made)) == paths_of(made)


def test_what_waits_in_such_a_folder_is_seen(here: Path, tmp_path: Path) -> None:
    """Files are found where Spark finds them; where no query has found one, that is said, and what a pattern is."""
    feed(here / "one/a.json", 0)
    source = windows().sources["one"]
    for path in ("one", "on?", absolute("one")):
        options = {**source.options, "path": path}
        assert [*Unread(SimpleNamespace(options=options), Place(str(tmp_path)), 0)._files()] == [
            str(here / "one/a.json")
        ]
    listed = json.dumps({"path": (here / "one/a.json").as_uri(), "timestamp": 0, "batchId": 0})
    (Place(str(tmp_path / "q")) / "sources" / "0" / "0").replace(f"v1\n{listed}".encode())
    spec: Any = SimpleNamespace(checkpoint=Place(str(tmp_path / "q")))
    found = not_found(windows(), [Query(SimpleNamespace(), None, spec, (), inputs=("one", "two"))])  # type: ignore[arg-type]
    assert found == {"two": absolute("two")}
    (said,) = unread({}, {}, found, {}, {})
    assert said.startswith("penstock: the source 'two' has found no file at file:///")
    assert said.endswith("write a backslash before those of a name)")


def test_a_source_that_is_read_twice_has_one_folder(here: Path, tmp_path: Path) -> None:
    """Files of a source are looked for under its own number, also behind one that the query reads at two places."""
    for number, name in enumerate(("one", "two")):
        feed(here / name / "a.json", 0)
        seen = {"path": (here / name / "a.json").as_uri(), "timestamp": int(1000 * time.time()), "batchId": 0}
        listed = json.dumps(seen)
        (Place(str(tmp_path / "q")) / "sources" / str(number) / "0").replace(f"v1\n{listed}".encode())
    feed(here / "two/old.json", 0)
    os.utime(here / "two/old.json", (0, 0))
    spec: Any = SimpleNamespace(checkpoint=Place(str(tmp_path / "q")))
    queries = [Query(SimpleNamespace(), None, spec, (), inputs=("one", "one", "two"))]  # type: ignore[arg-type]
    assert not_found(windows(), queries) == {}
    assert never_read(windows(), queries) == {"two": 1}


@pytest.mark.spark
def test_a_run_in_such_a_folder_goes_on(engine: Engine, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources are read, large batches delivered, and event time recalled when the run goes on."""
    monkeypatch.setattr(delivering, "LARGE", 0)
    made = windows()
    feed(here / "one/a.json", 0)
    feed(here / "two/a.json", 1)
    for windows_closed in (5, 11):
        outcome = engine.run_once(engine.prepare(made, {"u": "h1", "w": "h1"}, here / "run [1]"))
        assert outcome.balanced(made)
        assert outcome.unfound == {}
        assert len(read_json(here / "out [1]")) == windows_closed
        feed(here / "one/b.json", 1)


def test_sinks_elsewhere_keep_their_path_as_it_is_written() -> None:
    """A path of another file system stays as it is, with the slash at its end, as runs have noted it."""
    network = windows()
    sinks = [attrs.evolve(sink, options={"path": "s3a://bucket/out/"}) for sink in network.sinks.values()]
    made = Network.of("n", network.sources.values(), network.operators.values(), sinks)
    assert {path for key, path in paths_of(made).items() if key.startswith("sinks.")} == {"s3a://bucket/out/"}


def test_samples_may_be_compressed(tmp_path: Path) -> None:
    """A compressed file is the sample of the source that it is called after; a plain one comes before it."""
    source = {"format": "json", "schema": "k string", "options": {"path": "in"}}
    network = parse_network({"name": "n", "sources": {"a": source, "b": source}})
    for name in ("a.json.gz", "b.json", "b.json.gz"):
        (tmp_path / name).touch()
    found = check_samples(network, tmp_path)
    assert {name: path.name for name, path in found.items()} == {"a": "a.json.gz", "b": "b.json"}
