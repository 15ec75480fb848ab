"""Sinks: a batch's rows are prepared aside, and appear when the batch is committed."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.spark.shipped.identity import unique
from penstock.spark.shipped.messages import deliver_messages
from penstock.spark.shipped.place import Place, absolute, place_of
from penstock.spark.shipped.spec import SinkExit, WriterSpec

FILES = ("json", "csv", "parquet", "orc", "text", "xml", "avro")
"""Formats whose sinks and sources are folders of files."""


@dataclass(frozen=True)
class Delivery:
    """Rows of a sink that wait to be shown.

    Attributes
    ----------
    show
        Makes them visible and returns when that was (µs since 1970).
    note
        Where to note when they became visible, and the stimulus time of each.
    stimulus
        Of each row (µs since 1970).
    """

    show: Callable[[], int]
    note: Place
    stimulus: Any

    def commit(self) -> None:
        """Show the rows, and note their times."""
        import numpy as np

        content = io.BytesIO()
        np.save(content, np.concatenate([[self.show()], self.stimulus.to_numpy()]).astype(np.int64))
        self.note.publish(content.getvalue())


@dataclass(frozen=True)
class Brought:
    """What a batch brings to a sink: its rows (Arrow table); stimulus time and identity of each where it has one."""

    rows: Any
    stimulus: Any
    ids: Any = None


def deliver(
    spec: WriterSpec, way: SinkExit, batch: int, brought: Brought, session: Any, begun: int | None = None
) -> Delivery:
    """Prepare a batch's rows of a sink; ``begun``: when it may have been begun before (ms since 1970)."""
    rows, label = brought.rows, f"{way.label}-{batch:012d}"
    note = spec.folder / "latency" / way.name / f"{spec.query}-{batch:012d}.npy"
    if way.format is None:
        show = _parquet(spec.folder / "sinks" / way.name / f"{spec.query}-{batch:012d}.parquet", rows)
    elif way.format in FILES and "path" in way.options:
        show = _files(way, rows, label, session, spec.generation)
    elif way.format == "kafka":
        show = deliver_messages(rows, unique(brought.ids), way.options, f"{label}:", session, begun)
    else:
        show = _saved(way, rows, session)
    return Delivery(show, note, brought.stimulus)


def _parquet(target: Place, rows: Any) -> Callable[[], int]:
    """Return what shows rows in the run's own folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = pa.BufferOutputStream()
    pq.write_table(rows, buffer)
    content = buffer.getvalue()

    def show() -> int:
        target.publish(content)
        return target.modified()

    return show


def _files(way: SinkExit, rows: Any, label: str, session: Any, generation: int) -> Callable[[], int]:
    """Return what shows rows in a folder that is the user's, under names that nobody else gives."""
    options = {key: value for key, value in way.options.items() if key != "path"}
    folder = place_of(way.options["path"])
    scratch = folder / f"_penstock-{label}-{generation}"
    scratch.remove()
    writer = session.createDataFrame(rows).coalesce(1).write.format(way.format).options(**options)
    writer.mode("overwrite").save(absolute(scratch.uri))

    def show() -> int:
        parts = [name for name in scratch.names() if name.startswith("part-")]
        for number, part in enumerate(parts):
            ending = part[part.index(".") :] if "." in part else ""
            (scratch / part).move(folder / f"part-{label}-{number}{ending}")
        scratch.remove()
        return time.time_ns() // 1000

    return show


def _saved(way: SinkExit, rows: Any, session: Any) -> Callable[[], int]:
    """Return what shows rows in a format that is not files: Spark appends them."""

    def show() -> int:
        writer = session.createDataFrame(rows).write.format(way.format).options(**way.options)
        writer.mode("append").save()
        return time.time_ns() // 1000

    return show
