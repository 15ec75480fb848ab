"""Recalling event time: Spark forgets at a restart how far it had come in each source that a watermark follows.

A source without new rows would then count as one that has said nothing, and hold back every window. So a query that
goes on reads, beside its sources, a small folder into which its last frontiers are written first.
"""

from __future__ import annotations

import json

from penstock.spark.compile import Query, recalled_of
from penstock.spark.left import said
from penstock.spark.shipped.told import report_of

KEPT = 5
"""Files that stay: Spark may not have read the newest."""


def recall(query: Query) -> None:
    """Write the last known frontiers of a query's sources to where it reads them when it is started next."""
    if not query.recalled:
        return
    folder = query.spec.folder
    place = recalled_of(folder, query.name)
    numbers = (folder / "progress" / query.name).numbers()
    if not numbers:
        return
    known = query.spec.numbered(said(report_of(folder, query.name, numbers[-1]))["frontiers"])
    rows = [
        {"__origin": number, "at": known[str(number)] + query.spec.origins[number].lateness}
        for number in query.recalled
        if str(number) in known
    ]
    if rows:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (place / f"{query.spec.generation:012d}-{numbers[-1]:012d}.json").replace(text.encode())
    for name in place.names()[:-KEPT]:
        (place / name).remove()
