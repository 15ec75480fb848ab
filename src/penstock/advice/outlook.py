"""A deployment under the rates that are forecast for its queries."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.advice.busiest import busiest
from penstock.advice.forecast import STEP, Forecast, forecast, too_short
from penstock.advice.values import Deployment
from penstock.files import Document

FINE = 60.0
"""Step of the rates that are replayed (s): each forecast is held for so many steps."""


@attrs.frozen(eq=False, kw_only=True)
class Outlook:
    """The deployment under forecast rates, the forecasts by query, and which have none."""

    deployment: Deployment
    forecasts: dict[str, Forecast]
    notes: tuple[str, ...] = ()

    def document(self) -> Document:
        """Return what ``penstock advise --json`` prints of it."""
        return {
            "step": STEP,
            "queries": {
                name: {
                    "middle": found.middle.tolist(),
                    "high": found.high.tolist(),
                    "error": found.error,
                    "naive": found.naive,
                }
                for name, found in self.forecasts.items()
            },
        }


def outlook(deployment: Deployment, horizon: float) -> Outlook:
    """Return the deployment under the high forecast of its rates, over the busiest part of the horizon.

    A query whose own history is too short for it is left out.

    Parameters
    ----------
    deployment
        With its whole history.

    Raises
    ------
    InputError
        If no query has enough history.
    """
    # What was before its first rows is no history of a query.
    histories = {name: job.rates[int(np.argmax(job.rates > 0)) :] for name, job in deployment.jobs.items()}
    reasons = {name: too_short(rates.size * deployment.period, horizon) for name, rates in histories.items()}
    longest = max(histories, key=lambda name: histories[name].size)
    forecasts = {
        name: forecast(rates, deployment.period, horizon)
        for name, rates in histories.items()
        if reasons[name] is None or name == longest
    }
    jobs = {
        name: attrs.evolve(
            deployment.jobs[name], rates=np.repeat(found.high, round(STEP / FINE)), usual=None, waiting=0.0
        )
        for name, found in forecasts.items()
    }
    used = {job.driver for job in jobs.values()}
    drivers = {name: cores for name, cores in deployment.drivers.items() if name in used}
    end = deployment.start + deployment.periods * deployment.period
    later = attrs.evolve(deployment, jobs=jobs, drivers=drivers, period=FINE, start=end)
    return Outlook(
        deployment=busiest(later).deployment,
        forecasts=forecasts,
        notes=tuple(f"{name} is left out of the forecast: {why}" for name, why in reasons.items() if why),
    )
