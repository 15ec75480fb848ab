"""Which files make one log: plain files, rolling folders, a history server's folder, Databricks', our listener's.

local-1700000000000                  one event log, also with .zstd, .lz4, .gz, .snappy or .inprogress
eventlog_v2_local-17…/events_1_…     one event log in several files, rolled by Spark
…/eventlog-2026-01-01--10-00.gz      one event log in several files, rolled by Databricks; `eventlog` is the last
penstock-…-000001.jsonl              what `penstock.Listener` wrote, rolled
anything else                        looked at on its own
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from penstock.errors import InputError

_ROLLED = re.compile(r"events_(\d+)_.*?(\.compact)?")
_DATABRICKS = re.compile(r"eventlog(-\d.*)?")
_LISTENER = re.compile(r"(penstock-.+)-(\d{6,})\.jsonl")
_PASSED_OVER = re.compile(r"[._].*|appstatus_.*|.*\.crc|.*\.tmp", re.DOTALL)

_Files = tuple[Path, ...]
_Found = tuple[Path, _Files]
"""Where a log lies, its file or folder, and its files."""


@attrs.frozen
class Log:
    """The files of one application's log, in the order in which they were written.

    Attributes
    ----------
    name
        Of its file or folder, with as much of the path as tells it from the other logs.
    """

    name: str
    files: _Files

    @property
    def size(self) -> int:
        """Bytes of all files, as they lie on the disk."""
        return sum(_size(file) for file in self.files)


def find_logs(paths: Sequence[str | os.PathLike[str]]) -> list[Log]:
    """Return the logs that lie at these paths, in a fixed order, each once.

    Raises
    ------
    InputError
        If a path does not exist.
    """
    found: dict[_Files, _Found] = {}
    for given in paths:
        path = Path(given)
        if not str(given):
            # As a path that would be the current folder.
            raise InputError("expected logs, got an empty name", hint="give event logs, or the folder with them")
        if str(given) == "-":
            logs: Iterator[_Found] = iter([(Path("standard input"), (Path("-"),))])
        elif path.is_dir():
            logs = _of_folder(path, set())
        elif path.exists():
            logs = iter([(path, (path,))])
        else:
            raise InputError("no such file or folder", file=path, hint="give event logs, or the folder with them")
        for where, files in logs:
            found.setdefault(tuple(_real(file) for file in files), (where, files))
    return _named(list(found.values()))


def _named(found: Sequence[_Found]) -> list[Log]:
    """Return the logs, each with a name of its own: the drivers of a cluster may all write to ``stderr``."""
    paths = [Path(os.path.abspath(where)) for where, _ in found]
    alike: dict[str, set[Path]] = {}
    for path in paths:
        alike.setdefault(path.name, set()).add(path)
    parts = {name: _least(same) for name, same in alike.items()}
    names = ["/".join(path.parts[-parts[path.name] :]) for path in paths]
    return [Log(name, files) for name, (_, files) in zip(names, found, strict=True)]


def _least(paths: set[Path]) -> int:
    """Return how many parts of paths, counted from their ends, tell them apart."""
    most = max(len(path.parts) for path in paths)
    return next(n for n in range(1, most + 1) if len({path.parts[-n:] for path in paths}) == len(paths))


def _of_folder(folder: Path, seen: set[Path]) -> Iterator[_Found]:
    """Yield the logs of a folder and of those in it, also behind links; none of those already `seen`."""
    real = _real(folder)
    if real in seen:
        return
    seen.add(real)
    try:
        entries = sorted(folder.iterdir(), key=lambda path: path.name)
    except OSError:
        # Told as a log that cannot be read, so that the others are.
        yield folder, (folder,)
        return
    files = [path for path in entries if path.is_file() and not _PASSED_OVER.fullmatch(path.name)]
    for log, taken in (_rolled(files), _databricks(files)):
        if log:
            yield folder, log
            files = [path for path in files if path not in taken]
    ours: dict[str, list[tuple[int, Path]]] = {}
    for path in files:
        if part := _LISTENER.fullmatch(path.name):
            ours.setdefault(part[1], []).append((int(part[2]), path))
        else:
            yield path, (path,)
    for name, parts in sorted(ours.items()):
        yield folder / name, tuple(path for _, path in sorted(parts))
    folders = [path for path in entries if path.is_dir() and not path.name.startswith(".")]
    for path in sorted(folders, key=Path.is_symlink):  # what is here goes by its own name
        yield from _of_folder(path, seen)


def _rolled(files: list[Path]) -> tuple[_Files, set[Path]]:
    """Return the files of Spark's rolling log, and those that it takes; a compacted one stands for all before it."""
    parts = [(int(part[1]), bool(part[2]), path) for path in files if (part := _ROLLED.fullmatch(path.name))]
    first = max((number for number, compact, _ in parts if compact), default=0)
    wanted = sorted((n, path) for n, compact, path in parts if n > first or (n == first and compact) or first == 0)
    return tuple(path for _, path in wanted), {path for *_, path in parts}


def _databricks(files: list[Path]) -> tuple[_Files, set[Path]]:
    parts = [path for path in files if _DATABRICKS.fullmatch(path.name)]
    parts.sort(key=lambda path: (path.name == "eventlog", path.name))
    return tuple(parts), set(parts)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path)) if str(path) != "-" else path


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
