"""How many rows a run has had so far, by its manifests, reports and history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.errors import InputError
from penstock.network import Network
from penstock.spark.compile import Query
from penstock.spark.run.history import read_history
from penstock.spark.run.outcome import Batch, read_batch
from penstock.spark.shipped.checkpoint import files_seen
from penstock.spark.shipped.deliver import FILES
from penstock.spark.shipped.place import Place


def rows_of_logs(folder: Place) -> dict[str, int]:
    """Return the rows that each log has had."""
    return {writer: rows for writer, (rows, _) in noted_of_logs(folder).items()}


def noted_of_logs(folder: Place) -> dict[str, tuple[int, int | None]]:
    """Return the rows that each log has had, and before which of its batches; None where that is history.

    A log may be a batch further, of which nobody has noted yet how many rows it has.
    """
    rows, behind = dict(read_history(folder).rows), dict[str, int]()
    for batch in _batches(folder):
        for writer, (number, count) in batch.logged.items():
            rows[writer] = rows.get(writer, 0) + count
            behind[writer] = max(number + 1, behind.get(writer, 0))
    return {writer: (count, behind.get(writer)) for writer, count in rows.items()}


def arrived_on(folder: Place, streams: Iterable[str]) -> dict[str, int]:
    """Return the rows that arrived on some streams."""
    before = read_history(folder).counts
    found = {name: before.get(name, (0, 0))[0] for name in streams}
    for batch in _batches(folder):
        for name in found.keys() & batch.counts.keys():
            found[name] += batch.counts[name][0]
    return found


def rows_a_file(query: Query, source: str, network: Network) -> float:
    """Return how many tuples a query has found in a file of a source, on average; 1 of sources that are no files.

    Raises
    ------
    InputError
        If it has read none yet.
    """
    if network.sources[source].format not in FILES:
        return 1.0
    mine = [s for s in network.outputs(source) if s.reader in query.fragment.operators and s.share > 0]
    arrived = arrived_on(query.spec.folder, [stream.name for stream in mine])
    files = files_seen(query.spec.checkpoint, query.numbers[source])
    rows = max((arrived[stream.name] / stream.share for stream in mine), default=0.0)
    if not rows or not files:
        raise InputError("it is not known yet how many rows a file has", at=f"limits.{source}")
    return rows / files


def _batches(folder: Place) -> Iterator[Batch]:
    upto = read_history(folder).upto
    for unit in (folder / "batches").names():
        for number in (folder / "batches" / unit).numbers():
            if number >= upto.get(unit, 0):
                yield read_batch(folder, unit, number)
