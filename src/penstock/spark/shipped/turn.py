"""What a query's writer does before a batch is computed: decide which fractions of live streams it keeps.

The decision is kept in a file beside the batch: a batch that is done again drops the same rows. It reaches the tasks as
properties of the JVM that they share with the driver. Elsewhere Spark reads it from a file when it begins the batch,
and sends it to all of them; it calls the writer later, so that the batch before decides.

Whole windows need more, since their rows come in several batches: for them is listed since which event time which
fraction holds, and a new one holds for windows that begin after all rows seen so far.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from penstock.spark.shipped.gate import check
from penstock.spark.shipped.local import Local
from penstock.spark.shipped.lockstep import appeared
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.spec import Knobs, WriterSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.files import Document

BUCKETS = 1_000_000
"""Keep fractions and shares are multiples of one in this many."""

ANNOUNCED = "keep.json"
KNOBS = "knobs"

PATIENCE = 0.25
"""How long (s) a batch waits for penstock to look at its rates; it goes on with the fractions of the batch before."""

KEPT = 100
"""Batches of which decisions are kept: copies that follow may be behind."""

REMEMBERED = 600_000_000
"""How long (µs of event time, beside the windows' length) an earlier fraction of a stream's windows is kept."""

SINCE, LISTED, RECENT = "@since", "@listed", "@recent"
"""Behind a stream's name: properties that its windows need besides, and those of streams in real-time mode."""

LIMITS = "limits"
"""Folder, below the run's, of the files from which plans read what was decided."""

LENGTH = 1 << 16
"""Bytes of such a file: Spark remembers how long it was when the query began."""

EVER = -(2**63)


class Decided(TypedDict):
    """What is decided for a batch.

    Attributes
    ----------
    limits
        Of each stream whose rows are dropped one by one.
    windows
        By stream, since which event time (µs) which limit holds for windows.
    """

    limits: dict[str, int]
    windows: dict[str, list[list[int]]]


WIDTH = 20
"""Bits of a limit, where two share a number."""


def knob(folder: Place, stream: str, copy: str = "") -> str:
    """Return the name of the JVM property that holds a stream's limit; those of a copy are its own."""
    whose = folder.path + (f"/{copy}" if copy else "")
    return f"penstock.{hashlib.sha256(whose.encode()).hexdigest()[:16]}.{stream}"


def packed(now: int, before: int) -> int:
    """Return the limit of now and the one before as one number."""
    return (now << WIDTH) | before


def make_turn(spec: WriterSpec, local: Local) -> Callable[[DataFrame, int, Mapping[str, int], int | None], None]:
    """Return the function that a query's writer calls before it computes a batch, where tasks share the driver's JVM.

    It takes the batch's frame and number, and the frontiers and the latest event time that earlier batches reached.
    ``local`` is what the query knows of its host.
    """
    wanted, folder = spec.knobs or Knobs((), {}, {}), spec.folder
    known: dict[str, str] = {}

    def turn(frame: DataFrame, batch: int, frontiers: Mapping[str, int], latest: int | None) -> None:
        values = _decided(spec, batch, frontiers, latest, lambda: _wanted(spec, local, batch, batch, wanted.prompt))
        changed = {stream: value for stream, value in values.items() if known.get(stream) != value}
        if changed:
            calls = [
                f"java_method('java.lang.System', 'setProperty', '{knob(folder, stream, wanted.copy)}', '{value}')"
                for stream, value in sorted(changed.items())
            ]
            frame.sparkSession.sql(f"SELECT {', '.join(calls)}").collect()
            known.update(changed)

    return turn


def look_ahead(spec: WriterSpec, local: Local, batch: int, frontiers: Mapping[str, int], latest: int | None) -> None:
    """Decide for the batch that comes next, and write it where Spark reads it before anything of that batch is done."""
    if spec.knobs is not None and spec.knobs.file is not None:
        # What that batch will take is not known: the rates are those of the one before.
        values = _decided(spec, batch, frontiers, latest, lambda: _wanted(spec, local, batch, batch - 1, prompt=False))
        tell(spec.knobs.file, values)


def tell(file: Place, values: Mapping[str, str]) -> None:
    """Write down what a query's plan reads when its next batch begins.

    Raises
    ------
    RuntimeError
        If it is more than the file can hold.
    """
    content = json.dumps(values).encode()
    if len(content) >= LENGTH:
        raise RuntimeError(f"{file.path}: {len(content)} bytes of keep fractions, at most {LENGTH} can be read")
    file.replace(content.ljust(LENGTH - 1) + b"\n")


def _wanted(spec: WriterSpec, local: Local, batch: int, seen: int, prompt: bool) -> Mapping[str, float]:
    """Return the keep fractions for a batch: those of the host's own table, or else those that penstock announces.

    ``seen`` is the last batch of which is known what it takes.
    """
    keep = local.keep(seen)
    if keep is not None:
        return keep
    return _announced(spec.folder, spec.query, batch, prompt)


def _decided(
    spec: WriterSpec,
    batch: int,
    frontiers: Mapping[str, int],
    latest: int | None,
    keep: Callable[[], Mapping[str, float]],
) -> dict[str, str]:
    """Return what is decided for a batch: as it was if it is done again, and as the copy that leads has decided."""
    wanted, folder = spec.knobs or Knobs((), {}, {}), spec.folder
    place = folder / KNOBS / spec.query
    file = place / f"{batch:012d}.json"
    if appeared(spec, file):
        decided: Decided = json.loads(file.read())
    else:
        decided = _decide(wanted, decided_last(place), keep(), frontiers, latest)
        file.publish(json.dumps(decided).encode())
        for old in place.names()[:-KEPT]:
            (place / old).remove()
    return {**_values(decided, wanted, folder), **_dropped_more(spec, decided)}


def kept_by(keep: Mapping[str, float], stream: str, copy: str) -> float:
    """Return what a copy of a stream's reader keeps, of one that leads the most that any of them keeps.

    Parameters
    ----------
    keep
        By stream, and by stream to a copy (``a->b#2``) where that keeps something else.
    copy
        Its number; empty for the one that leads.
    """
    first = keep.get(stream, 1.0)
    if copy:
        return keep.get(f"{stream}#{copy}", first)
    return max([first, *(share for name, share in keep.items() if name.startswith(f"{stream}#"))])


def _dropped_more(spec: WriterSpec, decided: Decided) -> dict[str, str]:
    """Return the properties by which a copy that follows drops more than the one that leads; its rows do not count."""
    if spec.knobs is None or not spec.knobs.copy:
        return {}
    if check(spec.folder, spec.query, spec.generation, begins=False):
        return {}
    keep, copy = _announced(spec.folder, spec.query, 0, prompt=False), spec.saved.partition("#")[2] or "1"
    values = {}
    for stream in spec.knobs.limits:
        if (own := round(kept_by(keep, stream, copy) * BUCKETS)) < decided["limits"].get(stream, BUCKETS):
            values[stream] = str(own)
    for stream, behind in spec.knobs.windows.items():
        own = round(share_of_windows(kept_by(keep, stream, copy), behind.count) * BUCKETS)
        if own < decided["windows"][stream][-1][1]:
            values |= {stream: str(packed(own, own)), stream + SINCE: str(EVER), stream + LISTED: f"{EVER}:{own}"}
    return values


def _values(decided: Decided, wanted: Knobs, folder: Place) -> dict[str, str]:
    """Return the properties that a decision asks for."""
    values = {stream: str(limit) for stream, limit in decided["limits"].items()}
    for stream, entries in decided["windows"].items():
        (_, before), (since, now) = entries[-2:] if len(entries) > 1 else entries * 2
        values |= {stream: str(packed(now, before)), stream + SINCE: str(since), stream + LISTED: listed(entries)}
    for other, streams in wanted.others.items():
        # Whoever sent rows of a window had decided of it before.
        theirs = decided_last(folder / KNOBS / other)["windows"]
        values |= {stream + LISTED: listed(theirs[stream]) for stream in streams if stream in theirs}
    return values


def listed(entries: Iterable[Sequence[int]]) -> str:
    """Return entries of since when which limit holds as a property's text."""
    return ",".join(f"{since}:{limit}" for since, limit in entries)


def decided_last(place: Place) -> Decided:
    """Return what was decided for the last batch."""
    names = [name for name in place.names() if name.endswith(".json")]
    if not names:
        return {"limits": {}, "windows": {}}
    last: Decided = json.loads((place / names[-1]).read())
    return last


def limits_of(folder: Place, query: str) -> dict[str, float]:
    """Return the share of each stream that a query's last batch kept; of windows, the share of them."""
    decided = decided_last(folder / KNOBS / query)
    newest = {stream: entries[-1][1] for stream, entries in decided["windows"].items()}
    return {stream: limit / BUCKETS for stream, limit in {**decided["limits"], **newest}.items()}


def _announced(folder: Place, query: str, batch: int, prompt: bool) -> Mapping[str, float]:
    """Return the keep fractions that penstock has announced, for this batch's rates if it looks in time."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            found: Document = json.loads((folder / ANNOUNCED).read())
        except FileNotFoundError:
            found = {"keep": {}, "looked": {}}
        if not prompt or found["looked"].get(query, -1) >= batch or time.monotonic() > deadline:
            keep: Mapping[str, float] = found["keep"]
            return keep
        time.sleep(0.005)


def share_of_windows(rows: float, count: int) -> float:
    """Return the share of windows to keep so that a given share of the rows passes.

    A row passes with any of its ``count`` windows, which are decided of in groups of as many. A share
    ``a = (count - 1) / count`` of the rows has windows of two groups: ``rows = w + a w (1 - w)``.
    """
    both = (count - 1) / count
    return rows if both == 0 else ((1 + both) - math.sqrt((1 + both) ** 2 - 4 * both * rows)) / (2 * both)


def _decide(
    wanted: Knobs, before: Decided, keep: Mapping[str, float], frontiers: Mapping[str, int], latest: int | None
) -> Decided:
    """Return the limits of a batch."""
    limits = {stream: round(kept_by(keep, stream, "") * BUCKETS) for stream in wanted.limits}
    windows = {}
    for stream, behind in wanted.windows.items():
        entries = before["windows"].get(stream, [[EVER, BUCKETS]])
        limit = round(share_of_windows(kept_by(keep, stream, ""), behind.count) * BUCKETS)
        since = EVER if latest is None else latest + 1
        # Rows look at two limits only: the next change waits until none comes to windows before the last one, also
        # from the slowest of the inputs that the stream derives from (a log is behind a source).
        coming = min(frontiers.get(str(number), EVER) for number in behind.origins)
        if limit != entries[-1][1] and entries[-1][0] <= max(EVER, coming - behind.length):
            entries = [entry for entry in entries if entry[0] < since] + [[since, limit]]
            old = coming - behind.length - REMEMBERED
            while len(entries) > 1 and entries[1][0] <= old:
                entries = entries[1:]
        windows[stream] = entries
    return {"limits": limits, "windows": windows}
