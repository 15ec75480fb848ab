"""WHAT IT COSTS: the load model, the one object that every decision reads."""

from penstock.load.model import LoadModel, expand_replicas, growth_factor, load_model
from penstock.load.series import correlation, correlation_matrix, deviation
from penstock.load.statistics import OperatorStatistics, Statistics, read_statistics

__all__ = [
    "LoadModel",
    "OperatorStatistics",
    "Statistics",
    "correlation",
    "correlation_matrix",
    "deviation",
    "expand_replicas",
    "growth_factor",
    "load_model",
    "read_statistics",
]
