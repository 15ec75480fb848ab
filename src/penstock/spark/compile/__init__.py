"""From a placed network to streaming queries: checks, schemas, the graph of each query, its frames."""

from penstock.spark.compile.checks import check_network, check_placement
from penstock.spark.compile.compiler import Query, compile_fragment
from penstock.spark.compile.counting import LEFT
from penstock.spark.compile.deployment import Deployment
from penstock.spark.compile.graph import sheddable
from penstock.spark.compile.pace import Pace, refuse_limit
from penstock.spark.compile.reading import (
    RECALLED,
    SLOTS,
    nexmark_options,
    recalled_of,
    register,
    scheduled_rates,
    slots_of,
)
from penstock.spark.compile.real_time import PromptQuery, Way, compile_prompt
from penstock.spark.compile.room import fitting
from penstock.spark.compile.schemas import derive_schemas

__all__ = [
    "LEFT",
    "RECALLED",
    "SLOTS",
    "Deployment",
    "Pace",
    "PromptQuery",
    "Query",
    "Way",
    "check_network",
    "check_placement",
    "compile_fragment",
    "compile_prompt",
    "derive_schemas",
    "fitting",
    "nexmark_options",
    "recalled_of",
    "refuse_limit",
    "register",
    "scheduled_rates",
    "sheddable",
    "slots_of",
]
