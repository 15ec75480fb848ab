"""From network, cluster, placement, arrivals and options to flat arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs
import numpy as np

from penstock.arrays import Ints, Records
from penstock.cluster import Cluster, base_name
from penstock.errors import InputError
from penstock.files import suggest
from penstock.network import Network, Stream
from penstock.network.windows import check_drop, drops_whole, windows_behind
from penstock.shedding.live import Shedder
from penstock.simulation import state as layout
from penstock.simulation.gates import gates_of, settle
from penstock.simulation.numbers import Numbers, key
from penstock.simulation.options import POLICIES, Arrivals, Options
from penstock.simulation.places import hosts_of, links_of
from penstock.simulation.rows import inputs_of, outputs_of, sources_of, units_of
from penstock.workload import Rates

_NODES, _ROWS, _SEEN = 1024, 4096, 1024
MOST = 1e11
"""Input tuples of a run at most; that many take hours already."""
WIDE = 5000
"""Operators beyond which memory is slower than the processor, so that it is worth fetching ahead."""
FAIL, RECOVER, MOVE, RESUME, PAUSE = "fail", "recover", "move", "resume", "pause"


@attrs.frozen
class Control:
    """Something that happens to a host or an operator at a time; equal times in the order of the kinds."""

    at: float
    rank: int
    kind: str
    host: int
    unit: int = -1


@attrs.frozen(eq=False)
class Compiled:
    """A run ready to start: its state, and the names behind the numbers."""

    state: layout.State
    units: tuple[str, ...]
    streams: tuple[str, ...]
    hosts: tuple[str, ...]
    sinks: tuple[str, ...]
    links: dict[tuple[int, int], int]
    controls: tuple[Control, ...]
    options: Options
    shedder: Shedder | None = None


def compile_run(
    network: Network,
    cluster: Cluster,
    placement: Mapping[str, str],
    arrivals: Rates | Arrivals,
    options: Options,
    log: int = 0,
) -> Compiled:
    """Check everything and lay it out in arrays.

    Raises
    ------
    InputError
        If parts do not fit each other.
    """
    numbers = Numbers.of(network, cluster, placement, options.seed)
    _check_ends(network, cluster)
    controls = _controls(options, numbers.hosts, numbers.units, network.pins)
    sources, units = sources_of(numbers), units_of(numbers)
    inputs = inputs_of(numbers, units)
    outputs = outputs_of(numbers, inputs.ports, sources, units)
    streams = _streams(numbers, options.keep)
    _keep(options.keep, outputs, numbers, inputs.table)
    _limit(options.limits, network, sources)
    shedder = _shedder(options, numbers, cluster, arrivals)
    moves = [(control.unit, control.host) for control in controls if control.kind == MOVE]
    hosts = hosts_of(cluster, units, moves, options.microbatch)
    gates = gates_of(sources)
    links, link_of = links_of(cluster, units, sources, (outputs, inputs.table), moves)
    # Each of these has at most one event, and a trace one of its own.
    events = sum(map(len, (hosts.cores, units, hosts.table, links, sources, gates))) + 1
    state = layout.State(
        g=np.zeros(1, layout.GLOBALS),
        nodes=layout.table(_NODES, layout.NODE),
        units=units,
        inputs=inputs.table,
        outputs=outputs,
        streams=streams,
        hosts=hosts.table,
        cores=hosts.cores,
        links=links,
        sources=sources,
        gates=gates,
        heap=layout.table(events + 8, layout.EVENT),
        rings=layout.table(max(inputs.rings, 1), layout.KEPT),
        panes=layout.table(max(int(units["panes"].sum()), 1), layout.PANE),
        words=hosts.words,
        members=hosts.members,
        keeps=layout.table(1, layout.KEEP),
        curve=np.zeros(2 * len(sources), layout.CURVE),
        trace=layout.table(0, layout.TRACED),
        rows=layout.table(_ROWS, layout.ROW),
        seen=layout.table(_SEEN, layout.SEEN),
        log=layout.table(log, layout.LOGGED),
        kicks=layout.table(2 * len(hosts.table) + 2, layout.KICK),
    )
    state = _input(state, network, arrivals, options)
    wire(state, link_of)
    settle(state)
    # Nothing happens at the end any more, nor after it.
    controls = tuple(control for control in controls if control.at < state.g["end"][0])
    state.g["control"] = controls[0].at if controls else math.inf
    _scalars(state, options, replicated=numbers.replicated)
    return Compiled(
        state=state.addressed(),
        units=tuple(numbers.units),
        streams=tuple(numbers.streams),
        hosts=tuple(numbers.hosts),
        sinks=tuple(network.sinks),
        links=link_of,
        controls=controls,
        options=options,
        shedder=shedder,
    )


def _scalars(state: layout.State, options: Options, *, replicated: bool) -> None:
    """Set what the kernel asks of the whole run."""
    g, units = state.g, state.units
    g["warmup"], g["policy"] = options.warmup, POLICIES[options.policy]
    g["subinterval"] = options.subinterval
    g["queue"] = 2**62 if options.queue is None else options.queue
    g["drain"], g["free"], g["leaving"] = options.drain, -1, -1
    g["wide"] = len(units) > WIDE
    g["fan"] = max([*state.sources["readers"].tolist(), *units["readers"].tolist(), 1])
    g["replicated"] = replicated
    simple = not (len(state.log) or replicated or options.microbatch or (units["kind"] != layout.STATELESS).any())
    most = float(state.inputs["selectivity"].max(initial=0.0))
    g["plenty"] = min(int((most + 2) * g["fan"][0]) + 8, 2**62) if simple and most < 2**40 else 2**62


def _streams(numbers: Numbers, keep: Mapping[str, float]) -> Records:
    table = layout.table(len(numbers.streams), layout.STREAM)
    for row, stream in zip(table, numbers.network.streams, strict=True):
        row["key"] = key("stream", stream.name)
        row["window"] = _dropped_whole(numbers.network, stream, keep)
    return table


def _shedder(options: Options, numbers: Numbers, cluster: Cluster, arrivals: Rates | Arrivals) -> Shedder | None:
    """Return what follows a plan table, if there is one."""
    if options.shed is None:
        return None
    if options.keep:
        raise InputError("expected keep fractions or a plan table, got both", at="--plan")
    known = arrivals.check(numbers.network.sources) if isinstance(arrivals, Rates) else None
    return Shedder.of(options.shed, numbers.network, cluster, numbers.placed, known)


def _keep(keep: Mapping[str, float], edges: Records, numbers: Numbers, inputs: Records) -> None:
    """Set keep fractions: ``a->b`` for all copies of b, but for those with one of their own, ``a->b#2``."""
    readers = inputs["unit"][edges["input"]]
    for name, share in sorted(keep.items(), key=lambda item: "#" in item[0]):
        writer, _, reader = name.partition("->")
        stream = f"{writer}->{base_name(reader)}"
        here = inputs["stream"][edges["input"]] == numbers.streams.get(stream, -1)
        if reader != base_name(reader):
            here &= readers == numbers.units.get(reader, -2)
        if not here.any():
            raise InputError(f"{name!r} is no stream", at="keep", hint=suggest(name, numbers.streams, "streams"))
        edges["keep"][here] = share


def _limit(limits: Mapping[str, float], network: Network, sources: Records) -> None:
    """Set how much may be read of sources."""
    index = {name: row for row, name in enumerate(network.sources)}
    for name, limit in limits.items():
        if name not in index:
            raise InputError(f"{name!r} is no source", at="limits", hint=suggest(name, index, "sources"))
        sources["limit"][index[name]] = limit


def _dropped_whole(network: Network, stream: Stream, keep: Mapping[str, float]) -> float:
    """Return the length of the windows (s) that drops of a stream leave out whole; 0 for single tuples.

    -1 where none of the windows behind the stream can be left out whole: a plan then drops nothing.

    Raises
    ------
    InputError
        If such a stream has a keep fraction.
    """
    if drops_whole(network, stream):
        return max((length for length, _ in windows_behind(network, stream)), default=0.0)
    for name, share in keep.items():
        writer, _, reader = name.partition("->")
        if share < 1 and (writer, base_name(reader)) == (stream.writer, stream.reader):
            check_drop(network, stream, f"keep.{name}")
    return -1.0


def _check_ends(network: Network, cluster: Cluster) -> None:
    network.check_costs()
    for operator in network.operators.values():
        if max(operator.selectivity or (1.0,)) > MOST:
            raise InputError(
                f"expected at most {MOST:g} tuples for each, got {max(operator.selectivity or ()):g}",
                file=network.file,
                at=f"operators.{operator.name}.selectivity",
            )
    for source in network.sources.values():
        if source.host is not None and source.host not in cluster.hosts:
            raise InputError(f"{source.host!r} is no host of the cluster", at=f"sources.{source.name}.host")


def _controls(
    options: Options, hosts: Mapping[str, int], units: Mapping[str, int], pins: Mapping[str, str]
) -> tuple[Control, ...]:
    made: list[Control] = []
    for rank, kind, events in ((0, FAIL, options.failures), (1, RECOVER, options.recoveries)):
        for event in events:
            if event.host not in hosts:
                raise InputError(f"{event.host!r} is no host", at=f"--{kind}", hint=suggest(event.host, hosts, "hosts"))
            made.append(Control(event.at, rank, kind, hosts[event.host]))
    for move in options.moves:
        if move.operator not in units:
            raise InputError(
                f"{move.operator!r} is no operator", at="--move", hint=suggest(move.operator, units, "operators")
            )
        if move.host not in hosts:
            raise InputError(f"{move.host!r} is no host", at="--move", hint=suggest(move.host, hosts, "hosts"))
        if (pin := pins.get(move.operator, move.host)) != move.host:
            raise InputError(f"{move.operator!r} is pinned to {pin!r}", at="--move")
        made.append(Control(move.at, 2, MOVE, hosts[move.host], units[move.operator]))
    made.sort(key=lambda control: (control.at, control.rank, control.unit, control.host))
    down: set[int] = set()
    names = list(hosts)
    for control in made:
        if control.kind == FAIL and control.host in down:
            raise InputError(f"{names[control.host]} has already failed by {control.at:g} s", at="--fail")
        if control.kind == RECOVER and control.host not in down:
            raise InputError(f"{names[control.host]} has not failed before {control.at:g} s", at="--recover")
        if control.kind == FAIL:
            down.add(control.host)
        elif control.kind == RECOVER:
            down.discard(control.host)
    return tuple(made)


def written(state: layout.State) -> tuple[Ints, Ints, Ints]:
    """Return of each output the source that writes it or -1, the unit that writes it or -1, and the unit that reads it.

    A sink reads what no unit reads: -1.
    """
    readers = state.inputs["unit"][state.outputs["input"]]
    found = []
    for table in (state.sources, state.units):
        writer = np.full(len(state.outputs), -1, np.int64)
        count = table["readers"]
        rows = np.repeat(np.arange(len(table)), count)
        writer[np.arange(len(rows)) + np.repeat(table["outputs"] - np.cumsum(count) + count, count)] = rows
        found.append(writer)
    return found[0], found[1], readers


def wire(state: layout.State, links: Mapping[tuple[int, int], int], only: int | None = None) -> None:
    """Point outputs at the links between the present hosts of writer and reader (of one unit, or of all)."""
    source, unit, readers = written(state)
    touched = readers >= 0
    if only is not None:
        touched &= (readers == only) | (unit == only)
    for o in np.flatnonzero(touched).tolist():
        start = int(state.sources["host"][source[o]] if source[o] >= 0 else state.units["host"][unit[o]])
        if start >= 0:
            state.outputs["link"][o] = links.get((start, int(state.units["host"][readers[o]])), -1)


def _input(state: layout.State, network: Network, arrivals: Rates | Arrivals, options: Options) -> layout.State:
    g = state.g
    if isinstance(arrivals, Rates):
        arrivals.check(network.sources)
        end = arrivals.duration if options.duration is None else options.duration
        steps = arrivals.values.astype(np.longdouble) * arrivals.period
        curve = np.zeros((len(network.sources), arrivals.periods + 1), layout.CURVE)
        curve["integral"][:, 1:] = np.cumsum(steps, axis=1)
        curve["rate"][:, :-1] = arrivals.values
        many = float(curve["integral"][:, min(arrivals.periods, math.ceil(end / arrivals.period))].sum())
        if many > MOST:
            raise InputError(f"expected at most {MOST:g} tuples, got {many:.3g}", at="rates", hint="simulate less time")
        g["period"], g["periods"] = arrivals.period, arrivals.periods
        state = state._replace(curve=curve.reshape(-1))
    else:
        index = {name: row for row, name in enumerate(network.sources)}
        for name in dict.fromkeys(arrivals.sources):
            if name not in index:
                raise InputError(
                    f"{name!r} is no source of the network", at="arrivals", hint=suggest(name, index, "sources")
                )
        end = float(arrivals.times[-1]) if options.duration is None else options.duration
        rows = int(np.searchsorted(arrivals.times, end, side="right"))
        trace = layout.table(rows, layout.TRACED)
        trace["time"], trace["work"] = arrivals.times[:rows], arrivals.work[:rows]
        trace["source"] = [index[name] for name in arrivals.sources[:rows]]
        g["period"] = g["periods"] = 1
        state = state._replace(trace=trace)
    g["input_end"] = end
    g["end"] = 1e300 if options.drain else end
    return state
