"""What a query reads, in the order in which Spark notes its offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession


def inputs_of(session: SparkSession, frame: DataFrame, reads: Mapping[str, DataFrame]) -> tuple[str, ...]:
    """Return what a frame reads, once for each place in its plan: a checkpoint has a line of offsets for each.

    Parameters
    ----------
    reads
        Frames by name, of which the plan is made.
    """
    client = cast("Any", session).client
    known = {cast("Any", read)._plan.plan(client).common.plan_id: name for name, read in reads.items()}
    return tuple(_walk(cast("Any", frame)._plan.plan(client), known))


def _walk(relation: Any, known: Mapping[int, str]) -> Iterator[str]:
    name = known.get(relation.common.plan_id)
    if name is not None:
        yield name
        return
    body = getattr(relation, relation.WhichOneof("rel_type"))
    for field, value in body.ListFields():
        if field.message_type is not None and field.message_type.name == "Relation":
            for part in value if field.is_repeated else (value,):
                yield from _walk(part, known)
