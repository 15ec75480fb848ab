"""Keep fractions on a host: fixed ones, and those that follow a plan while a query runs.

A fraction that follows a plan is a property of the host's JVM, which tasks on the host read for every row. The query's
writer sets it before it computes a batch, to what penstock has announced by then, and keeps it in a file beside the
batch: a batch that is done again drops the same rows. Whole windows need more, since their rows come in several
batches: for them the property lists since which event time which fraction holds, and a new one holds for windows that
begin after all rows seen so far.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from penstock.spark.shipped import publish

BUCKETS = 1_000_000
"""Keep fractions and shares are multiples of one in this many."""

ANNOUNCED = "keep.json"
KNOBS = "knobs"

PATIENCE = 0.25
"""How long (s) a batch waits for penstock to look at its rates; it goes on with the fractions of the batch before."""

REMEMBERED = 600_000_000
"""How long (µs of event time, beside the windows' length) an earlier fraction of a stream's windows is kept."""

SINCE, LISTED = "@since", "@listed"
"""Behind a stream's name: properties that its windows need besides."""

_EVER = -(2**63)
_WIDTH = 20


@attrs.frozen
class Drops:
    """What the streams of a run let through.

    Attributes
    ----------
    keep
        Fixed keep fractions by stream.
    live
        Streams whose keep fractions follow a plan.
    folder
        Of the run.
    """

    keep: Mapping[str, float] = attrs.field(factory=dict)
    live: frozenset[str] = frozenset()
    folder: str = ""

    def limit(self, stream: str) -> str | None:
        """Return SQL for the buckets (`BUCKETS`) of a stream that pass; None if all do."""
        if stream in self.live:
            return f"CAST({self._read(stream, str(BUCKETS))} AS INT)"
        fraction = self.keep.get(stream, 1.0)
        return None if fraction >= 1 else str(round(fraction * BUCKETS))

    def since(self, stream: str) -> str:
        """Return SQL for the start (µs) of the first window that the present limit of a live stream holds for."""
        return f"CAST({self._read(stream + SINCE, str(_EVER))} AS BIGINT)"

    def limits(self, stream: str) -> str:
        """Return SQL for the present limit of a live stream's windows and the one before, as one number."""
        return f"CAST({self._read(stream, str(_packed(BUCKETS, BUCKETS)))} AS BIGINT)"

    def listed(self, stream: str, start: str) -> str:
        """Return SQL for the limit of any window of a live stream, by SQL for its start (µs)."""
        entries = f"split({self._read(stream + LISTED, f'{_EVER}:{BUCKETS}')}, ',')"
        since, limit = "CAST(split_part(entry, ':', 1) AS BIGINT)", "CAST(split_part(entry, ':', 2) AS INT)"
        return f"aggregate({entries}, 0, (found, entry) -> CASE WHEN {since} <= {start} THEN {limit} ELSE found END)"

    def drops(self, stream: str) -> bool:
        """Whether a stream may drop anything."""
        return self.limit(stream) is not None

    def _read(self, name: str, default: str) -> str:
        return f"java_method('java.lang.System', 'getProperty', '{knob(self.folder, name)}', '{default}')"


def window_limit(start: str, names: tuple[str, str]) -> str:
    """Return SQL for the limit of a window that rows may still come to; the columns hold since when, and the limits."""
    since, limits = names
    return f"CASE WHEN {start} >= {since} THEN shiftright({limits}, {_WIDTH}) ELSE {limits} & {2**_WIDTH - 1}L END"


def knob(folder: str, stream: str) -> str:
    """Return the name of the JVM property that holds a stream's limit."""
    return f"penstock.{hashlib.sha256(folder.encode()).hexdigest()[:16]}.{stream}"


def make_turn(spec: dict[str, Any]) -> Callable[[Any, int, Mapping[str, int]], None]:
    """Return the function that a fragment's writer calls before it computes a batch.

    Parameters
    ----------
    spec
        Of the writer, with ``knobs``: ``limits`` (streams that drop rows), ``windows`` (by stream: number of windows
        that a row is in, their length and lateness in µs, numbers of the origins behind), ``others`` (by fragment,
        streams that it decides of and that drop windows of aggregates here), ``prompt`` (whether penstock measures
        rates when a batch begins).
    """
    wanted, folder, fragment = spec["knobs"], spec["folder"], spec["fragment"]
    place = os.path.join(folder, KNOBS, fragment)
    known: dict[str, str] = {}

    def turn(frame: Any, batch: int, water: Mapping[str, int]) -> None:
        name = f"{batch:012d}.json"
        path = os.path.join(place, name)
        if os.path.exists(path):
            decided = _latest(place, name)
        else:
            decided = _decide(wanted, _latest(place), _announced(folder, fragment, batch, wanted["prompt"]), water)
            publish(path, lambda file: file.write(json.dumps(decided).encode()))
            for old in sorted(os.listdir(place))[:-8]:
                os.unlink(os.path.join(place, old))
        values = {stream: str(limit) for stream, limit in decided["limits"].items()}
        for stream, entries in decided["windows"].items():
            (_, before), (since, now) = entries[-2:] if len(entries) > 1 else entries * 2
            values |= {stream: str(_packed(now, before)), stream + SINCE: str(since), stream + LISTED: _listed(entries)}
        for other, streams in wanted["others"].items():
            # Whoever sent rows of a window had decided of it before.
            theirs = _latest(os.path.join(folder, KNOBS, other))["windows"]
            values |= {stream + LISTED: _listed(theirs[stream]) for stream in streams if stream in theirs}
        changed = {stream: value for stream, value in values.items() if known.get(stream) != value}
        if changed:
            calls = [
                f"java_method('java.lang.System', 'setProperty', '{knob(folder, stream)}', '{value}')"
                for stream, value in sorted(changed.items())
            ]
            frame.sparkSession.sql(f"SELECT {', '.join(calls)}").collect()
            known.update(changed)

    return turn


def _packed(now: int, before: int) -> int:
    return (now << _WIDTH) | before


def _listed(entries: list[list[int]]) -> str:
    return ",".join(f"{since}:{limit}" for since, limit in entries)


def _latest(place: str, name: str | None = None) -> Any:
    """Return what was decided for the last batch, or a given one."""
    names = [name] if name is not None else sorted(n for n in _listdir(place) if n.endswith(".json"))
    if not names:
        return {"limits": {}, "windows": {}}
    with open(os.path.join(place, names[-1]), encoding="utf-8") as file:
        return json.load(file)


def _listdir(place: str) -> list[str]:
    return os.listdir(place) if os.path.isdir(place) else []


def _announced(folder: str, fragment: str, batch: int, prompt: bool) -> Any:
    """Return the keep fractions that penstock has announced, for this batch's rates if it looks in time."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with open(os.path.join(folder, ANNOUNCED), encoding="utf-8") as file:
                found = json.load(file)
        except FileNotFoundError:
            found = {"keep": {}, "looked": {}}
        if not prompt or found["looked"].get(fragment, -1) >= batch or time.monotonic() > deadline:
            return found["keep"]
        time.sleep(0.005)


def share_of_windows(rows: float, count: int) -> float:
    """Return the share of windows to keep so that a given share of the rows passes.

    A row passes with any of its ``count`` windows, which are decided of in groups of as many. A share
    ``a = (count - 1) / count`` of the rows has windows of two groups: ``rows = w + a w (1 - w)``.
    """
    both = (count - 1) / count
    return rows if both == 0 else ((1 + both) - math.sqrt((1 + both) ** 2 - 4 * both * rows)) / (2 * both)


def _decide(wanted: Any, before: Any, keep: Mapping[str, float], water: Mapping[str, int]) -> dict[str, Any]:
    """Return the limits of a batch."""
    limits = {stream: round(keep.get(stream, 1.0) * BUCKETS) for stream in wanted["limits"]}
    windows = {}
    for stream, (count, length, lateness, origins) in wanted["windows"].items():
        entries = before["windows"].get(stream, [[_EVER, BUCKETS]])
        limit = round(share_of_windows(keep.get(stream, 1.0), count) * BUCKETS)
        since = max(water.values()) + 1 if water else _EVER
        # Rows look at two limits only: the next change waits until none comes to windows before the last one, also
        # from the slowest of the inputs that the stream derives from (a log is behind a source).
        coming = min(water.get(str(number), _EVER) for number in origins) + 1
        if limit != entries[-1][1] and entries[-1][0] <= max(_EVER, coming - length - lateness):
            entries = [entry for entry in entries if entry[0] < since] + [[since, limit]]
            old = coming - length - REMEMBERED
            while len(entries) > 1 and entries[1][0] <= old:
                entries = entries[1:]
        windows[stream] = entries
    return {"limits": limits, "windows": windows}
