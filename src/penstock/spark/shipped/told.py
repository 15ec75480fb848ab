"""Where a query leaves what it tells of a batch, below the run's folder."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from penstock.spark.shipped.place import Place

if TYPE_CHECKING:
    from penstock.files import Document


class Damaged(RuntimeError):
    """A file of a run's folder does not hold what was written there, as after a power cut."""


def said(file: Place) -> Document:
    """Return what a file of a run's folder says in JSON.

    Raises
    ------
    Damaged
        Naming it, if it says nothing of the kind.
    FileNotFoundError
        If there is none.
    """
    content, found = file.read(), None
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(content)
    if not isinstance(found, dict):
        raise Damaged(f"{file.path} is damaged")
    return found


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
