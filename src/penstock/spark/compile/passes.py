"""A pass: filters, maps and delays behind an origin as one projection that carries a row per input row.

Each operator has a flag that says whether it has the row, and columns; by bits each row says at which streams it
arrived and where it was dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import attrs
import pyspark.sql.functions as F
from pyspark.sql import DataFrame

from penstock.network import Operator, Stream
from penstock.spark.compile import streams
from penstock.spark.compile.deployment import Deployment
from penstock.spark.compile.kinds import columns, envelope
from penstock.spark.compile.sql import condition, plain, quoted, split_columns, spread, starless


@attrs.frozen
class Step:
    """Where an operator's rows are in a pass: the column that says whether there is one, and its columns by name."""

    flag: str
    columns: Mapping[str, str]


@attrs.frozen(eq=False)
class Pass:
    """An evaluated pass.

    Attributes
    ----------
    frame
        Envelope and the columns of every step.
    place
        Where each operator's rows are.
    knobs
        Columns that say whether live streams keep a row.
    """

    frame: DataFrame
    place: Mapping[str, Step]
    knobs: Mapping[str, str]

    def tests(self, deployment: Deployment, stream: Stream) -> tuple[str, str]:
        """Return SQL for whether a row arrives on a stream, and whether the stream keeps it."""
        meant, kept = streams.passes(stream, deployment.network, deployment.drops, self.knobs)
        return all_of(self.place[stream.writer].flag, meant), kept


def all_of(*tests: str) -> str:
    """Return SQL for whether all tests hold."""
    return " AND ".join(test for test in tests if test != "true") or "true"


def evaluate(
    deployment: Deployment, frame: DataFrame, writer: str, steps: Sequence[str], asking: Sequence[Stream], speed: float
) -> Pass:
    """Evaluate filters, maps and delays in one projection.

    Parameters
    ----------
    writer
        Whose rows the frame has.
    steps
        The operators, in order.
    asking
        Streams behind them that may drop.
    speed
        Steps of a delay's loop per second.
    """
    network = deployment.network
    first = Step("__f0", {name: f"__0_{k}" for k, name in enumerate(columns(frame))})
    place = {writer: first}
    kept_columns = [f"{quoted(name)} AS {column}" for name, column in first.columns.items()]
    ours = envelope(frame)
    frame = frame.selectExpr(*ours, f"__id IS NOT NULL AS {first.flag}", *kept_columns)
    asked = [*(network.inputs(step)[0] for step in steps), *asking]
    frame, knobs = streams.with_knobs(frame, asked, network, deployment.drops)
    carried = [*ours, first.flag, *first.columns.values(), *knobs.values()]
    for number, name in enumerate(steps, 1):
        stream = network.inputs(name)[0]
        before, flag = place[stream.writer], f"__f{number}"
        operator = starless(network.operators[name], partial(dict, {"": [*before.columns]}))
        meant, kept = streams.passes(stream, network, deployment.drops, knobs)
        there = all_of(before.flag, meant, kept)
        # The operator's SQL sees its input's columns by their bare names; Spark folds these projections into one.
        if operator.kind == "map":
            if there == before.flag:
                flag = there
            else:
                frame = frame.selectExpr(*carried, f"{there} AS {flag}")
                carried.append(flag)
            made = deployment.schemas[name].fieldNames() if operator.select else []
            shown = {column: f"__{number}_{k}" for k, column in enumerate(made)}
            if operator.select:
                frame = _selected(frame, operator, carried, before, flag, made).toDF(*carried, *shown.values())
            carried += shown.values()
            place[name] = Step(flag, shown or before.columns)
            continue
        bare = [f"{column} AS {quoted(shown)}" for shown, column in before.columns.items()]
        test = f"CASE WHEN {there} THEN coalesce({condition(operator, speed)}, false) ELSE false END"
        frame = frame.selectExpr(*carried, *bare).selectExpr(*carried, f"{test} AS {flag}")
        carried.append(flag)
        place[name] = Step(flag, before.columns)
    return Pass(frame, place, knobs)


def _selected(
    frame: DataFrame, operator: Operator, carried: Sequence[str], before: Step, flag: str, made: Sequence[str]
) -> DataFrame:
    """Return a frame with what a map selects, called ``made``. Rows that are not there must not fail it.

    It is computed only of rows that are there: of nulls in their place it might fail, as a map without a key does.
    """
    bare = [f"{column} AS {quoted(name)}" for name, column in before.columns.items()]
    parts = spread(split_columns(operator.select or "*"), frame.selectExpr(*bare))
    # Under their own names, as parts may use those before them.
    selected = [
        F.expr(part) if plain(part) else F.when(F.expr(flag), F.expr(part)).alias(name)
        for part, name in zip(parts, made, strict=True)
    ]
    return frame.selectExpr(*carried, *bare).select(*carried, *selected)
