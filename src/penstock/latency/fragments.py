"""Fragments: which operators run together in one streaming query.

The fixed cost of Spark's micro-batches is per query and batch, so the operators of a host form one query wherever
Spark's semantics allow it; a host with one query is also the first-in first-out server of the models.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from penstock.network import Network, Operator, Stream
from penstock.network.sql import code

CHEAP = ("filter", "map")
"""Kinds that are evaluated again rather than passed through a log, in front of an operator with a plan of its own."""


@attrs.frozen
class Fragment:
    """One streaming query.

    Attributes
    ----------
    name
        Of the query: its first operator. It stays the same on whatever host the query runs.
    host
        Where it runs.
    operators
        In topological order.
    cuts
        Names of streams between operators of this host that pass through a log: visible at a batch's end.
    """

    name: str
    host: str
    operators: tuple[str, ...]
    cuts: frozenset[str] = frozenset()


GENERATORS = frozenset(
    name + ending
    for name in ("explode", "inline", "json_tuple", "posexplode", "stack", "variant_explode")
    for ending in ("", "_outer")
)
"""Functions that make several rows of one."""

_GENERATES = re.compile(rf"\b(?:{'|'.join(sorted(GENERATORS))})`?\s*\(", re.IGNORECASE)
"""A call of one of them: planning has no reader of SQL at hand. What only looks like one costs a plan of its own."""


def makes_rows(operator: Operator) -> bool:
    """Whether an operator makes several rows of one."""
    return operator.kind == "map" and _GENERATES.search(code(operator.select or "")) is not None


def own_plan(operator: Operator) -> bool:
    """Whether an operator needs a node of its own in Spark's plan, so that rows cannot pass beside it."""
    return operator.kind in ("union", "join", "aggregate", "python") or makes_rows(operator)


def lineage(network: Network) -> dict[str, frozenset[str]]:
    """Return the sources from which each source and operator derives."""
    found = {name: frozenset([name]) for name in network.sources}
    for name, operator in network.operators.items():
        found[name] = frozenset().union(*(found[given] for given in operator.inputs))
    return found


def depth(network: Network) -> dict[str, int]:
    """Return how many stateful operators lie on the longest way from a source up to each operator, itself included."""
    found = dict.fromkeys(network.sources, 0)
    for name, operator in network.operators.items():
        found[name] = max(found[given] for given in operator.inputs) + operator.stateful
    return found


def fragments(
    network: Network, placement: Mapping[str, str], apart: Collection[str] = (), real_time: Collection[str] = ()
) -> tuple[Fragment, ...]:
    """Divide a placed network into streaming queries, ordered by host, those with operators ``apart`` last.

    All operators of a host form one query, but Spark keeps one watermark for a whole query: the slowest. So stateful
    operators share a query only if they derive from the same sources, else an idle source would hold back the windows
    of another, and only at equal depth, else a window would wait for a watermark that waits for the window. What lies
    behind a stateful or Python operator and needs a plan of its own reads a log, so that nothing costly is computed
    twice. Each of the operators ``apart`` is a query of its own, which can move alone. Those in ``real_time`` mode
    share queries among themselves only.
    """
    sources, depths = lineage(network), depth(network)

    def domain(name: str) -> tuple[int, tuple[str, ...]]:
        return depths[name], tuple(sorted(sources[name]))

    made = []
    for host in sorted(set(placement.values())):
        here = [name for name in network.operators if placement.get(name) == host]
        prompt = tuple(name for name in here if name in real_time and name not in apart)
        members = [name for name in here if name not in apart and name not in real_time]
        domains = sorted({domain(name) for name in members if network.operators[name].stateful})
        home: dict[str, int] = {}
        for name in members:
            operator = network.operators[name]
            before = [home[given] for given in operator.inputs if given in home]
            home[name] = domains.index(domain(name)) if operator.stateful else max(before, default=0)
        groups = [tuple(name for name in members if home[name] == n) for n in range(max(1, len(domains)))]
        groups = [prompt, *groups, *((name,) for name in here if name in apart)]
        made += [fragment(network, host, inside) for inside in groups if inside]
    return tuple(made)


def divisible(network: Network, inside: Sequence[str], together: Sequence[str] = ()) -> tuple[tuple[str, ...], ...]:
    """Return the parts of a query that read nothing of each other and can go on as queries of their own.

    What keeps state stays where the checkpoint is, in the query that has the name of the first operator; operators
    that are to stay ``together`` do.
    """
    member: dict[str, list[str]] = {}
    for name in inside:
        before = [member[given] for given in network.operators[name].inputs if given in member]
        _merge([*before, [name]], member)
    held = [name for name in inside if network.operators[name].stateful]
    if held:
        _merge([member[inside[0]], *(member[name] for name in held)], member)
    _merge([member[name] for name in together], member)
    order = {name: k for k, name in enumerate(inside)}
    groups = {id(group): group for group in member.values()}
    return tuple(tuple(sorted(group, key=order.__getitem__)) for group in groups.values())


def _merge(groups: Iterable[list[str]], member: dict[str, list[str]]) -> None:
    """Make one group of several, and tell so of each of its members."""
    whole = [*dict.fromkeys(name for group in groups for name in group)]
    member |= dict.fromkeys(whole, whole)


def fragment(network: Network, host: str, inside: tuple[str, ...]) -> Fragment:
    """Return the query of some operators (in topological order) on a host."""
    return Fragment(inside[0], host, inside, _cuts(network, inside))


def origins(network: Network, inside: Collection[str], cuts: Collection[str] = ()) -> dict[str, str]:
    """Return the origin of each operator of a fragment: whose rows the operator's rows are, one to one or fewer.

    The origin of a filter, map or delay is that of its input; it is a source, an operator whose log is read, or an
    operator of the fragment that needs a plan of its own (which is its own origin).
    """
    found: dict[str, str] = {}
    for name in inside:
        given = network.inputs(name)[0]
        direct = given.writer in found and given.name not in cuts
        found[name] = name if own_plan(network.operators[name]) else (found[given.writer] if direct else given.writer)
    return found


def _cuts(network: Network, inside: tuple[str, ...]) -> frozenset[str]:
    """Return the streams inside a query that pass through a log.

    An operator with a plan of its own can read the rows of an origin directly where nothing else leaves that origin,
    or where going over them again costs little. Spark does not chain stateful operators behind a join, and their
    watermarks differ, so that a stateful operator never reads another one directly.
    """
    cuts: set[str] = set()
    for name in inside:
        operator = network.operators[name]
        for stream in network.inputs(name) if own_plan(operator) else ():
            start = origins(network, inside, cuts)
            if stream.writer not in start:
                continue
            origin = start[stream.writer]
            members = {origin, *(other for other, root in start.items() if root == origin)}
            leaving = [
                out
                for member in members
                for out in network.outputs(member)
                if out.name in cuts or out.reader not in inside or own_plan(network.operators[out.reader])
            ]
            if origin in inside:
                alone = len(leaving) == 1 and not (network.operators[origin].stateful and operator.stateful)
                if not alone:
                    cuts.add(stream.name)
            elif len(leaving) > 1 and any(
                network.operators[step].kind not in CHEAP for step in chain(network, stream, origin)
            ):
                cuts.add(stream.name)
    return frozenset(cuts)


def chain(network: Network, stream: Stream, origin: str) -> list[str]:
    """Return the filters, maps and delays from an origin to a stream's writer, first one first."""
    steps: list[str] = []
    name = stream.writer
    while name != origin:
        steps.append(name)
        name = network.operators[name].inputs[0]
    return steps[::-1]
