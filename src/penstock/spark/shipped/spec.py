"""What a query's writer is told: frozen values, shipped with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from penstock.spark.hop.topics import Topics
from penstock.spark.shipped.place import Place

Metrics: TypeAlias = "dict[str, tuple[int, int | None]]"
"""By stream, the numbers of the metrics of an observation that count what arrived and what was dropped.

None: it drops nothing.
"""


@dataclass(frozen=True)
class Origin:
    """A source or log that a query reads.

    Attributes
    ----------
    name
        Of the source, or of the operator whose log it is.
    marked
        Whether its frontier comes as marks; else the latest event time less the lateness is its frontier.
    lateness
        Of a source without marks (µs).
    """

    name: str
    marked: bool
    lateness: int


@dataclass(frozen=True)
class LogExit:
    """An operator whose rows leave to a log.

    Attributes
    ----------
    writer
        The operator.
    column
        Says of each row whether it leaves.
    columns
        Name in the batch and name in the log of each column.
    origins
        Numbers of the origins whose frontiers hold for it.
    stateful
        Whether it lies behind a stateful operator of the query: then the query's watermark is its frontier.
    numbered
        Whether its rows' identities need the batch's number, since their source has no positions.
    base
        Number in the log of what would be the query's batch 0: a query on a fresh checkpoint goes on in its log.
    """

    writer: str
    column: str
    columns: tuple[tuple[str, str], ...]
    origins: tuple[int, ...]
    stateful: bool
    numbered: bool
    base: int = 0


@dataclass(frozen=True)
class SinkExit:
    """A sink.

    Attributes
    ----------
    name
        Of the sink.
    seen
        Number of the pass, and of the stream in it, whose bits say which rows arrived and were not dropped.
    columns
        Name in the batch and name in the sink of each column.
    format, options
        Of Spark's writer; None: parquet in the run's folder.
    label
        Begins the names of the files in a folder that others may use too: the run's, query's and sink's own. Between
        the names of query and sink is what no name has.
    shape
        JSON of the columns' type.
    """

    name: str
    seen: tuple[int, int]
    columns: tuple[tuple[str, str], ...]
    format: str | None
    options: Mapping[str, str]
    label: str
    shape: str = ""


@dataclass(frozen=True)
class Windows:
    """Windows that a live stream drops whole.

    Attributes
    ----------
    count
        Windows that a row is in.
    length
        In µs.
    origins
        Numbers of the origins that the stream derives from.
    """

    count: int
    length: int
    origins: tuple[int, ...]


@dataclass(frozen=True)
class Door:
    """An input of a host, as one of its queries reads it.

    Attributes
    ----------
    name
        ``writer@host``, as the host's table has it.
    writer
        The source, or the operator of another query.
    stream, share
        One of its streams here, whose rows are counted, and the part of what comes that goes there.
    scheduled
        Whether a batch's offsets count what comes with it.
    """

    name: str
    writer: str
    stream: str
    share: float
    scheduled: bool


@dataclass(frozen=True)
class Knobs:
    """What is decided before each batch.

    Attributes
    ----------
    limits
        Streams that drop rows.
    windows
        By stream that drops whole windows.
    others
        By query, streams that it decides of and that drop windows of aggregates here.
    prompt
        Whether penstock measures rates when a batch begins.
    file
        Where the query's plan reads what is decided; None: from properties of the host's JVM.
    copy
        Checkpoint of the copy that decides, whose properties are its own; empty where there are none.
    doors
        Through which the query takes what its host's table is asked for.
    """

    limits: tuple[str, ...]
    windows: Mapping[str, Windows]
    others: Mapping[str, tuple[str, ...]]
    prompt: bool = False
    file: Place | None = None
    copy: str = ""
    doors: tuple[Door, ...] = ()


@dataclass(frozen=True)
class WriterSpec:
    """What a query's writer does with a batch.

    Attributes
    ----------
    folder
        Of the run.
    query
        The query's name: that of its unit.
    origins
        What it reads.
    logs, sinks
        Where its rows go.
    passes
        By pass the streams whose bits, arrived and dropped, its rows carry.
    observations
        By name of Spark's observation, the metrics of the streams that it counts.
    stateful
        The stateful operators, in the order of Spark's plan, with the stream that their late rows count on.
    timed
        Whether rows tell event times to the writer.
    knobs
        None where nothing follows a plan.
    session
        Id of the session that started the query.
    generation
        Of the unit: only the newest delivers.
    saved
        Name of the checkpoint's folder; the query's, unless it was begun anew.
    host
        Where the query runs.
    topics
        Where its logs are, if not in the folder.
    spread
        Whether the tasks that compute rows also write them; else the query's own Python process does.
    native
        Whether these tasks are Spark's own, without Python: see `penstock.spark.shipped.native`.
    dropping
        Which of these streams drop rows, or may.
    alike
        By pass, of each bit the first one that the same rows have; empty: each is the only one.
    """

    folder: Place
    query: str
    origins: tuple[Origin, ...]
    logs: tuple[LogExit, ...]
    sinks: tuple[SinkExit, ...]
    passes: tuple[tuple[str, ...], ...]
    observations: Mapping[str, Metrics]
    stateful: tuple[str, ...]
    timed: bool
    knobs: Knobs | None
    session: str = ""
    generation: int = 0
    saved: str = ""
    host: str = ""
    topics: Topics | None = None
    spread: bool = False
    native: bool = False
    dropping: frozenset[str] = frozenset()
    alike: tuple[tuple[int, ...], ...] = ()

    def first_of(self, place: int, bit: int) -> int:
        """Return the first of the bits of a pass that the same rows have."""
        return self.alike[place][bit] if self.alike else bit

    def named(self, frontiers: Mapping[str, int]) -> dict[str, int]:
        """Return frontiers by number of the origin as they are kept: by name, for shapes that number them otherwise."""
        return {self.origins[int(number)].name: at for number, at in frontiers.items()}

    def numbered(self, kept: Mapping[str, int]) -> dict[str, int]:
        """Return the frontiers that are kept, by number of the origin; those of other shapes may be among them."""
        return {str(number): kept[o.name] for number, o in enumerate(self.origins) if o.name in kept}

    @property
    def checkpoint(self) -> Place:
        """Where Spark keeps the query's offsets, commits and state."""
        return self.folder / "checkpoints" / (self.saved or self.query)

    @property
    def aside(self) -> Place:
        """Where this generation prepares rows for sinks."""
        return self.asides / str(self.generation)

    @property
    def asides(self) -> Place:
        """Where each generation of the unit has a folder of that name."""
        return self.folder / "aside" / self.query

    @property
    def observed(self) -> bool:
        """Whether Spark's report of a batch holds counts that are nowhere else."""
        return bool(self.observations or self.stateful)
