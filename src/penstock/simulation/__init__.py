"""ENGINE 1: the network in virtual time, event by event."""

from penstock.shedding.live import Shed
from penstock.simulation.engine import SimulationEngine, held_back
from penstock.simulation.options import (
    Arrivals,
    Failure,
    MicroBatch,
    Move,
    Options,
    Recording,
    Recovery,
    Steering,
    read_arrivals,
)
from penstock.simulation.repeat import Job, repeat, summary
from penstock.simulation.result import SimulationResult
from penstock.simulation.run import Simulation, simulate

__all__ = [
    "Arrivals",
    "Failure",
    "Job",
    "MicroBatch",
    "Move",
    "Options",
    "Recording",
    "Recovery",
    "Shed",
    "Simulation",
    "SimulationEngine",
    "SimulationResult",
    "Steering",
    "held_back",
    "read_arrivals",
    "repeat",
    "simulate",
    "summary",
]
