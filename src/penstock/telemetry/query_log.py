"""What the logs tell of one query: its runs and its batches."""

from __future__ import annotations

import attrs

from penstock.telemetry.batches import Batches


@attrs.frozen(kw_only=True)
class Run:
    """One run of a query, from its start to its end.

    Attributes
    ----------
    id
        Spark's ``runId``.
    start, end
        Seconds since the epoch; None where the log does not tell (cut off, or progress reports only).
    error
        The exception by which it ended.
    """

    id: str
    start: float | None = None
    end: float | None = None
    error: str | None = None


@attrs.frozen(eq=False, kw_only=True)
class QueryLog:
    """What the logs tell of one query.

    Attributes
    ----------
    name
        The query's name, or its identifier if it has none; unique.
    ids
        Spark's identifiers: one a checkpoint.
    app
        Identifier of the application in which its last batch ran.
    runs, batches
        Its runs by the time of their start, also those that ended before a first batch; the batches of all of them.
    sources, sink
        As Spark describes them, e.g. ``KafkaV2[Subscribe[clicks]]``.
    state
        Names of its stateful operators, e.g. ``stateStoreSave``.
    partitions, store
        Partitions of its state, at most, and the class of its state store; None and empty where progress does not tell.
    times_read
        How many times each batch reads its source: more than once where Kafka's offsets show that the actions of a
        ``foreachBatch`` do. Its rows are counted once.
    real_time
        Whether it is known to run in real-time mode: its batches are as long as its trigger says, and rows leave
        while one runs. Only an event log tells.
    """

    name: str
    ids: tuple[str, ...]
    app: str
    runs: tuple[Run, ...]
    batches: Batches
    sources: tuple[str, ...]
    sink: str
    state: tuple[str, ...] = ()
    partitions: int | None = None
    store: str = ""
    times_read: int = 1
    real_time: bool = False
