"""Deployments with chosen numbers, so that a test knows what must come out."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.advice import Deployment, Job

# The made event logs of the inspection's tests: the same maker, so that both rooms agree on what a log looks like.
_spec = importlib.util.spec_from_file_location(
    "made_logs", Path(__file__).resolve().parent.parent / "inspection" / "conftest.py"
)
assert _spec is not None
assert _spec.loader is not None
_made = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_made)
make, write = _made.make, _made.write


def job(name: str = "q", rates: Any = 400.0, **settings: Any) -> Job:
    """Return a query; a number of rows a second stands for a minute of them."""
    series = np.full(60, float(rates)) if np.isscalar(rates) else np.asarray(rates, float)
    return Job(**{"name": name, "driver": "d", "overhead": 0.2, "cost": 0.001, "rates": series, **settings})


def deployment(*jobs: Job, cores: float = 1.0, period: float = 1.0) -> Deployment:
    """Return queries on drivers with so many cores each."""
    return Deployment(
        jobs={each.name: each for each in jobs},
        drivers={each.driver: cores for each in jobs},
        period=period,
    )


@pytest.fixture(name="job")
def job_fixture() -> Any:
    """The maker of queries."""
    return job


@pytest.fixture(name="deployment")
def deployment_fixture() -> Any:
    """The maker of deployments."""
    return deployment
