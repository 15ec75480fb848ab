"""A deployment under the rates that are forecast for its queries."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.advice.busiest import busiest
from penstock.advice.forecast import STEP, Forecast, forecast
from penstock.advice.values import Deployment
from penstock.files import Document

FINE = 60.0
"""Step of the rates that are replayed (s): each forecast is held for so many steps."""


@attrs.frozen(eq=False, kw_only=True)
class Outlook:
    """The deployment under forecast rates, and the forecasts by query."""

    deployment: Deployment
    forecasts: dict[str, Forecast]

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

    Parameters
    ----------
    deployment
        With its whole history.

    Raises
    ------
    InputError
        If the history is too short.
    """
    forecasts = {name: forecast(job.rates, deployment.period, horizon) for name, job in deployment.jobs.items()}
    jobs = {
        name: attrs.evolve(job, rates=np.repeat(forecasts[name].high, round(STEP / FINE)), usual=None, waiting=0.0)
        for name, job in deployment.jobs.items()
    }
    end = deployment.start + deployment.periods * deployment.period
    return Outlook(
        deployment=busiest(attrs.evolve(deployment, jobs=jobs, period=FINE, start=end)).deployment, forecasts=forecasts
    )
