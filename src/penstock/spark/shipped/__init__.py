"""Code that runs on the hosts. It is shipped by value, so that hosts need pyspark and nothing of ours.

With it go `penstock.spark.hop`, `penstock.workload.nexmark` and `penstock.shedding.alone` (`compile/compiler.py` has
the list). Besides them, imports are the standard library, numpy, pyarrow and pyspark only, and happen inside functions
where they are slow.
"""

from typing import Any

Offset = dict[str, Any]
"""How far a reader of a source is, as Spark keeps it: what JSON has."""

ENVELOPE = ("__id", "__stimulus", "__time")
"""Identity (64 bits), stimulus time (µs since the epoch), event time of every row."""

LANE, POSITION = PLACE = ("__lane", "__position")
"""What rows in real-time mode carry besides: the lane that they are in (64 bits), and their position there.

A lane is what one partition of a source becomes on one way through the network. Its rows stay in order, so that its
last row in a topic says which of them are there.
"""

BITS = 62
"""Bits of a column that notes where rows arrived; an observation would cost as much per row as the rows' transfer."""
