"""DECIDE: what to drop when input exceeds capacity."""

from penstock.shedding.exact import Exact
from penstock.shedding.optimum import upper_bound
from penstock.shedding.planners import PLANNERS, LookUp, Question, build_table
from penstock.shedding.program import Program, build_program
from penstock.shedding.replica import ReplicaPlan, replica_plan
from penstock.shedding.tables import PlanTable, read_table, save_table

__all__ = [
    "PLANNERS",
    "Exact",
    "LookUp",
    "PlanTable",
    "Program",
    "Question",
    "ReplicaPlan",
    "build_program",
    "build_table",
    "read_table",
    "replica_plan",
    "save_table",
    "upper_bound",
]
