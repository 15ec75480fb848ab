"""Warming a host that runs nothing yet: what moves there later finds its code loaded and compiled."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from penstock.spark.compile import slots_of
from penstock.spark.hop.directory import DirectoryLog
from penstock.spark.shipped.place import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SCHEMA = "k bigint, __id bigint, __stimulus bigint, __time timestamp"
PATIENCE = 60.0


def warm(session: SparkSession, folder: Place) -> None:
    """Run a window over a log of one row once; nothing of it stays, and whatever goes wrong is no matter."""
    with contextlib.suppress(Exception):
        handle = _writer(session, folder).start()
        deadline = time.monotonic() + PATIENCE
        while handle.isActive and time.monotonic() < deadline:
            time.sleep(0.5)
        handle.stop()
    folder.remove()


def _writer(session: SparkSession, folder: Place) -> DataStreamWriter:
    import pyarrow as pa
    import pyspark.sql.functions as F
    from pyspark.sql.types import StructType

    table = pa.table({name: pa.array([1], pa.int64()) for name in ("k", "__id", "__stimulus")})
    table = table.append_column("__time", pa.array([1], pa.timestamp("us", "UTC")))
    DirectoryLog(folder / "logs" / "log").write(0, table, (1, 1))

    def take(frame: DataFrame, _batch: int) -> None:
        frame.toArrow()

    reader = session.readStream.format("penstock-log").option("schema", StructType.fromDDL(SCHEMA).json())
    reader = reader.option("slots", str(slots_of(session)))
    rows = reader.option("folder", folder.uri).option("writer", "log").load().withWatermark("__time", "0 seconds")
    counted = rows.groupBy(F.window("__time", "1 second"), "k").agg(F.count(F.lit(1)).alias("n"))
    writer = counted.writeStream.foreachBatch(take).outputMode("append").trigger(availableNow=True)
    return writer.option("checkpointLocation", (folder / "checkpoint").uri)
