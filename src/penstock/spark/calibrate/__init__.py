"""Measuring what operators cost on this Spark.

First pass: each operator alone, as batch jobs over sample rows; the cost is the slope of job time over rows, warm.
Second pass: the whole network in place, on warm hosts and under batches as large as a burst makes them; the time of
a host's batches against the work in them gives its overhead per batch and the factor of in-place costs. In real-time
mode there are none, and rows that queue give the factor.
"""

from penstock.spark.calibrate.alone import calibrate_alone
from penstock.spark.calibrate.in_place import (
    calibrate_in_place,
    host_batches,
    mean_speed,
    measure_overhead,
    measured_state,
    too_few,
)
from penstock.spark.calibrate.queued import calibrate_by_queues
from penstock.spark.calibrate.samples import check_samples, read_samples
from penstock.spark.calibrate.selectivities import measured_selectivities
from penstock.spark.calibrate.slope_of import Precision

__all__ = [
    "Precision",
    "calibrate_alone",
    "calibrate_by_queues",
    "calibrate_in_place",
    "check_samples",
    "host_batches",
    "mean_speed",
    "measure_overhead",
    "measured_selectivities",
    "measured_state",
    "read_samples",
    "too_few",
]
