"""Counting what arrives on streams and what they drop: by Spark, or in columns that the writer reads."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyspark.sql.functions as F

from penstock.network import Stream
from penstock.spark.compile.deployment import Deployment
from penstock.spark.compile.passes import Pass
from penstock.spark.shipped import BITS
from penstock.spark.shipped.spec import Metrics

LEFT = "@"
"""Before an operator whose rows leave to a log, among what is counted of streams."""


def observed(
    deployment: Deployment, done: Pass, counted: Sequence[Stream], name: str, leaving: Sequence[str] = ()
) -> tuple[Pass, Metrics]:
    """Let Spark count what arrives on streams and what they drop, and the rows of operators that leave to logs.

    Returns
    -------
    tuple
        The pass, and the metrics of each stream; operators are behind `LEFT`.
    """
    # What is equal is counted once: each count takes time for every row.
    numbers: dict[str, int] = {}

    def metric(test: str) -> int:
        return numbers.setdefault(test, len(numbers))

    told: Metrics = {}
    for stream in counted:
        there, kept = done.tests(deployment, stream)
        told[stream.name] = metric(there), None if kept == "true" else metric(f"{there} AND NOT ({kept})")
    told |= {f"{LEFT}{writer}": (metric(done.place[writer].flag), None) for writer in leaving}
    flags = {step.flag for step in done.place.values()}
    # Spark observes nothing that may change, as a knob may: whether a row is dropped is a column first.
    shown = [f"{test} AS __n{number}" for test, number in numbers.items() if test not in flags]
    tests = [test if test in flags else f"__n{number}" for test, number in numbers.items()]
    counts = [F.expr(f"count(CASE WHEN {test} THEN 1 END) AS n{number}") for number, test in enumerate(tests)]
    return attrs.evolve(done, frame=done.frame.selectExpr("*", *shown).observe(name, *counts)), told


def seen(
    deployment: Deployment, done: Pass, counted: Sequence[Stream], number: int
) -> tuple[list[str], tuple[int, ...]]:
    """Return the columns that say to the writer where a row of pass ``number`` arrived and was dropped.

    Also, of each of their bits, the first one that the same rows have.
    """
    tests = []
    for stream in counted:
        there, kept = done.tests(deployment, stream)
        tests += [there, "false" if kept == "true" else f"{there} AND NOT ({kept})"]
    found = []
    for part_number, begin in enumerate(range(0, len(tests), BITS)):
        part = tests[begin : begin + BITS]
        width = "L" if len(part) > 31 else ""
        bits = [
            f"CASE WHEN {test} THEN {1 << bit}{width} ELSE 0{width} END"
            for bit, test in enumerate(part)
            if test != "false"
        ]
        # Sums would be checked for overflow.
        found.append(f"{' | '.join(bits or ['0'])} AS _seen{number}_{part_number}")
    first: dict[str, int] = {}
    return found, tuple(first.setdefault(test, bit) for bit, test in enumerate(tests))
