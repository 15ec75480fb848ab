"""What a query reads, in the order in which Spark notes its offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

from pyspark.sql import DataFrame, SparkSession

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
    from pyspark.sql.connect.proto import Relation
    from pyspark.sql.connect.session import SparkSession as ConnectSession


def inputs_of(session: SparkSession, frame: DataFrame, reads: Mapping[str, DataFrame]) -> tuple[str, ...]:
    """Return what a frame reads, once for each place in its plan: a checkpoint has a line of offsets for each.

    Parameters
    ----------
    reads
        Frames by name, of which the plan is made.
    """
    client = cast("ConnectSession", session).client
    known = {cast("ConnectFrame", read)._plan.plan(client).common.plan_id: name for name, read in reads.items()}
    return tuple(_walk(cast("ConnectFrame", frame)._plan.plan(client), known))


def _walk(relation: Relation, known: Mapping[int, str]) -> Iterator[str]:
    name = known.get(relation.common.plan_id)
    if name is not None:
        yield name
        return
    kind = relation.WhichOneof("rel_type")
    if kind is None:
        return
    body = getattr(relation, kind)
    for field, value in body.ListFields():
        if field.message_type is not None and field.message_type.name == "Relation":
            for part in value if field.is_repeated else (value,):
                yield from _walk(part, known)
