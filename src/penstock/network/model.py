"""The network as frozen values."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from statistics import fmean
from types import MappingProxyType

import attrs

from penstock.errors import InputError
from penstock.files import check_name, suggest
from penstock.network.checks import check_operator, check_route


def _plain(form: str | None) -> str | None:
    """Return a format as penstock knows it: Spark takes its names in any case, but not those of classes."""
    return form if form is None or "." in form else form.lower()


_FILES = ("path", "header", "mode")
_KAFKA = ("subscribe", "subscribePattern", "assign", "startingOffsets", "topic", "key", "value", "payload", "skip")
_OTHERS = ("failOnDataLoss", "include", "rate", "rates", "duration", "seed")
_OPTIONS = {name.lower(): name for name in (*_FILES, *_KAFKA, *_OTHERS)}
"""The options that penstock itself looks at, by their names in lower case."""

_FAMILIES = ("kafka", "json", "csv", "avro")
"""Names before the dot of options that it looks at together."""


def _spelled(options: Mapping[str, str]) -> dict[str, str]:
    """Return options by their names as penstock knows them: Spark takes them in any case."""
    found = {}
    for key, value in options.items():
        family, dot, rest = key.partition(".")
        known = f"{family.lower()}.{rest}" if dot and family.lower() in _FAMILIES else key
        found[_OPTIONS.get(key.lower(), known)] = value
    return found


@attrs.frozen(kw_only=True)
class Source:
    """Where tuples enter.

    ``schema``, ``format``, ``options``, ``time`` (event-time column or SQL) and ``lateness`` (s) are for Spark,
    ``arrivals`` (``even`` or ``poisson``) for the simulator; ``host`` is where the source enters, if anywhere.
    """

    name: str
    schema: str | None = None
    format: str | None = attrs.field(default=None, converter=_plain)
    options: Mapping[str, str] = attrs.field(factory=dict, hash=False, converter=_spelled)
    time: str | None = None
    lateness: float = 0.0
    arrivals: str = "even"
    host: str | None = None

    @property
    def scheduled(self) -> bool:
        """Whether the source makes its own events by given rates, with times, and so ends."""
        return self.format == "nexmark"


@attrs.frozen
class Growth:
    """How an operator's output grows with its input: as the rate of its input to the power of ``exponent``.

    ``at`` is the rate of its input (tuples/s; of a join the geometric mean of both) at which its selectivity holds.
    """

    exponent: float
    at: float


@attrs.frozen(kw_only=True)
class Operator:
    """One operator. All durations are seconds, ``cost`` is benchmark-core seconds per input tuple.

    Attributes
    ----------
    cost, selectivity
        One number per input, or None where only statistics can tell.
    window, slide
        Length and slide of an aggregate's windows.
    within
        A join's time window W: pairs whose times differ by at most W match.
    counts
        A join's count windows: tuples kept of the first and of the second input.
    route
        Share of the output that each reader gets; None: every reader gets everything.
    state
        Bytes of state that it keeps at the given rates; None: not known, or none.
    growth
        How the output grows with the input, where that is known; else it follows the input, and of a join with a time
        window the pairs in it.
    folder
        Where the module of ``function`` is looked for first; None: in the current folder.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    cost: tuple[float, ...] | None = None
    selectivity: tuple[float, ...] | None = None
    service: str = "constant"
    emit: str = "exact"
    where: str | None = None
    select: str | None = None
    by: tuple[str, ...] = ()
    window: float | None = None
    slide: float | None = None
    on: str | None = None
    within: float | None = None
    counts: tuple[int, int] | None = None
    function: str | None = None
    burn: str = "cpu"
    pin: str | None = None
    route: Mapping[str, float] | None = attrs.field(default=None, hash=False)
    state: float | None = None
    growth: Growth | None = None
    folder: str | None = attrs.field(default=None, eq=False)

    @property
    def power(self) -> float:
        """The exponent with which the output grows with the input where nothing else is known."""
        return 2.0 if self.kind == "join" and self.counts is None else 1.0

    @property
    def stateful(self) -> bool:
        """Whether the operator keeps tuples or sums between inputs."""
        return self.kind in ("join", "aggregate")

    @property
    def step(self) -> float:
        """Seconds from the beginning of one window to that of the next; 0 without windows."""
        return self.slide or self.window or 0.0


@attrs.frozen(kw_only=True)
class Sink:
    """Where results leave; ``weight`` is the worth of one output tuple per second."""

    name: str
    input: str
    weight: float = 1.0
    format: str | None = attrs.field(default=None, converter=_plain)
    options: Mapping[str, str] = attrs.field(factory=dict, hash=False, converter=_spelled)
    host: str | None = None


@attrs.frozen
class Stream:
    """The tuples on one edge, written ``writer->reader``.

    ``port`` is the reader's input number; ``share`` the part of the writer's output that goes this way; ``name`` what
    files, options and reports call it.
    """

    writer: str
    reader: str
    port: int = 0
    share: float = 1.0
    # Stored, since it is a key everywhere.
    name: str = attrs.field(
        default=attrs.Factory(lambda self: f"{self.writer}->{self.reader}", takes_self=True),
        init=False,
        eq=False,
        repr=False,
    )


@attrs.frozen(eq=False)
class Network:
    """An acyclic graph of sources, operators and sinks.

    Build it with `Network.of` or `read_network`, which check it. Sources and sinks are ordered by name, operators
    topologically with ties by name, streams by writer and reader, so that nothing depends on the order in a file.
    ``file`` is where it was read from, for messages.
    """

    name: str
    sources: Mapping[str, Source]
    operators: Mapping[str, Operator]
    sinks: Mapping[str, Sink]
    file: str | None = None

    @classmethod
    def of(
        cls,
        name: str,
        sources: Iterable[Source],
        operators: Iterable[Operator],
        sinks: Iterable[Sink] = (),
        file: str | None = None,
    ) -> Network:
        """Check the parts and put them in order.

        Raises
        ------
        InputError
            If a name is wrong or used twice, an input is unknown, an operator means nothing, or the operators form a
            circle.
        """
        entries, steps, exits = list(sources), list(operators), list(sinks)
        kinds: dict[str, str] = {}
        for table, names in (
            ("sources", [source.name for source in entries]),
            ("operators", [operator.name for operator in steps]),
            ("sinks", [sink.name for sink in exits]),
        ):
            for member in names:
                at = f"{table}.{member}"
                check_name(member, at)
                if member in kinds:
                    raise InputError(f"the name is already used in {kinds[member]}", at=at, hint="rename one")
                kinds[member] = table
        by_name = {operator.name: operator for operator in steps}
        writers = sorted(source.name for source in entries) + sorted(by_name)
        for operator in steps:
            check_operator(operator)
            for given in operator.inputs:
                _check_input(given, f"operators.{operator.name}.input", kinds, writers)
            if len(set(operator.inputs)) < len(operator.inputs):
                raise InputError(
                    "the same input is given twice", at=f"operators.{operator.name}.inputs", hint="put a map between"
                )
        for sink in exits:
            _check_input(sink.input, f"sinks.{sink.name}.input", kinds, writers)
        network = cls(
            name,
            MappingProxyType({s.name: s for s in sorted(entries, key=lambda s: s.name)}),
            MappingProxyType({o: by_name[o] for o in _topological(by_name)}),
            MappingProxyType({s.name: s for s in sorted(exits, key=lambda s: s.name)}),
            file,
        )
        for operator in network.operators.values():
            check_route(operator, [stream.reader for stream in network.outputs(operator.name)])
        return network

    def having(self, operators: Iterable[Operator], sinks: Iterable[Sink] | None = None) -> Network:
        """Return the network with other operators, and maybe other sinks."""
        ends = self.sinks.values() if sinks is None else sinks
        return Network.of(self.name, self.sources.values(), operators, ends, self.file)

    @cached_property
    def streams(self) -> tuple[Stream, ...]:
        """All streams, ordered by writer and reader."""
        found = [
            Stream(writer, operator.name, port, self._share(writer, operator.name))
            for operator in self.operators.values()
            for port, writer in enumerate(operator.inputs)
        ]
        found += [Stream(sink.input, sink.name, 0, self._share(sink.input, sink.name)) for sink in self.sinks.values()]
        return tuple(sorted(found, key=lambda stream: (stream.writer, stream.reader)))

    @cached_property
    def _outputs(self) -> dict[str, tuple[Stream, ...]]:
        found: dict[str, list[Stream]] = {name: [] for name in (*self.sources, *self.operators)}
        for stream in self.streams:
            found[stream.writer].append(stream)
        return {name: tuple(streams) for name, streams in found.items()}

    @cached_property
    def _inputs(self) -> dict[str, tuple[Stream, ...]]:
        found: dict[str, list[Stream]] = {name: [] for name in (*self.operators, *self.sinks)}
        for stream in self.streams:
            found[stream.reader].append(stream)
        return {name: tuple(sorted(streams, key=lambda stream: stream.port)) for name, streams in found.items()}

    def outputs(self, writer: str) -> tuple[Stream, ...]:
        """Return the streams that a source or operator writes, ordered by reader."""
        return self._outputs[writer]

    def inputs(self, reader: str) -> tuple[Stream, ...]:
        """Return the streams that an operator or sink reads, ordered by port."""
        return self._inputs[reader]

    @property
    def scheduled(self) -> bool:
        """Whether all sources begin when they are told to, at a multiple of the trigger, and end."""
        return all(source.scheduled for source in self.sources.values())

    def given_costs(self, names: Iterable[str]) -> list[float]:
        """Return the costs (s) that operators were given, means over their inputs; empty unless all were."""
        costs = [self.operators[name].cost for name in names]
        known = [cost for cost in costs if cost is not None]
        return [fmean(cost) for cost in known] if len(known) == len(costs) else []

    @cached_property
    def pins(self) -> dict[str, str]:
        """Hosts that operators must stay on."""
        return {operator.name: operator.pin for operator in self.operators.values() if operator.pin is not None}

    @property
    def named_hosts(self) -> tuple[tuple[str, str], ...]:
        """Hosts that the network names, each behind the key that names it."""
        rows = [(f"operators.{o.name}.pin", o.pin) for o in self.operators.values()]
        rows += [(f"sources.{end.name}.host", end.host) for end in self.sources.values()]
        rows += [(f"sinks.{end.name}.host", end.host) for end in self.sinks.values()]
        return tuple((key, host) for key, host in rows if host is not None)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The operators whose cost is not known."""
        return tuple(operator.name for operator in self.operators.values() if operator.cost is None)

    def check_costs(self) -> None:
        """Refuse a network without the cost of an operator.

        Raises
        ------
        InputError
            Naming the first such operator.
        """
        for name in self.unpriced:
            raise InputError(
                "has no cost",
                file=self.file,
                at=f"operators.{name}.cost",
                hint="give it, or pass --statistics from calibrate, with sample rows that reach it",
            )

    def check_hosts(self, hosts: Collection[str]) -> None:
        """Refuse a cluster that lacks a host which the network names.

        Raises
        ------
        InputError
            Naming the host, and the key that names it.
        """
        for at, host in self.named_hosts:
            if host not in hosts:
                hint = suggest(host, hosts, "hosts")
                raise InputError(f"{host!r} is no host of the cluster", file=self.file, at=at, hint=hint)

    @cached_property
    def queries(self) -> tuple[tuple[str, ...], ...]:
        """The connected parts of the network, each a tuple of operators, ordered by first operator.

        Operators that read the same source are connected only if streams between operators connect them.
        """
        part = {name: name for name in self.operators}

        def root(name: str) -> str:
            while part[name] != name:
                part[name] = part[part[name]]
                name = part[name]
            return name

        for stream in self.streams:
            if stream.writer in part and stream.reader in part:
                low, high = sorted((root(stream.writer), root(stream.reader)))
                part[high] = low
        groups: dict[str, list[str]] = {}
        for name in self.operators:
            groups.setdefault(root(name), []).append(name)
        return tuple(tuple(members) for _, members in sorted(groups.items()))

    def _share(self, writer: str, reader: str) -> float:
        route = self.operators[writer].route if writer in self.operators else None
        return 1.0 if route is None else route.get(reader, 0.0)

    def __reduce__(self) -> tuple[object, ...]:
        parts = ([*self.sources.values()], [*self.operators.values()], [*self.sinks.values()])
        return (_rebuild, (self.name, *parts, self.file))


def _rebuild(
    name: str, sources: list[Source], operators: list[Operator], sinks: list[Sink], file: str | None
) -> Network:
    return Network.of(name, sources, operators, sinks, file)


def _check_input(given: str, at: str, kinds: Mapping[str, str], writers: list[str]) -> None:
    if kinds.get(given) == "sinks":
        raise InputError(f"{given!r} is a sink, which nothing can read", at=at, hint=f"read what {given!r} reads")
    if given not in kinds:
        raise InputError(f"{given!r} is no source or operator", at=at, hint=suggest(given, writers, "known names"))


def _circle(operators: Mapping[str, Operator], left: set[str]) -> list[str]:
    """Return the operators of a circle, by name; each of those left reads one of them."""
    path = [min(left)]
    while path.count(path[-1]) == 1:
        path.append(min(given for given in operators[path[-1]].inputs if given in left))
    return sorted(set(path[path.index(path[-1]) :]))


def _topological(operators: Mapping[str, Operator]) -> list[str]:
    waiting = {name: sum(given in operators for given in operator.inputs) for name, operator in operators.items()}
    readers: dict[str, list[str]] = {name: [] for name in operators}
    for name, operator in operators.items():
        for given in operator.inputs:
            if given in operators:
                readers[given].append(name)
    ready = [name for name, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order: list[str] = []
    while ready:
        name = heapq.heappop(ready)
        order.append(name)
        for reader in readers[name]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, reader)
    if len(order) < len(operators):
        circle = _circle(operators, set(operators) - set(order))
        names = ", ".join(circle[:6]) + (", …" if len(circle) > 6 else "")
        raise InputError(
            f"the operator {names} reads itself"
            if len(circle) == 1
            else f"the operators {names} feed each other in a circle",
            at=f"operators.{circle[0]}",
            hint="a network has no loops: remove one input",
        )
    return order
