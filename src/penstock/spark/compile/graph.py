"""What a query is made of, before Spark: which rows it reads, where they branch, and where they leave.

The filters, maps and delays behind an *origin* (a source, a log, or an operator with a plan of its own) become one
pass that carries a row per input row, so that a shared prefix is read and computed once. Operators with plans of their
own are branches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import cached_property

import attrs

from penstock.latency.fragments import CHEAP, Fragment, chain, lineage, origins, own_plan
from penstock.network import Network, Operator, Stream
from penstock.network.windows import drops_whole, windows_behind


@attrs.frozen(eq=False)
class Graph:
    """One query of a placed network.

    An outside origin is written ``@name``: a query may also read the log of an operator of its own.

    Attributes
    ----------
    network
        The whole.
    fragment
        The query's operators and cuts.
    dropping
        Streams that drop whole windows while the query runs.
    real_time
        Operators whose rows come one by one, without marks.
    """

    network: Network
    fragment: Fragment
    dropping: frozenset[str] = frozenset()
    real_time: frozenset[str] = frozenset()

    @cached_property
    def start(self) -> Mapping[str, str]:
        """The origin of each operator."""
        roots = origins(self.network, self.fragment.operators, self.fragment.cuts)
        return {name: root if root in self.fragment.operators else f"@{root}" for name, root in roots.items()}

    @cached_property
    def outside(self) -> tuple[str, ...]:
        """The outside origins; their numbers are their places."""
        streams = [stream for name in self.fragment.operators for stream in self.network.inputs(name)]
        return tuple(sorted({self.origin(stream) for stream in streams} - set(self.fragment.operators)))

    @cached_property
    def origins(self) -> tuple[str, ...]:
        """All origins, the outside ones first."""
        return (*self.outside, *(name for name in self.fragment.operators if self.start[name] == name))

    @cached_property
    def leaving(self) -> tuple[str, ...]:
        """The origins whose rows leave the query."""
        return tuple(origin for origin in self.origins if self.sinks(origin) or self.logs(origin))

    @cached_property
    def scans(self) -> Counter[str]:
        """In how many places a plan in real-time mode reads each outside origin: every branch reads its own."""
        found, waiting = Counter[str](), [*self.leaving]
        while waiting:
            origin = waiting.pop()
            if origin in self.outside:
                found[origin] += 1
            else:
                waiting += map(self.origin, self.network.inputs(origin))
        return found

    @property
    def logs_read(self) -> tuple[str, ...]:
        """The operators whose logs the query reads."""
        return tuple(origin[1:] for origin in self.outside if origin[1:] in self.network.operators)

    @cached_property
    def timed(self) -> bool:
        """Whether the writer must know how far event time has come: for logs, and for windows dropped whole."""
        return any(map(self.logs, self.origins)) or bool(self.dropping)

    def number(self, origin: str) -> int | None:
        """Return an outside origin's number."""
        return self.outside.index(origin) if origin in self.outside else None

    def marked(self, origin: str) -> bool:
        """Whether an outside origin's rows come with marks."""
        name = origin[1:]
        if name in self.network.operators:
            return name not in self.real_time
        return self.network.sources[name].scheduled

    def origin(self, stream: Stream) -> str:
        """Return the origin of the rows on a stream into an operator of this query."""
        inside = stream.writer in self.fragment.operators and stream.name not in self.fragment.cuts
        return self.start[stream.writer] if inside else f"@{stream.writer}"

    def members(self, origin: str) -> list[str]:
        """Return the filters, maps and delays behind an origin."""
        return [name for name in self.fragment.operators if self.start[name] == origin and name != origin]

    def readers(self, origin: str) -> list[Stream]:
        """Return the streams from an origin's rows to operators and sinks of this query."""
        return [
            stream
            for member in (origin, *self.members(origin))
            for stream in self.network.outputs(member.lstrip("@"))
            if (stream.reader in self.fragment.operators and self.origin(stream) == origin)
            or (stream.reader in self.network.sinks and member in self.fragment.operators)
        ]

    def sinks(self, origin: str) -> list[Stream]:
        """Return the streams from an origin's rows to sinks."""
        return [stream for stream in self.readers(origin) if stream.reader in self.network.sinks]

    def logs(self, origin: str) -> list[str]:
        """Return the operators among an origin's rows whose output others read from a log."""
        return [
            member
            for member in (origin, *self.members(origin))
            if member in self.fragment.operators
            and any(
                out.name in self.fragment.cuts
                or (out.reader in self.network.operators and out.reader not in self.fragment.operators)
                for out in self.network.outputs(member)
            )
        ]

    def branches(self, origin: str) -> list[Stream]:
        """Return the streams from an origin's rows to operators with plans of their own."""
        return [
            stream
            for stream in self.readers(origin)
            if stream.reader in self.network.operators and own_plan(self.network.operators[stream.reader])
        ]

    def alone(self, origin: str) -> bool:
        """Whether one branch is all that leaves an origin, so that nothing is evaluated twice."""
        return len(self.branches(origin)) == 1 and not self.sinks(origin) and not self.logs(origin)

    def silent(self, origin: str) -> bool:
        """Whether nothing of an origin need reach the writer."""
        return self.alone(origin) and (origin not in self.outside or not self.timed or not self.needed(origin))

    def needed(self, origin: str) -> bool:
        """Whether the writer must hear of an outside origin's event time besides its rows.

        It follows the frontiers of what leaves to logs without a stateful operator between (behind one, Spark's
        watermark is the frontier), and of what drops windows.
        """
        number = self.number(origin)
        leaving = [self.derives(other) for other in self.origins if self.logs(other)]
        dropping = [self.derives(self.origin(s)) for s in self.network.streams if s.name in self.dropping]
        return any(number in numbers for numbers, behind in leaving if not behind) or any(
            number in numbers for numbers, _ in dropping
        )

    def derives(self, origin: str) -> tuple[tuple[int, ...], bool]:
        """Return the numbers of the outside origins behind an origin, and whether a stateful operator is between."""
        number = self.number(origin)
        if number is not None:
            return (number,), False
        operator = self.network.operators[origin]
        found: set[int] = set()
        behind = operator.stateful
        for stream in self.network.inputs(origin):
            numbers, deeper = self.derives(self.origin(stream))
            found |= set(numbers)
            behind |= deeper
        return tuple(sorted(found)), behind

    @cached_property
    def recalled(self) -> tuple[int, ...]:
        """Numbers of the sources without marks that Spark's watermark follows: a restart must recall them."""
        stateful = [name for name in self.fragment.operators if self.network.operators[name].stateful]
        numbers = {number for name in stateful for number in self.derives(name)[0]}
        return tuple(sorted(number for number in numbers if not self.marked(self.outside[number])))

    def steps(self, stream: Stream) -> list[str]:
        """Return the filters, maps and delays between a branch's origin and its operator."""
        origin = self.origin(stream)
        steps = chain(self.network, stream, origin.lstrip("@"))
        if not self.alone(origin) and any(self.network.operators[step].kind not in CHEAP for step in steps):
            raise AssertionError(f"{stream.name} would be computed twice")  # fragments() cuts such streams
        return steps


def stateful_behind(network: Network, name: str) -> bool:
    """Whether a window or join lies behind an operator, in whatever query."""
    return any(
        network.operators[out.reader].stateful or stateful_behind(network, out.reader)
        for out in network.outputs(name)
        if out.reader in network.operators
    )


def sheddable(network: Network, real_time: Collection[str] = ()) -> frozenset[str]:
    """Return the streams that can drop: not those to windows of which none would be dropped whole.

    Operators in ``real_time`` mode decide of rows by their stimulus times, and so of no windows.
    """
    able = [stream for stream in network.streams if drops_whole(network, stream)]
    return frozenset(s.name for s in able if s.reader not in real_time or not windows_behind(network, s))


def drops_into(network: Network, operator: Operator, dropping: Collection[str]) -> list[str]:
    """Return the streams that drop an aggregate's windows, of those that drop anything."""
    found, waiting = set(), [operator.name]
    while waiting:
        for stream in network.inputs(waiting.pop()):
            if stream.name in dropping:
                found.add(stream.name)
            if stream.writer in network.operators and network.operators[stream.writer].kind != "aggregate":
                waiting.append(stream.writer)
    return sorted(found)


def numbered(network: Network, name: str, positioned: Collection[str]) -> bool:
    """Whether rows of an operator come from a source whose rows have no positions."""
    return not lineage(network)[name] <= set(positioned)
