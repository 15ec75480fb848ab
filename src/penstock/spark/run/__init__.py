"""Running placed networks on Spark hosts, and reading what came of it."""

from penstock.spark.compile import scheduled_rates
from penstock.spark.run.engine import Engine
from penstock.spark.run.folder import noted_sessions
from penstock.spark.run.live import SparkEngine
from penstock.spark.run.outcome import Batch, Outcome
from penstock.spark.run.system import Report

__all__ = [
    "Batch",
    "Engine",
    "Outcome",
    "Report",
    "SparkEngine",
    "noted_sessions",
    "scheduled_rates",
]
