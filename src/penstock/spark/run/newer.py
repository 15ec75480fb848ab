"""Sinks that are newer than a run's folder: an older copy that was put back would write their rows once more."""

from __future__ import annotations

import contextlib

from penstock.errors import InputError
from penstock.spark.compile import Query
from penstock.spark.run.history import last_counted
from penstock.spark.shipped.checkpoint import begun_and_ended
from penstock.spark.shipped.deliver import is_folder, shown, shown_by
from penstock.spark.shipped.place import place_of


def refuse_newer(query: Query, *, copied: bool) -> None:
    """Refuse to go on where a sink has files of batches that the run's folder knows nothing of.

    Of one that was planned a kill may have left some; where a query is ``copied``, another copy may have planned it.

    Raises
    ------
    InputError
        Naming the first of them.
    """
    spec = query.spec
    begun, ended = begun_and_ended(spec.checkpoint)
    last = max(ended, last_counted(spec.folder, query.name))
    may = max(begun, last + copied)
    if may < 0:
        return  # it has never run: sinks cannot hold anything of it
    for way in spec.sinks:
        names: list[str] = []
        if is_folder(way.format, way.options):
            with contextlib.suppress(OSError, ValueError):  # it may be where only hosts can look
                names = place_of(way.options["path"]).names()
        found = [batch for name in names if (batch := shown_by(way, name)) is not None]
        if max(found, default=-1) > may:
            first = f"{shown(way)}{min(batch for batch in found if batch > last):012d}-…"
            raise InputError(
                f"the sink {way.name!r} is newer than this folder, which knows of no batch behind {last} of "
                f"{query.name!r}: {first} is in {way.options['path']}",
                file=spec.folder.path,
                hint="put the newer folder back, or move that file and the later ones away: their rows come again",
            )
