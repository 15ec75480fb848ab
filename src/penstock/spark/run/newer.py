"""Sinks that are newer than a run's folder: an older copy that was put back would write their rows once more."""

from __future__ import annotations

import contextlib

from penstock.errors import InputError
from penstock.spark.compile import Query
from penstock.spark.run.history import last_counted
from penstock.spark.shipped.checkpoint import begun_and_ended
from penstock.spark.shipped.deliver import is_folder, shown, shown_by
from penstock.spark.shipped.place import place_of


def refuse_newer(query: Query) -> None:
    """Refuse to go on where a sink has files of batches that the run's folder knows nothing of.

    Of the batch behind the last one a kill may have left some.

    Raises
    ------
    InputError
        Naming the first of them.
    """
    spec = query.spec
    last = max(begun_and_ended(spec.checkpoint)[1], last_counted(spec.folder, query.name))
    for way in spec.sinks:
        names: list[str] = []
        if is_folder(way.format, way.options):
            with contextlib.suppress(OSError, ValueError):  # it may be where only hosts can look
                names = place_of(way.options["path"]).names()
        found = [batch for name in names if (batch := shown_by(way, name)) is not None]
        if max(found, default=-1) > last + 1:
            first = f"{shown(way)}{min(batch for batch in found if batch > last):012d}-…"
            raise InputError(
                f"the sink {way.name!r} is newer than this folder, which knows of no batch behind {last} of "
                f"{query.name!r}: {first} is in {way.options['path']}",
                file=spec.folder.path,
                hint="put the newer folder back, or move the sink's files from that one on away: their rows come again",
            )
