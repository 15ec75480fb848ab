"""What logs show to be deployed, with what they tell of it besides rates and costs."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from penstock.advice.deployed import deployed
from penstock.advice.planned import checked_weights
from penstock.advice.values import Deployment
from penstock.errors import InputError
from penstock.inspection import Inspection

REAL_TIME = "in real-time mode rows leave while a batch runs, which no replay of batches tells"


def recorded(
    inspection: Inspection, weights: Mapping[str, float] | None = None, cores: Mapping[str, float] | None = None
) -> Deployment:
    """Return the deployment that logs show, without queries in real-time mode, and when each driver was there.

    Parameters
    ----------
    weights, cores
        As `deployed` takes them.

    Raises
    ------
    InputError
        If `deployed` raises it, or all queries are in real-time mode.
    """
    weights = weights or {}
    checked_weights(weights, inspection.queries)
    left_out = [name for name, query in inspection.queries.items() if query.log.real_time]
    queries = {name: query for name, query in inspection.queries.items() if name not in left_out}
    if not queries:
        raise InputError(f"nothing to advise on: {REAL_TIME}")
    worth = {name: weight for name, weight in weights.items() if name in queries}
    found = deployed(attrs.evolve(inspection, queries=queries), worth, cores)
    spans = {
        name: (application.start, application.end)
        for name, application in inspection.applications.items()
        if application.end > application.start  # neither is NaN, which progress may leave
    }
    notes = (f"left out: {', '.join(left_out)}; {REAL_TIME}",) if left_out else ()
    return attrs.evolve(found, spans=spans, notes=(*found.notes, *notes))
