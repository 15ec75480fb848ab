"""Counting what arrives on streams and what they drop: by Spark, or in columns that the writer reads."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyspark.sql.functions as F

from penstock.network import Stream
from penstock.spark.compile.deployment import Deployment
from penstock.spark.compile.passes import Pass
from penstock.spark.shipped import BITS


def observed(
    deployment: Deployment, done: Pass, counted: Sequence[Stream], name: str, leaving: Sequence[str] = ()
) -> Pass:
    """Let Spark count what arrives on streams and what they drop, and the rows of operators that leave to logs."""
    # Spark observes nothing that may change, as a knob may: whether a row is dropped is a column first.
    tests = []
    for stream in counted:
        there, kept = done.tests(deployment, stream)
        tests.append((there, "false" if kept == "true" else f"{there} AND NOT ({kept})"))
    tests += [(done.place[writer].flag, "false") for writer in leaving]
    shown, sums = [], []
    for number, (there, lost) in enumerate(tests):
        shown += [f"{there} AS __a{number}", f"{lost} AS __d{number}"]
        sums += [F.expr(f"count(CASE WHEN __{k}{number} THEN 1 END) AS {k}{number}") for k in "ad"]
    return attrs.evolve(done, frame=done.frame.selectExpr("*", *shown).observe(name, *sums))


def seen(deployment: Deployment, done: Pass, counted: Sequence[Stream], number: int) -> list[str]:
    """Return the columns that say to the writer where a row of pass ``number`` arrived and was dropped."""
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
    return found
