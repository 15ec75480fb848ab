"""What waits in the folder of a source: its files that a query has not read yet."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from fnmatch import fnmatchcase
from itertools import islice
from urllib.parse import unquote, urlsplit

from penstock.network import Network, Source
from penstock.spark.compile import Query
from penstock.spark.paths import uri_of
from penstock.spark.shipped.checkpoint import files_listed, files_seen
from penstock.spark.shipped.deliver import FILES
from penstock.spark.shipped.place import LOCAL, Place, absolute, scheme_of

MOST = 100_000
"""Files in a folder beyond which looking at them each period would cost too much."""

AGE = 7 * 86400.0
"""Files older than the youngest that was read by more than this (s) are never read (``maxFileAge``)."""

UNKNOWN = ("maxFileAge", "modifiedAfter", "modifiedBefore", "latestFirst")
"""Options under which the folder alone does not say what will be read, or in which order."""


def tells(source: Source) -> bool:
    """Whether the folder of a source that reads files says what waits there."""
    options = {key.lower(): value for key, value in source.options.items()}
    return scheme_of(options.get("path", "")) in LOCAL and not any(key.lower() in options for key in UNKNOWN)


class Unread:
    """The files of a source that one query has not read yet.

    How many rows they hold is told by their sizes: as many for each byte as in the files that it took.

    Parameters
    ----------
    source
        Reads files.
    checkpoint
        Of the query.
    number
        Of the source among those that the query reads.
    """

    def __init__(self, source: Source, checkpoint: Place, number: int) -> None:
        options = {key.lower(): value for key, value in source.options.items()}
        self._root = options.get("path", "")
        self._deep = options.get("recursivefilelookup", "false").lower() == "true"
        self._pattern = options.get("pathglobfilter", "*")
        self.known = tells(source)
        self._checkpoint, self._number = checkpoint, number
        self._next, self._taken = 0, -1
        self._listed: dict[str, int] = {}
        self._youngest = 0.0
        self._sizes: dict[str, tuple[int, float]] = {}
        self._bytes, self._rows = 0, 0.0

    def took(self, rows: float, since: int, upto: int) -> None:
        """Count rows that it has read behind one offset and up to another; -1 is before all."""
        if not self.known:
            return
        self._list()
        files = [path for path, at in self._listed.items() if since < at <= upto]
        sizes = [size for size, _ in self._found(files)]
        if sizes:
            # Nobody knows the bytes of files that are gone unseen: their share of the rows does not count either.
            self._rows += rows * len(sizes) / len(files)
            self._bytes += sum(sizes)
        self._taken = max(self._taken, upto)

    def waiting(self, upto: int) -> tuple[float, float | None] | None:
        """Return the rows behind an offset, and when the oldest of them came (s since 1970); None: not known."""
        if not self.known:
            return None
        self._list()
        there = [*self._files()]
        if len(there) > MOST:
            self.known = False
            return None
        self._forget({*there})
        left = [path for path in there if self._listed.get(path, upto + 1) > upto and not self._too_old(path)]
        # Also where nobody can tell their rows yet: once they are read they may be gone.
        found = self._found(left)
        if not found:
            return 0.0, None
        if not self._bytes:
            return None
        return sum(size for size, _ in found) * self._rows / self._bytes, min(came for _, came in found)

    def never(self) -> int:
        """Return how many files Spark will not read, since they are so much older than the youngest it has listed."""
        if not self.known:
            return 0
        self._list()
        there = list(islice(self._files(), MOST + 1))
        return 0 if len(there) > MOST else sum(map(self._too_old, there))

    def _too_old(self, path: str) -> bool:
        """Whether Spark will not read a file, since it is so much older than the youngest that it has listed."""
        return path not in self._listed and any(came < self._youngest - AGE for _, came in self._found([path]))

    def _list(self) -> None:
        """Take in what the query has listed since."""
        for uri, at, came in files_listed(self._checkpoint, self._number, self._next):
            self._listed[unquote(urlsplit(uri).path)] = at
            self._next = max(self._next, at + 1)
            self._youngest = max(self._youngest, came)

    def _forget(self, there: AbstractSet[str]) -> None:
        """Forget files that have been read and are gone: one a second would be a hundred thousand in a day."""
        self._listed = {path: at for path, at in self._listed.items() if at > self._taken or path in there}
        self._sizes = {path: size for path, size in self._sizes.items() if path in self._listed or path in there}

    def _found(self, paths: Sequence[str]) -> list[tuple[int, float]]:
        """Return bytes of files, and when they came (s since 1970); nothing of those that are gone."""
        for path in paths:
            if path not in self._sizes:
                with contextlib.suppress(FileNotFoundError):
                    stat = os.stat(path)
                    self._sizes[path] = stat.st_size, stat.st_mtime
        return [self._sizes[path] for path in paths if path in self._sizes]

    def _files(self) -> Iterator[str]:
        """List the files as Spark does: those in the folder and its partitions, or all below; none that is hidden."""
        # In Python brackets are what a backslash is to Spark.
        pattern = re.sub(r"\\(.)", lambda found: glob.escape(found[1]), absolute(self._root).removeprefix("file://"))
        for root in glob.glob(pattern):
            if os.path.isfile(root):
                yield root
            for folder, inner, names in os.walk(root):
                inner[:] = [name for name in inner if ("=" in name or self._deep) and not _hidden(name)]
                for name in names:
                    if not _hidden(name) and fnmatchcase(name, self._pattern):
                        yield os.path.join(folder, name)


def never_read(network: Network, queries: Iterable[Query]) -> dict[str, int]:
    """Return by source how many files of its folder no query will read; see `Unread.never`."""
    found: dict[str, int] = {}
    for source, checkpoint, number in reading(network, queries):
        found[source.name] = max(found.get(source.name, 0), Unread(source, checkpoint, number).never())
    return {name: count for name, count in found.items() if count}


def not_found(network: Network, queries: Iterable[Query]) -> dict[str, str]:
    """Return by source the path at which no query has found a file, ever."""
    found: dict[str, int] = {}
    for source, checkpoint, number in reading(network, queries):
        found[source.name] = found.get(source.name, 0) + files_seen(checkpoint, number)
    return {name: uri_of(network.sources[name]) for name, count in found.items() if not count}


def reading(network: Network, queries: Iterable[Query]) -> Iterator[tuple[Source, Place, int]]:
    """Return the sources that read files, each with the checkpoint of a query and its number there."""
    for query in queries:
        for name, number in query.numbers.items():
            source = network.sources.get(name)
            if source is not None and source.format in FILES:
                yield source, query.spec.checkpoint, number


def _hidden(name: str) -> bool:
    return name.startswith((".", "_")) and "=" not in name
