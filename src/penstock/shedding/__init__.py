"""DECIDE: what to drop when input exceeds capacity."""

from penstock.shedding.apart import optimum
from penstock.shedding.exact import Exact
from penstock.shedding.host_table import HostTable
from penstock.shedding.optimum import upper_bound
from penstock.shedding.planners import PLANNERS, LookUp, Question, build_table
from penstock.shedding.program import Program, build_program
from penstock.shedding.replica import ReplicaPlan, replica_plan
from penstock.shedding.tables import PlanTable, read_table, save_table
from penstock.shedding.trees import Tables, make_tables

__all__ = [
    "PLANNERS",
    "Exact",
    "HostTable",
    "LookUp",
    "PlanTable",
    "Program",
    "Question",
    "ReplicaPlan",
    "Tables",
    "build_program",
    "build_table",
    "make_tables",
    "optimum",
    "read_table",
    "replica_plan",
    "save_table",
    "upper_bound",
]
