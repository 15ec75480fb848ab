"""Code that runs on the hosts. It is shipped by value, so that hosts need pyspark and nothing of ours.

Imports are the standard library, numpy, pyarrow and pyspark only, and happen inside functions where they are slow.
"""

ENVELOPE = ("_id", "_stimulus", "_time")
"""Identity (64 bits), stimulus time (µs since the epoch), event time of every row."""

BITS = 62
"""Bits of a column that notes where rows arrived; an observation would cost as much per row as the rows' transfer."""
