"""WHAT PASSES between the loop and the engines: what was seen, what is wanted, what came of asking for it."""

from penstock.steering.events import Admit, Event, Kill, NewRates, Recover, Slow
from penstock.steering.observation import HostSeen, LatencySeen, Observation, UnitSeen
from penstock.steering.plan import Applied, Change, Plan, Refused, changes, rows_a_batch

__all__ = [
    "Admit",
    "Applied",
    "Change",
    "Event",
    "HostSeen",
    "Kill",
    "LatencySeen",
    "NewRates",
    "Observation",
    "Plan",
    "Recover",
    "Refused",
    "Slow",
    "UnitSeen",
    "changes",
    "rows_a_batch",
]
