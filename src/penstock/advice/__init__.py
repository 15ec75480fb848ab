"""What to change about existing Spark jobs: settings, drivers and cores, each with evidence and expected effect.

`deployed` makes a `Deployment` of an inspection, `planned` one of a network's files; `advise` proposes changes of every
kind and replays the recorded rates with and without each. Nothing is changed: advice is a report.
"""

from penstock.advice.advise import advise
from penstock.advice.consult import Burst, Consultation, consult
from penstock.advice.deployed import deployed
from penstock.advice.forecast import Forecast, forecast
from penstock.advice.planned import planned
from penstock.advice.rates import with_burst
from penstock.advice.values import Advice, Aims, Deployment, Job, Latency, Proposal, Report

__all__ = [
    "Advice",
    "Aims",
    "Burst",
    "Consultation",
    "Deployment",
    "Forecast",
    "Job",
    "Latency",
    "Proposal",
    "Report",
    "advise",
    "consult",
    "deployed",
    "forecast",
    "planned",
    "with_burst",
]
