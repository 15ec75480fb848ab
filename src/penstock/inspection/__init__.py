"""What existing Spark jobs cost, from what they told while they ran; nothing is deployed and no Spark is needed.

`inspect` turns the batches that `penstock.telemetry` read into measured queries: seconds a batch by its rows, rates,
lag, headroom, and findings with their evidence. `export` writes them as network, rates, statistics and cluster, on
which all other commands work.
"""

from penstock.inspection.export import export
from penstock.inspection.fit import fit_batches
from penstock.inspection.fitted import Fit
from penstock.inspection.given import FEW, fit_given
from penstock.inspection.inspect import inspect
from penstock.inspection.span import moment
from penstock.inspection.values import Capacity, Finding, Inspection, Query, alike

__all__ = [
    "FEW",
    "Capacity",
    "Finding",
    "Fit",
    "Inspection",
    "Query",
    "alike",
    "export",
    "fit_batches",
    "fit_given",
    "inspect",
    "moment",
]
