"""Running the kernel: room for tuples, controls, and the sinks' rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.cluster import Cluster
from penstock.network import Network
from penstock.simulation import state as layout
from penstock.simulation.compile import Compiled, compile_run
from penstock.simulation.control import apply
from penstock.simulation.options import Arrivals, Options
from penstock.simulation.result import Latencies, Series, SimulationResult, assemble, busy
from penstock.simulation.state import Records, State
from penstock.simulation.steering import Watch, everywhere
from penstock.workload import Rates

_STRIDE = 5_000_000


def simulate(
    network: Network,
    cluster: Cluster,
    placement: Mapping[str, str],
    arrivals: Rates | Arrivals,
    options: Options | None = None,
    *,
    seed: int = 0,
    trace: bool | Callable[[Records], None] = False,
    log: bool = False,
    sample: float | None = None,
    progress: Callable[[float], None] | None = None,
) -> SimulationResult:
    """Run a placed network in virtual time.

    Parameters
    ----------
    network
        Every operator needs a cost; a missing selectivity is 1.
    cluster, placement
        Where each operator, and each replica ``operator#2``, runs.
    arrivals
        Rates of the sources (from time 0, whatever ``arrivals.start`` says), or single tuples.
    options
        Policy, bounds, drops, failures, moves.
    seed
        Of everything random: same seed, same result.
    trace
        Keep a row per sink tuple, or hand the rows on in parts.
    log
        Keep a row per event.
    sample
        Seconds between samples of the hosts' queues and load.
    progress
        Called now and then with the time that the run has reached (s).

    Raises
    ------
    InputError
        If the parts do not fit each other.
    """
    from penstock.simulation.native import advance as compiled

    advance = compiled()

    options = options or Options()
    run = everywhere(compile_run(network, cluster, placement, arrivals, options, seed, log=1 << 16 if log else 0))
    watch = Watch(run, network, cluster, seed)
    pending = sorted((*run.controls, *watch.first()), key=lambda control: (control.at, control.rank))
    if pending:
        run.state.g["control"] = pending[0].at
    latencies = Latencies(len(run.sinks))
    rows: list[Records] = []
    logged: list[Records] = []

    def flush(state: State) -> None:
        part = state.rows[: int(state.g["rowed"][0])]
        counted = part[part["egress"] >= options.warmup] if options.warmup > 0 else part
        latencies.add(counted["sink"], counted["egress"] - counted["stimulus"])
        if callable(trace):
            trace(part)
        elif trace:
            rows.append(part.copy())
        state.g["rowed"] = 0

    final = float(run.state.g["end"][0])
    step = math.inf if sample is None else sample
    samples: list[tuple[float, NDArray[np.int64], NDArray[np.float64]]] = []
    run.state.g["end"] = min(final, step)
    while True:
        s = run.state
        s.g["budget"] = _STRIDE
        status = advance(s.g)
        if status == layout.DONE:
            reached = float(s.g["end"][0])
            if math.isfinite(step):
                samples.append((min(reached, final), _waiting(run), busy(run, reached)[1]))
            if reached == final or (options.drain and s.g["heaped"][0] == 0 and s.g["used"][0] == 0):
                break
            s.g["end"] = min(final, (len(samples) + 1) * step)
        elif status == layout.CONTROL:
            run = apply(run, pending, watch)
        elif status == layout.ROWS:
            flush(s)
        elif status == layout.LOG:
            logged.append(s.log[: int(s.g["logs"][0])].copy())
            s.g["logs"] = 0
        if progress is not None:
            progress(float(s.g["now"][0]))
        run = _grown(run, status)
    run.state.g["end"] = final
    flush(run.state)
    logged.append(run.state.log[: int(run.state.g["logs"][0])].copy())
    return assemble(
        run,
        latencies,
        np.concatenate(rows) if trace is True and rows else None,
        np.concatenate(logged) if log else None,
        _series(samples),
        tuple(watch.moved),
    )


def _waiting(run: Compiled) -> NDArray[np.int64]:
    """Return how many tuples wait for each host."""
    s = run.state
    waiting = np.bincount(
        s.inputs["unit"][s.inputs["unit"] >= 0], s.inputs["waiting"][s.inputs["unit"] >= 0], len(s.units)
    )
    return np.bincount(s.units["host"], waiting, len(s.hosts)).astype(np.int64)


def _series(samples: list[tuple[float, NDArray[np.int64], NDArray[np.float64]]]) -> Series | None:
    if not samples:
        return None
    times = np.array([time for time, _, _ in samples])
    worked = np.array([worked for _, _, worked in samples]).T
    shares = np.diff(worked, axis=1, prepend=0.0) / np.maximum(np.diff(times, prepend=0.0), 1e-12)
    return Series(times, np.array([queued for _, queued, _ in samples]).T, shares)


def _grown(run: Compiled, status: int) -> Compiled:
    """Return the run with more room where the kernel asked for it."""
    s = run.state
    need = int(s.g["need"][0])
    if status == layout.POOL:
        s = s._replace(nodes=_longer(s.nodes, max(2 * s.nodes.size, s.nodes.size + need)))
    elif status == layout.ROWS and (s.rows.size < (1 << 16) or need > s.rows.size):
        s = s._replace(rows=layout.table(max(4 * s.rows.size, need), layout.ROW))
    elif status == layout.RING:
        row = s.inputs[need]
        first, size, head = int(row["ring"]), int(row["capacity"]), int(row["head"])
        start = s.rings.size
        rings = _longer(s.rings, start + 4 * size)
        rings[start : start + size] = np.roll(rings[first : first + size], -head)
        row["ring"], row["capacity"], row["head"] = start, 4 * size, 0
        s = s._replace(rings=rings)
    elif status == layout.TABLE:
        size = 1 << math.ceil(math.log2(4 * (int(s.g["known"][0]) + need)))
        table = layout.table(size, layout.SEEN)
        for entry in s.seen[s.seen["count"] > 0]:
            at = (int(entry["key"]) >> 11) & (size - 1)
            while table[at]["count"]:
                at = (at + 1) & (size - 1)
            table[at] = entry
        s = s._replace(seen=table)
    else:
        return run
    return attrs.evolve(run, state=s.addressed())


def _longer(table: Records, size: int) -> Records:
    grown = layout.table(size, table.dtype)
    grown[: table.size] = table
    return grown
