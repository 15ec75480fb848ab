"""Which log an operator's rows are in. It is shipped to the hosts by value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.hop import Hop
from penstock.spark.hop.directory import DirectoryLog
from penstock.spark.hop.kafka import KafkaLog
from penstock.spark.hop.topics import Topics
from penstock.spark.shipped.place import Place

if TYPE_CHECKING:
    import pyarrow as pa


def log_of(folder: Place, topics: Topics | None, writer: str, shape: pa.Schema | None = None) -> Hop:
    """Return an operator's log: in the run's folder, or in a topic; ``shape`` is what its readers want."""
    if topics is not None:
        return KafkaLog(topics, writer, shape)
    return DirectoryLog(folder / "logs" / writer, shape)
