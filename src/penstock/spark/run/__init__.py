"""Running placed networks on Spark hosts, and reading what came of it."""

from penstock.spark.compile import scheduled_rates
from penstock.spark.run.engine import Engine
from penstock.spark.run.folder import claimed, hosts_of, noted_sessions, placement_of
from penstock.spark.run.live import SparkEngine
from penstock.spark.run.outcome import Batch, Outcome
from penstock.spark.run.system import Report

__all__ = [
    "Batch",
    "Engine",
    "Outcome",
    "Report",
    "SparkEngine",
    "claimed",
    "hosts_of",
    "noted_sessions",
    "placement_of",
    "scheduled_rates",
]
