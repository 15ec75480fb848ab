"""What is told of a disk that is full, and what stays there."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from engines import APART, simulated, stepped, two_queries

from penstock.control.folder import Folder
from penstock.control.periods import Periods
from penstock.spark.hosts.kept import Kept
from penstock.spark.hosts.kept_file import changing
from penstock.spark.shipped.place import place_of

LONG = {"text": "x" * 2000}


def noted(folder):
    """Note what an engine shows."""
    engine = simulated(two_queries(), APART, stepped((5, 50.0)))
    engine.wait(1.0)
    Periods(Path(folder)).add(engine.observe())


def left(folder):
    """Note a host that is left running."""
    with changing(f"{folder}/hosts.json") as hosts:
        hosts["h1"] = Kept(
            name="h1", port=1, cores=1, token="x" * 2000, pid=2, began=3.0, supervisor=4, supervised=5.0
        )  # fmt: skip


@pytest.mark.parametrize(
    ("write", "file"),
    [
        (lambda folder: Folder(folder).write(LONG), "control/state.json"),
        (lambda folder: Folder(folder).tell([LONG]), "control/history.jsonl"),
        (lambda folder: Folder(folder).reply("one", LONG), "control/replies/one.json"),
        (lambda folder: (place_of(str(folder)) / "run.json").replace(b"x" * 2000), "run.json"),
        (noted, "periods.jsonl"),
        (left, "hosts.json"),
    ],
)
def test_a_full_disk_is_told_with_the_file(tmp_path, write, file):
    """What cannot be written is named, and no part of a file stays that was to appear whole."""
    (tmp_path / "control" / "replies").mkdir(parents=True)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, before[1]))
    try:
        with pytest.raises(Exception, match="File too large") as refused:
            write(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(tmp_path / file) in str(refused.value)
    there = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert there <= {"history.jsonl", "periods.jsonl", "hosts.json.lock"}
