"""ENGINE 1: the network in virtual time, event by event."""

from penstock.simulation.options import Arrivals, Failure, MicroBatch, Move, Options, Recovery, read_arrivals
from penstock.simulation.result import SimulationResult
from penstock.simulation.run import simulate

__all__ = [
    "Arrivals",
    "Failure",
    "MicroBatch",
    "Move",
    "Options",
    "Recovery",
    "SimulationResult",
    "read_arrivals",
    "simulate",
]
