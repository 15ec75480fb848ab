"""Rows of the simulator's tables, by address and number."""

from __future__ import annotations

from penstock.native.memory import rows_of
from penstock.simulation.state import GLOBALS, TABLES

cores_at = rows_of(TABLES["cores"])
curve_at = rows_of(TABLES["curve"])
gates_at = rows_of(TABLES["gates"])
heap_at = rows_of(TABLES["heap"])
hosts_at = rows_of(TABLES["hosts"])
inputs_at = rows_of(TABLES["inputs"])
keeps_at = rows_of(TABLES["keeps"])
kicks_at = rows_of(TABLES["kicks"])
links_at = rows_of(TABLES["links"])
log_at = rows_of(TABLES["log"])
members_at = rows_of(TABLES["members"])
nodes_at = rows_of(TABLES["nodes"])
outputs_at = rows_of(TABLES["outputs"])
panes_at = rows_of(TABLES["panes"])
rings_at = rows_of(TABLES["rings"])
rows_at = rows_of(TABLES["rows"])
seen_at = rows_of(TABLES["seen"])
sources_at = rows_of(TABLES["sources"])
streams_at = rows_of(TABLES["streams"])
trace_at = rows_of(TABLES["trace"])
units_at = rows_of(TABLES["units"])
words_at = rows_of(TABLES["words"])
scalars_at = rows_of(GLOBALS)

NODE_SIZE, INPUT_SIZE, UNIT_SIZE, OUTPUT_SIZE, HOST_SIZE, LINK_SIZE, CORE_SIZE = (
    TABLES[name].itemsize for name in ("nodes", "inputs", "units", "outputs", "hosts", "links", "cores")
)
"""Bytes of a row."""
