"""Sinks: a batch's rows are prepared aside, and appear when the batch is committed."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from penstock.spark.shipped.identity import Signed
from penstock.spark.shipped.messages import deliver_messages
from penstock.spark.shipped.place import Place, place_of
from penstock.spark.shipped.share import Brought, as_parquet, put_aside
from penstock.spark.shipped.spec import SinkExit, WriterSpec
from penstock.spark.shipped.told import note_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

FILES = ("json", "csv", "parquet", "orc", "text", "xml", "avro")
"""Formats whose sinks and sources are folders of files."""

LARGE = 1 << 18
"""Bytes from which on rows go to Spark in a file, which is no slower; of a mebibyte that is sent it frees nothing."""


def is_folder(form: str | None, options: Mapping[str, str]) -> bool:
    """Whether a sink is a folder of files that the user has named."""
    return form in FILES and "path" in options


class Rows(Protocol):
    """Rows of a sink, in this process or where tasks have put them."""

    @property
    def stimulus(self) -> Signed:
        """Stimulus time of each (array of µs since 1970)."""

    @property
    def files(self) -> Sequence[Place]:
        """Where they are, if they are aside."""

    def frame(self, session: SparkSession) -> DataFrame:
        """Return them as a frame, with ``__id`` where they have identities."""


@dataclass(frozen=True)
class Here:
    """Rows in this process."""

    way: SinkExit
    brought: Brought
    files: Sequence[Place] = ()

    @property
    def stimulus(self) -> Signed:
        """Stimulus time of each."""
        stimulus: Signed = self.brought.stimulus.to_numpy()
        return stimulus

    def frame(self, session: SparkSession) -> DataFrame:
        """Return them as a frame, of one partition."""
        return session.createDataFrame(self.brought.identified, shape_of(self.way)).coalesce(1)

    def aside(self, spec: WriterSpec, batch: int) -> Rows:
        """Return them in a file, if they are many and a file can hold them."""
        if self.brought.identified.nbytes < LARGE or not filed(shape_of(self.way), top=True):
            return self
        return Aside(self.way, [put_aside(spec, self.way, batch, self.brought)], self.stimulus)


@dataclass(frozen=True)
class Aside:
    """Rows that have been put into parquet files whose columns are numbered; see `put_aside`."""

    way: SinkExit
    files: Sequence[Place]
    stimulus: Signed

    def frame(self, session: SparkSession) -> DataFrame:
        """Return them as a frame, read by tasks again."""
        from pyspark.sql.types import StructType

        shape, numbered = shape_of(self.way), StructType()
        for number, each in enumerate(shape.fields):
            numbered.add(f"c{number}", each.dataType)
        return session.read.schema(numbered).parquet(*(file.pattern for file in self.files)).toDF(*shape.names)


def shape_of(way: SinkExit) -> StructType:
    """Return the type of a sink's rows, any of which may be null, with ``__id`` where they have identities."""
    from pyspark.sql.types import LongType, StructType

    shape = StructType()
    for each in StructType.fromJson(json.loads(way.shape)).fields:
        shape.add(each.name, each.dataType)
    return shape.add("__id", LongType()) if way.format == "kafka" else shape


def filed(kind: DataType, *, top: bool = False) -> bool:
    """Whether Spark reads a type from parquet as pyarrow writes it; ``top``: of rows, whose columns are numbered."""
    import pyspark.sql.types as kinds

    if isinstance(kind, kinds.StructType):
        names = {name.lower() for name in kind.names}
        return (top or 0 < len(names) == len(kind.names)) and all(filed(field.dataType) for field in kind.fields)
    if isinstance(kind, kinds.ArrayType):
        return filed(kind.elementType)
    if isinstance(kind, kinds.MapType):
        return filed(kind.keyType) and filed(kind.valueType)
    times = (kinds.DateType, kinds.DayTimeIntervalType, kinds.TimestampNTZType, kinds.TimestampType)
    others = (kinds.BinaryType, kinds.BooleanType, kinds.NullType, kinds.NumericType, kinds.StringType)
    return isinstance(kind, (*times, *others, kinds.VariantType))


@dataclass(frozen=True)
class Laid:
    """Rows that Spark has put into files as they are to be shown, in a folder that is of no use afterwards.

    ``stimulus`` is an array (2, n): times (µs since 1970), and how many rows had each.
    """

    scratch: Place
    files: Sequence[Place]
    stimulus: Signed


@dataclass(frozen=True)
class Delivery:
    """Rows of a sink that wait to be shown.

    Attributes
    ----------
    note
        Where to note when they became visible, and the stimulus time of each.
    stimulus
        Of each row (µs since 1970), or times, and how many rows had each: array (2, n).
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
    """Return the content of a note: that rows are visible from now on, above their stimulus times; see `Delivery`."""
    import numpy as np

    content, now = io.BytesIO(), np.full((1, *stimulus.shape[1:]), time.time_ns() // 1000)
    np.save(content, np.concatenate([now, stimulus]).astype(np.int64))
    return content.getvalue()


def deliver(
    spec: WriterSpec, way: SinkExit, batch: int, rows: Rows | Laid, session: SparkSession, begun: int | None
) -> Delivery:
    """Prepare a batch's rows of a sink; ``begun``: when it may have been begun before (ms since 1970)."""
    note = note_of(spec.folder, spec.query, batch, way.name)
    form = way.format
    if isinstance(rows, Laid):
        return Delivery(note, rows.stimulus, moves=_named(spec, way, batch, rows.files), left=[rows.scratch])
    if form is None:
        return _parquet(spec, way, batch, rows, note)
    if isinstance(rows, Here):
        rows = rows.aside(spec, batch)
    if is_folder(form, way.options):
        scratch = scratch_of(spec, way, batch)
        files = lay(way, rows.frame(session), scratch)
        return Delivery(note, rows.stimulus, moves=_named(spec, way, batch, files), left=[scratch, *rows.files])

    def send() -> None:
        if form == "kafka":
            mark = f"{way.label}-{batch:012d}:"
            deliver_messages(rows.frame(session), way.options, mark, session, begun)
        else:
            rows.frame(session).write.format(form).options(**way.options).mode("append").save()

    return Delivery(note, rows.stimulus, send, left=rows.files)


def scratch_of(spec: WriterSpec, way: SinkExit, batch: int) -> Place:
    """Return the folder in which Spark writes a batch's files of a sink, on the file system where they are shown."""
    if way.format is None:
        return spec.aside / f"{batch:012d}"
    return place_of(way.options["path"]) / f"{scratches(way)}{batch:012d}-{spec.generation}"


def scratches(way: SinkExit) -> str:
    """Return how the names of such folders begin among a user's files."""
    return f"_penstock-{way.label}-"


def written_in(way: SinkExit, name: str) -> int | None:
    """Return which generation wrote in a folder of this name, None if it is none of the sink's."""
    found = re.fullmatch(re.escape(scratches(way)) + r"\d{12}-(\d+)", name)
    return int(found[1]) if found else None


def shown(way: SinkExit) -> str:
    """Return how the names of a sink's own files begin among a user's."""
    return f"part-{way.label}-"


def shown_by(way: SinkExit, name: str) -> int | None:
    """Return which batch has shown a file of this name, None if it is none of the sink's."""
    found = re.match(re.escape(shown(way)) + r"(\d{12})-\d+(\.|$)", name)
    return int(found[1]) if found else None


def lay(way: SinkExit, frame: DataFrame, scratch: Place) -> list[Place]:
    """Let Spark write rows of a sink into a folder; return the files."""
    scratch.remove()
    options = {key: value for key, value in way.options.items() if key != "path"}
    frame.write.format(way.format or "parquet").options(**options).mode("overwrite").save(scratch.uri)
    return [scratch / name for name in scratch.names() if name.startswith("part-")]


def _named(spec: WriterSpec, way: SinkExit, batch: int, files: Sequence[Place]) -> list[tuple[Place, Place]]:
    """Return what a batch's files are to be called, where the sink's are; nobody else gives such names."""
    if way.format is None:
        folder, name = spec.folder / "sinks" / way.name, f"{spec.query}-{batch:012d}"
        return [(file, folder / f"{name}{f'-{number}' if number else ''}.parquet") for number, file in enumerate(files)]
    folder, name = place_of(way.options["path"]), f"{shown(way)}{batch:012d}"
    endings = [file.name[file.name.index(".") :] if "." in file.name else "" for file in files]
    return [(file, folder / f"{name}-{number}{endings[number]}") for number, file in enumerate(files)]


def _parquet(spec: WriterSpec, way: SinkExit, batch: int, rows: Rows, note: Place) -> Delivery:
    """Return what shows rows in the run's own folder."""
    if not isinstance(rows, Here):
        return Delivery(note, rows.stimulus, moves=_named(spec, way, batch, rows.files))
    content = as_parquet(rows.brought.rows, way)

    def send() -> None:
        (spec.folder / "sinks" / way.name / f"{spec.query}-{batch:012d}.parquet").publish(content)

    return Delivery(note, rows.stimulus, send)
