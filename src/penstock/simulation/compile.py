"""From network, cluster, placement, arrivals and options to flat arrays."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.cluster import Cluster, Placement, base_name, copies_of
from penstock.errors import InputError
from penstock.files import suggest
from penstock.network import Network, Operator, Stream
from penstock.network.windows import windows_behind
from penstock.shedding.live import Shedder
from penstock.simulation import state as layout
from penstock.simulation.options import Arrivals, Options
from penstock.workload import Rates

_NODES, _ROWS, _SEEN = 1024, 4096, 1024
_KINDS = {"join": layout.JOIN, "aggregate": layout.AGGREGATE}
_SERVICES = {
    "constant": layout.CONSTANT,
    "exponential": layout.EXPONENTIAL,
    "gamma": layout.GAMMA,
    "two-point": layout.TWO_POINT,
}
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


def key(*words: object) -> np.uint64:
    """Return 64 bits that belong to these words, on every machine."""
    text = "\0".join(map(str, words)).encode()
    return np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little"))


def compile_run(
    network: Network,
    cluster: Cluster,
    placement: Mapping[str, str],
    arrivals: Rates | Arrivals,
    options: Options,
    seed: int,
    log: int = 0,
) -> Compiled:
    """Check everything and lay it out in arrays.

    Raises
    ------
    InputError
        If parts do not fit each other.
    """
    placed = Placement(placement).check(network.operators, cluster.hosts)
    _check_ends(network, cluster)
    hosts = tuple(cluster.hosts)
    host_of = {name: index for index, name in enumerate(hosts)}
    copies = copies_of(placed)
    unit_names = tuple(copy for name in network.operators for copy in copies[name])
    unit_of = {name: index for index, name in enumerate(unit_names)}
    streams = {stream.name: index for index, stream in enumerate(network.streams)}
    controls = _controls(options, host_of, unit_of)

    counts = {name: len(copies[name]) for name in network.operators}
    units = layout.table(len(unit_names), layout.UNIT)
    inputs: list[tuple[int, int, int, int, float, float, int, float, int]] = []
    ports: dict[tuple[str, int], int] = {}
    ring, pane = 0, 0
    for u, name in enumerate(unit_names):
        operator = network.operators[base_name(name)]
        row = units[u]
        row["key"], row["draw"] = key("operator", operator.name), key("draw", name, seed)
        if counts[operator.name] > 1:
            # Copies must let the same tuples through, whatever order each of them sees.
            row["chance"] = 1
            row["draw"] = key("draw", operator.name, seed)
        row["chance"] |= operator.emit == "chance"
        row["kind"] = _KINDS.get(operator.kind, layout.STATELESS)
        row["host"] = host_of[placed[name]]
        row["first"] = len(inputs)
        row["head"] = row["tail"] = -1
        row["service"], row["shape"], row["share"] = _service(operator)
        if row["kind"] == layout.AGGREGATE:
            if operator.window is None:
                row["kind"] = layout.STATELESS
            else:
                row["window"], row["slide"] = operator.window, operator.slide or operator.window
                row["panes"] = math.ceil(operator.window / row["slide"]) + 2
                row["pane"] = pane
                pane += int(row["panes"])
        for port, stream in enumerate(network.inputs(operator.name)):
            capacity, within = 0, -1.0
            if operator.kind == "join":
                if operator.counts is not None:
                    capacity = operator.counts[port]
                else:
                    capacity, within = 16, operator.within or 0.0
            assert operator.cost is not None  # noqa: S101 - checked in _check_ends
            selectivity = 1.0 if operator.selectivity is None else operator.selectivity[port]
            ports[name, port] = len(inputs)
            inputs.append((u, -1, streams[stream.name], port, operator.cost[port], selectivity, capacity, within, ring))
            ring += capacity
    for t, sink in enumerate(network.sinks.values()):
        ports[sink.name, 0] = len(inputs)
        inputs.append((-1, t, streams[f"{sink.input}->{sink.name}"], 0, 0.0, 0.0, 0, -1.0, 0))
    table = layout.table(len(inputs), layout.INPUT)
    for index, (u, sink_index, stream_index, port, cost, selectivity, capacity, within, offset) in enumerate(inputs):
        row = table[index]
        row["unit"], row["sink"], row["stream"], row["port"] = u, sink_index, stream_index, port
        row["cost"], row["selectivity"], row["capacity"], row["within"] = cost, selectivity, capacity, within
        row["ring"], row["last"] = offset, -np.inf
        end = network.streams[stream_index].reader if u < 0 else unit_names[u]
        row["key"] = key("input", end, port)
        row["copies"] = counts.get(network.streams[stream_index].writer, 1)

    sources = layout.table(len(network.sources), layout.SOURCE)
    outputs: list[tuple[int, int, float, float, np.uint64]] = []

    def write(writer: str, row: NDArray[np.void]) -> None:
        row["outputs"] = len(outputs)
        low = 0.0
        readers = network.outputs(writer)
        routed = writer in network.operators and network.operators[writer].route is not None
        for position, stream in enumerate(readers):
            high = 1.0 if position == len(readers) - 1 else low + stream.share
            draw = key("route", writer, seed)
            outputs.extend(
                (ports[reader, stream.port], routed, low, high, draw)
                for reader in copies.get(stream.reader, [stream.reader])
            )
            low = high
        row["readers"] = len(outputs) - row["outputs"]

    for index, source in enumerate(network.sources.values()):
        row = sources[index]
        row["key"], row["draw"] = key("source", source.name), key("arrivals", source.name, seed)
        row["host"] = -1 if source.host is None else host_of[source.host]
        row["poisson"], row["number"] = source.arrivals == "poisson", -1
        write(source.name, row)
    for u, name in enumerate(unit_names):
        write(base_name(name), units[u])
    edges = layout.table(len(outputs), layout.OUTPUT)
    for index, (port, routed, low, high, draw) in enumerate(outputs):
        edges[index] = (port, -1, routed, low, high, draw, 1.0, -1)

    flows = layout.table(len(streams), layout.STREAM)
    for index, stream in enumerate(network.streams):
        flows[index]["key"] = key("stream", stream.name)
        flows[index]["window"] = _dropped_whole(network, stream, options.keep)
    _keep(options.keep, edges, streams, unit_names, table)
    shedder = None
    if options.shed is not None:
        if options.keep:
            raise InputError("expected keep fractions or a plan table, got both", at="--plan")
        known = arrivals.check(network.sources) if isinstance(arrivals, Rates) else None
        shedder = Shedder.of(options.shed, network, cluster, placed, known)

    table_of_hosts, cores, members, words = _hosts(cluster, units, controls, options)
    links, link_of = _links(cluster, hosts, units, sources, edges, table, controls)
    g = np.zeros(1, layout.GLOBALS)
    state = layout.State(
        g=g,
        nodes=layout.table(_NODES, layout.NODE),
        units=units,
        inputs=table,
        outputs=edges,
        streams=flows,
        hosts=table_of_hosts,
        cores=cores,
        links=links,
        sources=sources,
        heap=layout.table(
            len(cores) * (1 + sum(control.kind == FAIL for control in controls))
            + len(units) * (1 + sum(control.kind == FAIL for control in controls))
            + len(links)
            + len(sources)
            + 2 * len(hosts) * (2 + len(controls))
            + 8,
            layout.EVENT,
        ),
        rings=layout.table(max(ring, 1), layout.KEPT),
        panes=layout.table(max(pane, 1), layout.PANE),
        words=words,
        members=members,
        keeps=layout.table(1, layout.KEEP),
        curve=np.zeros(2 * len(sources), layout.CURVE),
        trace=layout.table(0, layout.TRACED),
        rows=layout.table(_ROWS, layout.ROW),
        seen=layout.table(_SEEN, layout.SEEN),
        log=layout.table(log, layout.LOGGED),
        kicks=layout.table(2 * len(hosts) + 2, layout.KICK),
    )
    state = _input(state, network, arrivals, options)
    wire(state, link_of)
    g["control"] = controls[0].at if controls else math.inf
    g["warmup"], g["policy"] = options.warmup, ("fcfs", "round-robin", "stimulus").index(options.policy)
    g["subinterval"] = options.subinterval
    g["queue"] = 2**62 if options.queue is None else options.queue
    g["drain"], g["free"] = options.drain, -1
    g["wide"] = len(units) > WIDE
    g["fan"] = max([*sources["readers"].tolist(), *(units["readers"] + 1).tolist(), 1])
    g["replicated"] = any(count > 1 for count in counts.values())
    simple = not (log or g["replicated"][0] or options.microbatch or (units["kind"] != layout.STATELESS).any())
    most = float(table["selectivity"].max(initial=0.0))
    g["plenty"] = min(int((most + 2) * g["fan"][0]) + 8, 2**62) if simple and most < 2**40 else 2**62
    return Compiled(
        state.addressed(), unit_names, tuple(streams), hosts, tuple(network.sinks), link_of, controls, options, shedder
    )


def _keep(
    keep: Mapping[str, float],
    edges: NDArray[np.void],
    streams: Mapping[str, int],
    units: tuple[str, ...],
    inputs: NDArray[np.void],
) -> None:
    """Set keep fractions: ``a->b`` for all copies of b, but for those with one of their own, ``a->b#2``."""
    readers = inputs["unit"][edges["input"]]
    for name, share in sorted(keep.items(), key=lambda item: "#" in item[0]):
        writer, _, reader = name.partition("->")
        stream = f"{writer}->{base_name(reader)}"
        here = inputs["stream"][edges["input"]] == streams.get(stream, -1)
        if reader != base_name(reader):
            here &= readers == (units.index(reader) if reader in units else -2)
        if not here.any():
            raise InputError(f"{name!r} is no stream", at="keep", hint=suggest(name, streams, "streams"))
        edges["keep"][here] = share


def _dropped_whole(network: Network, stream: Stream, keep: Mapping[str, float]) -> float:
    """Return the length of the windows (s) that drops of a stream leave out whole; 0 for single tuples.

    -1 where the stream leads to different windows, of which none can be left out whole: a plan then drops nothing.

    Raises
    ------
    InputError
        If such a stream has a keep fraction.
    """
    windows = windows_behind(network, stream)
    if len(windows) < 2:
        return max((length for length, _ in windows), default=0.0)
    for name, share in keep.items():
        writer, _, reader = name.partition("->")
        if share < 1 and (writer, base_name(reader)) == (stream.writer, stream.reader):
            raise InputError(
                "leads to aggregates with different windows, so that no window can be dropped whole",
                at=f"keep.{name}",
                hint="drop on the streams into the aggregates",
            )
    return -1.0


def _check_ends(network: Network, cluster: Cluster) -> None:
    for operator in network.operators.values():
        if operator.cost is None:
            raise InputError(
                "has no cost",
                file=network.file,
                at=f"operators.{operator.name}.cost",
                hint="give it, or pass --statistics from calibrate",
            )
    for source in network.sources.values():
        if source.host is not None and source.host not in cluster.hosts:
            raise InputError(f"{source.host!r} is no host of the cluster", at=f"sources.{source.name}.host")


def _service(operator: Operator) -> tuple[int, float, float]:
    name, *numbers = operator.service.split(":")
    values = [*map(float, numbers), 0.0, 0.0]
    return _SERVICES[name], values[0], values[1]


def _controls(options: Options, hosts: Mapping[str, int], units: Mapping[str, int]) -> tuple[Control, ...]:
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


def _hosts(
    cluster: Cluster, units: NDArray[np.void], controls: tuple[Control, ...], options: Options
) -> tuple[NDArray[np.void], NDArray[np.void], NDArray[np.void], NDArray[np.void]]:
    table = layout.table(len(cluster.hosts), layout.HOST)
    cores = layout.table(sum(host.cores for host in cluster.hosts.values()), layout.CORE)
    visitors: list[list[int]] = [[] for _ in table]
    for u, home in enumerate(units["host"].tolist()):
        visitors[home].append(u)
    for control in controls:
        if control.kind == MOVE and control.unit not in visitors[control.host]:
            visitors[control.host].append(control.unit)
    members: list[int] = []
    core, word = 0, 0
    for index, host in enumerate(cluster.hosts.values()):
        row = table[index]
        row["speed"], row["cores"], row["core"], row["idle"] = host.capacity / host.cores, host.cores, core, host.cores
        row["head"] = row["tail"] = row["root"] = row["held"] = row["heldtail"] = -1
        row["members"], row["size"] = len(members), len(visitors[index])
        row["words"], row["wide"] = word, max(1, -(-len(visitors[index]) // 64))
        row["began"] = row["until"] = -1.0
        members += sorted(visitors[index])
        word += int(row["wide"])
        cores["host"][core : core + host.cores] = index
        core += host.cores
        if options.microbatch is not None:
            batch = options.microbatch
            row["batch"] = 2 if batch.progressive else 1
            row["trigger"] = batch.trigger
            row["overhead"] = (
                batch.overhead.get(host.name, 0.0) if isinstance(batch.overhead, Mapping) else batch.overhead
            )
    cores["node"] = cores["key"] = -1
    placed = layout.table(len(members), layout.MEMBER)
    placed["unit"] = members
    for u, home in enumerate(units["host"].tolist()):
        units[u]["position"] = position(table[home], placed, u)
    return table, cores, placed, layout.table(word, layout.WORD)


def position(host: NDArray[np.void], members: NDArray[np.void], unit: int) -> int:
    """Return the place of a unit in the turns of a host."""
    first = int(host["members"])
    return int(np.searchsorted(members["unit"][first : first + int(host["size"])], unit))


def _links(
    cluster: Cluster,
    hosts: tuple[str, ...],
    units: NDArray[np.void],
    sources: NDArray[np.void],
    outputs: NDArray[np.void],
    inputs: NDArray[np.void],
    controls: tuple[Control, ...],
) -> tuple[NDArray[np.void], dict[tuple[int, int], int]]:
    places: list[set[int]] = [{home} for home in units["host"].tolist()]
    for control in controls:
        if control.kind == MOVE:
            places[control.unit].add(control.host)
    pairs: set[tuple[int, int]] = set()
    readers = inputs["unit"][outputs["input"]].tolist()
    starts = [(places[u], row) for u, row in enumerate(units)]
    starts += [({int(row["host"])}, row) for row in sources if row["host"] >= 0]
    for origins, row in starts:
        for reader in readers[row["outputs"] : row["outputs"] + row["readers"]]:
            if reader >= 0:
                pairs.update((a, b) for a in origins for b in places[reader] if a != b)
    table = layout.table(len(pairs), layout.LINKS)
    found = {}
    for index, (a, b) in enumerate(sorted(pairs)):
        link = cluster.link(hosts[a], hosts[b])
        volume = link.delay * link.bandwidth if link.delay > 0 else math.inf
        capacity = 2**62 if volume > 2**61 else max(1, math.floor(volume + layout.EPSILON))
        table[index] = (a, b, link.delay, capacity, 0, 0, -1, -1, -1, -1)
        found[a, b] = index
    return table, found


def written(state: layout.State) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
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
