"""Sinks: a batch's rows are prepared aside, and appear when the batch is committed."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from penstock.spark.shipped.identity import Signed
from penstock.spark.shipped.messages import deliver_messages
from penstock.spark.shipped.place import Place, absolute, place_of
from penstock.spark.shipped.share import Brought
from penstock.spark.shipped.spec import SinkExit, WriterSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

FILES = ("json", "csv", "parquet", "orc", "text", "xml", "avro")
"""Formats whose sinks and sources are folders of files."""


class Rows(Protocol):
    """Rows of a sink, in this process or where tasks have put them."""

    @property
    def stimulus(self) -> Signed:
        """Stimulus time of each (array of µs since 1970)."""

    @property
    def files(self) -> Sequence[Place]:
        """Where they are, if they are aside."""

    def frame(self, session: SparkSession) -> DataFrame:
        """Return them as a frame, with ``_id`` where they have identities."""


@dataclass(frozen=True)
class Here:
    """Rows in this process."""

    brought: Brought
    files: Sequence[Place] = ()

    @property
    def stimulus(self) -> Signed:
        """Stimulus time of each."""
        stimulus: Signed = self.brought.stimulus.to_numpy()
        return stimulus

    def frame(self, session: SparkSession) -> DataFrame:
        """Return them as a frame, of one partition."""
        rows, ids = self.brought.rows, self.brought.ids
        return session.createDataFrame(rows if ids is None else rows.append_column("_id", ids)).coalesce(1)


@dataclass(frozen=True)
class Aside:
    """Rows that tasks have put into parquet files whose columns are numbered."""

    way: SinkExit
    files: Sequence[Place]
    stimulus: Signed

    def frame(self, session: SparkSession) -> DataFrame:
        """Return them as a frame, read by tasks again."""
        from pyspark.sql.types import LongType, StructField, StructType

        fields = StructType.fromJson(json.loads(self.way.shape)).fields
        shape = [StructField(f"c{number}", each.dataType, True) for number, each in enumerate(fields)]
        names = [each.name for each in fields]
        if self.way.format == "kafka":
            shape.append(StructField("_id", LongType(), True))
            names.append("_id")
        reader = session.read.schema(StructType(shape))
        return reader.parquet(*(file.uri for file in self.files)).toDF(*names)


@dataclass(frozen=True)
class Delivery:
    """Rows of a sink that wait to be shown.

    Attributes
    ----------
    note
        Where to note when they became visible, and the stimulus time of each.
    stimulus
        Of each row (µs since 1970).
    send
        Shows what cannot be shown by renaming files.
    moves
        Files and what they are to be called.
    left
        What is of no use afterwards.
    """

    note: Place
    stimulus: Signed
    send: Callable[[], None] = lambda: None
    moves: Sequence[tuple[Place, Place]] = ()
    left: Sequence[Place] = field(default=())

    def begin(self) -> None:
        """Note the rows as visible now, before they are: a note of them must not be missing."""
        self.note.publish(noted(self.stimulus))

    def show(self, *, begun: bool) -> None:
        """Make the rows visible, and note when that was, anew if they were noted before."""
        for file, target in self.moves:
            file.move(target)
        (self.note.replace if begun else self.note.publish)(noted(self.stimulus))

    def clear(self) -> None:
        """Remove what is of no use any more."""
        for place in self.left:
            place.remove()


def noted(stimulus: Signed) -> bytes:
    """Return the content of a note: that rows are visible from now on, and the stimulus time of each."""
    import numpy as np

    content = io.BytesIO()
    np.save(content, np.concatenate([[time.time_ns() // 1000], stimulus]).astype(np.int64))
    return content.getvalue()


def deliver(
    spec: WriterSpec, way: SinkExit, batch: int, rows: Rows, session: SparkSession, begun: int | None
) -> Delivery:
    """Prepare a batch's rows of a sink; ``begun``: when it may have been begun before (ms since 1970)."""
    label = f"{way.label}-{batch:012d}"
    note = spec.folder / "latency" / way.name / f"{spec.query}-{batch:012d}.npy"
    form = way.format
    if form is None:
        return _parquet(spec.folder / "sinks" / way.name, f"{spec.query}-{batch:012d}", rows, note)
    if form in FILES and "path" in way.options:
        return _files(way, rows, rows.frame(session).write.format(form), f"{label}-{spec.generation}", label, note)

    def send() -> None:
        if form == "kafka":
            deliver_messages(rows.frame(session), way.options, f"{label}:", session, begun)
        else:
            rows.frame(session).write.format(form).options(**way.options).mode("append").save()

    return Delivery(note, rows.stimulus, send, left=rows.files)


def numbered(name: str, number: int, ending: str) -> str:
    """Return the name of one of several files, of which the first is called as if it were alone."""
    return f"{name}{f'-{number}' if number else ''}{ending}"


def _parquet(folder: Place, name: str, rows: Rows, note: Place) -> Delivery:
    """Return what shows rows in the run's own folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    moves = [(file, folder / numbered(name, number, ".parquet")) for number, file in enumerate(rows.files)]
    if not isinstance(rows, Here):
        return Delivery(note, rows.stimulus, moves=moves)
    buffer = pa.BufferOutputStream()
    pq.write_table(rows.brought.rows, buffer)
    content = buffer.getvalue()

    def send() -> None:
        (folder / f"{name}.parquet").publish(content)

    return Delivery(note, rows.stimulus, send)


def _files(way: SinkExit, rows: Rows, writer: DataFrameWriter, attempt: str, label: str, note: Place) -> Delivery:
    """Return what shows rows in a folder that is the user's, under names that nobody else gives."""
    options = {key: value for key, value in way.options.items() if key != "path"}
    folder = place_of(way.options["path"])
    scratch = folder / f"_penstock-{attempt}"
    scratch.remove()
    writer.options(**options).mode("overwrite").save(absolute(scratch.uri))
    moves = []
    for number, part in enumerate(name for name in scratch.names() if name.startswith("part-")):
        ending = part[part.index(".") :] if "." in part else ""
        moves.append((scratch / part, folder / f"part-{label}-{number}{ending}"))
    return Delivery(note, rows.stimulus, moves=moves, left=[scratch, *rows.files])
