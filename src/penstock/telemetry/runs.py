"""Looking on while ``penstock run`` works: what its folder tells, read piece by piece without pyspark.

`penstock.spark.run.folder` says what is where. Everything is written whole or not at all, and once; so a reader only
looks for what is new, and a run needs nothing of those who look on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from penstock.errors import InputError
from penstock.files import Document, read_kept
from penstock.telemetry.notes import row_by_row
from penstock.telemetry.run_news import News, RunBatch, Seen

ABOUT = "about.json"
"""The file in a run's folder that says what is deployed there, for those who look on."""

WAIT = 2
"""Batches after which a report that is still missing is not waited for: a kill has taken it."""


class RunReader:
    """Reads a run's folder, and at each look only what is new.

    Parameters
    ----------
    folder
        Of the run, on this machine.

    Raises
    ------
    InputError
        If no run is there; also later, if a file of it is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        run = self._run()
        if run is None:
            raise InputError("no run is in this folder", file=folder, hint="name the --directory of a penstock run")
        self.run = run
        self.written = 0
        """When what runs now was written (ns since the epoch), as it was read last."""
        self._next: dict[str, int] = {}
        self._noted: dict[tuple[str, str], int] = {}

    def run_now(self) -> Document | None:
        """Return what runs now, of ``run.json``, if it has changed since the last call."""
        try:
            when = (self.folder / "run.json").stat().st_mtime_ns
        except FileNotFoundError:
            return None
        if when == self.written:
            return None
        self.written = when
        return self._run()

    def _run(self) -> Document | None:
        """Return ``run.json``; None where there is none."""
        path = self.folder / "run.json"
        found = read_kept(path)
        if found is not None and not isinstance(found.get("placement"), dict):
            raise InputError("is not what penstock run writes: it has no placement", file=path)
        return found

    @property
    def about(self) -> Document | None:
        """What is deployed; None if a version of penstock that does not tell began the run."""
        return read_kept(self.folder / ABOUT)

    @property
    def epoch(self) -> float | None:
        """When scheduled sources begin (s since 1970); None before it is decided."""
        try:
            return int((self.folder / "epoch").read_text()) / 1e6
        except (FileNotFoundError, ValueError):
            return None

    @property
    def begun(self) -> list[float]:
        """When each run of the folder began (s since 1970), the first one as its scheduled sources did."""
        return [self.epoch or 0.0, *self._times("begun.json")[1:]]

    @property
    def ended(self) -> list[float]:
        """When the runs of the folder ended that were not killed (s since 1970)."""
        return self._times("ended.json")

    def _times(self, name: str) -> list[float]:
        try:
            return [float(when) for when in json.loads((self.folder / name).read_bytes())]
        except (OSError, ValueError, TypeError):
            return []

    @property
    def keep(self) -> dict[str, float]:
        """Keep fractions that a plan asks for now, by stream; those that are not named keep everything."""
        return (read_kept(self.folder / "keep.json") or {}).get("keep", {})  # type: ignore[no-any-return]

    @property
    def errors(self) -> dict[str, str]:
        """By query, what its writer failed with last."""
        found = {}
        for path in _listed(self.folder / "errors"):
            said = read_kept(path)
            if said is not None:
                found[path.stem] = str(said.get("error", ""))
        return found

    @property
    def past(self) -> Document:
        """What older batches add up to, whose files are gone, as `penstock.spark.run.history` writes it."""
        return read_kept(self.folder / "history.json") or {}

    def underway(self) -> dict[str, float]:
        """Return when the batch began (s since the epoch) that each query has begun and not ended."""
        found = {}
        for path in _listed(self.folder / "checkpoints"):
            begun = max(_numbers(path / "offsets"), default=-1)
            if begun >= 0 and not (path / "commits" / str(begun)).exists():
                try:
                    lines = (path / "offsets" / str(begun)).read_text(encoding="utf-8").splitlines()
                    found[path.name] = json.loads(lines[1])["batchTimestampMs"] / 1000
                except (OSError, ValueError, LookupError):
                    continue
        return found

    def look(self) -> News:
        """Return what is new since the last look."""
        batches = [batch for path in _listed(self.folder / "batches") for batch in self._batches(path)]
        rows = [seen for path in _listed(self.folder / "latency") for seen in self._seen(path)]
        return News(tuple(batches), tuple(rows))

    def _batches(self, path: Path) -> Iterator[RunBatch]:
        query = path.name
        if query not in self._next:
            numbers = _numbers(path)
            if not numbers:
                return
            self._next[query] = numbers[0]
        reports = self.folder / "progress" / query
        while True:
            number = self._next[query]
            manifest = read_kept(path / f"{number:012d}.json")
            if manifest is None:
                # Whoever looks rarely may miss batches that have become history.
                later = [found for found in _numbers(path) if found > number]
                if not later:
                    return
                self._next[query] = later[0]
                continue
            report = read_kept(reports / f"{number:012d}.json")
            if report is None:
                if not (path / f"{number + WAIT:012d}.json").exists():
                    return
                report = {"start": manifest["visible"], "duration": 0.0, "rows": 0, "counts": {}, "late": {}}
            self._next[query] = number + 1
            counts = {**report["counts"], **manifest["counts"]}
            yield RunBatch(
                query=query,
                number=number,
                start=report["start"],
                duration=report["duration"],
                visible=manifest["visible"],
                rows=report["rows"],
                counts={name: (int(arrived), int(dropped)) for name, (arrived, dropped) in counts.items()},
                late=report["late"],
                logged={writer: int(rows) for writer, (_, rows) in manifest["rows"].items()},
                busy=manifest.get("busy", 1.0),
                since=manifest.get("since"),
                host=manifest.get("host", ""),
            )

    def _seen(self, path: Path) -> Iterator[Seen]:
        fresh = []
        for name in _names(path):
            query, _, digits = name.removesuffix(".npy").rpartition("-")
            if digits.isdigit() and int(digits) > self._noted.get((path.name, query), -1):
                fresh.append((int(digits), query, name))
        for number, query, name in sorted(fresh):
            self._noted[path.name, query] = number
            try:
                visible, stimulus = row_by_row((path / name).read_bytes())
            except (FileNotFoundError, ValueError):
                continue
            if visible.size:
                yield Seen(path.name, visible, stimulus)


def runs_in(folder: Path) -> list[Path]:
    """Return the folders of runs in a folder, up to two levels down, the one that was begun last first."""
    found = [path.parent for depth in ("", "*/", "*/*/") for path in folder.glob(f"{depth}run.json")]
    return sorted(found, key=lambda path: -(path / "run.json").stat().st_mtime)


def _listed(path: Path) -> list[Path]:
    return [path / name for name in sorted(_names(path))]


def _names(path: Path) -> list[str]:
    """Return what is in a folder, in no order: it may hold tens of thousands of files, and is looked at each second."""
    try:
        return [name for name in os.listdir(path) if not name.endswith(".tmp")]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _numbers(path: Path) -> list[int]:
    return sorted(int(stem) for name in _names(path) if (stem := name.partition(".")[0]).isdigit())
