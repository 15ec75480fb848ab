"""Where a query leaves what it tells of a batch, below the run's folder."""

from __future__ import annotations

from penstock.spark.shipped.place import Place


def manifest_of(folder: Place, query: str, batch: int) -> Place:
    """Return the place of a batch's manifest."""
    return folder / "batches" / query / f"{batch:012d}.json"


def report_of(folder: Place, query: str, batch: int) -> Place:
    """Return the place of Spark's report of a batch."""
    return folder / "progress" / query / f"{batch:012d}.json"


def note_of(folder: Place, query: str, batch: int, sink: str) -> Place:
    """Return the place of the note when a batch's rows of a sink became visible, and of their stimulus times."""
    return folder / "latency" / sink / f"{query}-{batch:012d}.npy"


def error_of(folder: Place, query: str) -> Place:
    """Return the place of what a query's writer failed with."""
    return folder / "errors" / f"{query}.json"
