"""The simulator's state: a handful of flat record arrays that the kernel, the controls and the results share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import Records

# From ROUND_ROBIN on, tuples wait at their operator, and the policy chooses an operator.
FCFS, STIMULUS, ROUND_ROBIN, LONGEST = 0, 1, 2, 3
STATELESS, JOIN, AGGREGATE = 0, 1, 2
CONSTANT, EXPONENTIAL, GAMMA, TWO_POINT = 0, 1, 2, 3
# What happens at one moment happens in this order: the kind of an event is its priority.
TAKE, WINDOW, COMPLETE, RELEASE, LINK, LET, ARRIVAL, TRACE, BATCH = 0, 1, 2, 3, 4, 5, 6, 7, 8
# Why the kernel came back.
DONE, CONTROL, POOL, ROWS, RING, TABLE, LOG, BUDGET = 0, 1, 2, 3, 4, 5, 6, 7

EPSILON = 1e-9
"""Slack of exact accumulation: 100 tuples at 0.29 are 29, whatever binary fractions say."""

MANY = 1e15
"""Tuples beyond which no count of those that need room at once is exact; no memory holds them."""


def _lines(fields: list[tuple[str, str]]) -> np.dtype[np.void]:
    """Return a record type that fills whole cache lines of 64 bytes; all fields have 8 bytes."""
    names, formats = zip(*fields, strict=True)
    size = -(-8 * len(fields) // 64) * 64
    offsets = [8 * k for k in range(len(fields))]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


def table(count: int, kind: np.dtype[np.void]) -> Records:
    """Return an empty table that begins with a cache line."""
    size = count * kind.itemsize
    raw = np.zeros(size + 64, np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + size].view(kind)


# What every event touches stands first in each record, in as few cache lines as can be.
# One tuple: queued, in service, on a link, or held for a reader until a batch ends (then input is -2 - output).
# next: in a list, or the sibling in a pairing heap. child: first child in the heap, or next reader of a crossing or of
# what is held.
NODE = _lines(
    [
        ("stimulus", "f8"), ("enqueued", "f8"), ("order", "i8"), ("identity", "u8"), ("work", "f8"),
        ("input", "i8"), ("next", "i8"), ("child", "i8"),
    ]
)  # fmt: skip
# pending: whether an event will end its lowest window. whole: slides in a window, 0 if their number is none.
# cut: work (s) within busy that failures have cut off from batches.
UNIT = _lines(
    [
        ("host", "i8"), ("kind", "i8"), ("service", "i8"), ("paused", "i8"), ("key", "u8"), ("chance", "i8"),
        ("outputs", "i8"), ("readers", "i8"), ("served", "i8"), ("begun", "i8"), ("wait", "f8"), ("busy", "f8"),
        ("position", "i8"), ("head", "i8"), ("tail", "i8"), ("first", "i8"), ("draw", "u8"), ("shape", "f8"),
        ("share", "f8"), ("panes", "i8"), ("window", "f8"), ("slide", "f8"), ("pane", "i8"), ("lowest", "i8"),
        ("pending", "i8"), ("whole", "i8"), ("cut", "f8"),
    ]
)  # fmt: skip
# A stream is counted at each reader's input: copies of a reader have inputs of their own.
INPUT = _lines(
    [
        ("unit", "i8"), ("sink", "i8"), ("copies", "i8"), ("waiting", "i8"), ("arrived", "i8"), ("cost", "f8"),
        ("selectivity", "f8"), ("count", "i8"), ("consumed", "i8"), ("delivered", "i8"), ("dropped", "i8"),
        ("lost", "i8"), ("stream", "i8"), ("port", "i8"), ("within", "f8"), ("last", "f8"), ("ring", "i8"),
        ("capacity", "i8"), ("head", "i8"), ("length", "i8"), ("key", "u8"),
    ]
)  # fmt: skip
OUTPUT = _lines(
    [
        ("input", "i8"), ("link", "i8"), ("routed", "i8"), ("low", "f8"), ("high", "f8"), ("draw", "u8"),
        ("keep", "f8"), ("history", "i8"),
    ]
)  # fmt: skip
# Keep fractions of a stream into windows: which one was in force when a window began.
KEEP = np.dtype([("since", "f8"), ("keep", "f8"), ("before", "i8")])
STREAM = np.dtype([("key", "u8"), ("window", "f8")])
COUNTS = ("arrived", "delivered", "dropped", "consumed", "lost")
HOST = _lines(
    [
        ("speed", "f8"), ("down", "i8"), ("idle", "i8"), ("batch", "i8"), ("waiting", "i8"), ("head", "i8"),
        ("tail", "i8"), ("core", "i8"), ("cores", "i8"), ("busy", "f8"), ("stamp", "i8"), ("last", "i8"),
        ("root", "i8"), ("cursor", "i8"), ("words", "i8"), ("wide", "i8"), ("members", "i8"), ("size", "i8"),
        ("trigger", "f8"), ("overhead", "f8"), ("began", "f8"), ("until", "f8"), ("step", "f8"), ("held", "i8"),
        ("heldtail", "i8"), ("outputs", "i8"), ("released", "i8"), ("planned", "i8"), ("gate", "i8"),
    ]
)  # fmt: skip
# input, unit, outputs, next: of what it serves and of its first reader, to be fetched before the service ends.
CORE = _lines(
    [
        ("host", "i8"), ("node", "i8"), ("start", "f8"), ("input", "i8"), ("unit", "i8"), ("outputs", "i8"),
        ("next", "i8"),
    ]
)  # fmt: skip
# capacity: how many may be on the way at a time. head, tail: of those; waithead, waittail: of those that wait.
LINKS = _lines(
    [
        ("start", "i8"), ("delay", "f8"), ("capacity", "i8"), ("flying", "i8"), ("sent", "i8"), ("head", "i8"),
        ("tail", "i8"), ("waithead", "i8"), ("end", "i8"), ("waittail", "i8"),
    ]
)  # fmt: skip
SOURCE = np.dtype(
    [
        ("key", "u8"), ("draw", "u8"), ("host", "i8"), ("outputs", "i8"), ("readers", "i8"), ("poisson", "i8"),
        ("number", "i8"), ("row", "i8"), ("target", "f8"), ("limit", "f8"),
    ]
)  # fmt: skip
# Where tuples of a limited source wait in front of one reader; the gates are numbered as the outputs that they are at.
# most: how many the next batch may read, of which it has passed some; 0: one every step (s). next: on the same host.
GATE = np.dtype(
    [
        ("source", "i8"), ("head", "i8"), ("tail", "i8"), ("held", "i8"), ("most", "i8"), ("passed", "i8"),
        ("step", "f8"), ("last", "f8"), ("pending", "i8"), ("next", "i8"),
    ]
)  # fmt: skip
EVENT = np.dtype([("time", "f8"), ("key", "i8"), ("index", "i8")])
KEPT = np.dtype([("stimulus", "f8"), ("identity", "u8"), ("work", "f8")])
PANE = np.dtype([("stimulus", "f8"), ("youngest", "f8"), ("work", "f8"), ("count", "i8")])
ROW = np.dtype([("stimulus", "f8"), ("egress", "f8"), ("sink", "i8")])
TRACED = np.dtype([("time", "f8"), ("work", "f8"), ("source", "i8")])
SEEN = np.dtype([("key", "u8"), ("count", "i8")])
LOGGED = np.dtype([("time", "f8"), ("identity", "u8"), ("kind", "i8"), ("index", "i8")])

CURVE = np.dtype([("integral", "f8"), ("rate", "f8")])
WORD, KICK = np.dtype([("bits", "u8")]), np.dtype([("host", "i8")])
# A unit that may run on a host, and its work (s) in the host's batch that began at a time.
MEMBER = np.dtype([("unit", "i8"), ("began", "f8"), ("work", "f8")])

TABLES = {
    "nodes": NODE, "units": UNIT, "inputs": INPUT, "outputs": OUTPUT, "streams": STREAM, "hosts": HOST,
    "cores": CORE, "links": LINKS, "sources": SOURCE, "gates": GATE, "heap": EVENT, "rings": KEPT, "panes": PANE,
    "words": WORD, "members": MEMBER, "keeps": KEEP, "curve": CURVE, "trace": TRACED, "rows": ROW, "seen": SEEN,
    "log": LOGGED, "kicks": KICK,
}  # fmt: skip

# leaving: the core whose service ends, while that puts out what it yields and until it takes another; else -1.
GLOBALS = np.dtype(
    [
        ("now", "f8"), ("end", "f8"), ("control", "f8"), ("warmup", "f8"), ("input_end", "f8"),
        ("sequence", "i8"), ("order", "i8"), ("stamp", "i8"), ("events", "i8"), ("budget", "i8"), ("need", "i8"),
        ("duplicates", "i8"), ("heaped", "i8"), ("hole", "i8"), ("free", "i8"), ("fresh", "i8"), ("used", "i8"),
        ("rowed", "i8"), ("logs", "i8"), ("kicked", "i8"), ("traced", "i8"), ("known", "i8"), ("fan", "i8"),
        ("policy", "i8"), ("queue", "i8"), ("drain", "i8"), ("replicated", "i8"), ("period", "f8"),
        ("periods", "i8"), ("plenty", "i8"), ("wide", "i8"), ("subinterval", "f8"), ("leaving", "i8"),
        *((name, "i8") for name in TABLES), *((f"size_{name}", "i8") for name in TABLES),
    ]
)  # fmt: skip


class State(NamedTuple):
    """All arrays; ``g`` holds one record of scalars, and the addresses and sizes of the others."""

    g: Records
    nodes: Records
    units: Records
    inputs: Records
    outputs: Records
    streams: Records
    hosts: Records
    cores: Records
    links: Records
    sources: Records
    gates: Records
    heap: Records
    rings: Records
    panes: Records
    words: Records
    members: Records
    keeps: Records
    curve: Records
    trace: Records
    rows: Records
    seen: Records
    log: Records
    kicks: Records

    def addressed(self) -> State:
        """Return self after noting where the arrays lie; needed whenever one is replaced."""
        for name in TABLES:
            array = getattr(self, name)
            self.g[name], self.g[f"size_{name}"] = array.ctypes.data, array.size
        return self
