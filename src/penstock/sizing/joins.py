"""Rewriting: filters below or behind a join with a time window (Chandramouli et al. section IX-A).

A filter that reads columns of one side only lets the same pairs through on either side of such a join. Moved below, it
saves the join work; behind a join that matches little, an expensive one is asked less often. A join keeps its name and
those of its inputs, which its condition and its columns bear, so that a filter goes below the operator that the join
reads, and only where the two commute. In doubt nothing moves: a join that counts tuples or selects columns, an unknown
schema, a word of the condition that is no column.

Joins are not exchanged with each other. A pair has the time of its later tuple, so that a window around it depends on
which join comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from penstock.network import Network, Operator
from penstock.network.sql import code
from penstock.sizing.reorder import MOVABLE, VARIANTS, WORD, columns_of, commute, rows, split, variants

Order = tuple[tuple[str, ...], ...]


def rewritings(network: Network) -> Iterator[tuple[Order, Network]]:
    """Iterate over the legal plans, the given one first: the rows of operators that differ, and the network."""
    seen = set()
    for moved, made in _plans(network):
        before = rows(made)
        for order, found in variants(made):
            edges = frozenset((o.name, o.inputs) for o in found.operators.values())
            if edges in seen:
                continue
            seen.add(edges)
            yield (*moved, *(row for row, old in zip(order, before, strict=True) if row != old)), found
            if len(seen) == VARIANTS:
                return


def _plans(network: Network) -> Iterator[tuple[Order, Network]]:
    """Iterate over the networks in which filters are on one or the other side of joins, each once."""
    found: list[tuple[Order, Network]] = [((), network)]
    seen = {_sides(network)}
    for moved, made in found:
        yield moved, made
        for name in made.operators:
            for way, step in ((behind(made, name), -1), (below(made, name), 1)):
                if way is not None and (sides := _sides(way[1])) not in seen and len(seen) < VARIANTS:
                    seen.add(sides)
                    found.append(((*moved, (name, way[0])[::step]), way[1]))


def _sides(network: Network) -> frozenset[tuple[str, str]]:
    """Return for each filter what it comes before, past operators that it may be in a row with."""
    end: dict[str, str] = {}
    for name in reversed([*network.operators]):
        readers = network.outputs(name)
        reader = readers[0].reader if len(readers) == 1 else name
        movable = reader in end and network.operators[reader].kind in MOVABLE
        end[name] = end[reader] if movable else reader
    return frozenset((o.name, end[o.name]) for o in network.operators.values() if o.kind == "filter")


def behind(network: Network, name: str) -> tuple[str, Network] | None:
    """Return the join behind a filter and the network with the filter moved behind it, or None if it may not be."""
    one, at = network.operators[name], name
    if one.kind != "filter" or one.route is not None:
        return None
    while (reader := _only_reader(network, at)) is not None and reader.kind in MOVABLE:
        if reader.route is not None or not commute(one, reader):
            return None
        at = reader.name
    if reader is None or at == name or not _plain(reader):
        return None
    where = one.where
    if where is not None:
        names = _names(network, reader)
        if names is None or (where := _renamed(one, names[reader.inputs.index(at)])) is None:
            return None
    made = _moved(network, attrs.evolve(one, inputs=(reader.name,), where=where))
    return None if made is None else (reader.name, made)


def below(network: Network, name: str) -> tuple[str, Network] | None:
    """Return the join before a filter and the network with the filter moved below it, or None if it may not be."""
    one = network.operators[name]
    join = network.operators.get(one.inputs[0])
    if one.kind != "filter" or one.route is not None or join is None or join.route is not None or not _plain(join):
        return None
    names = _names(network, join)
    if one.where is None or names is None or _only_reader(network, join.name) is not one:
        return None
    for side, inner in zip(join.inputs, names, strict=True):
        where = _renamed(one, {new: old for old, new in inner.items()})
        reads = network.operators.get(side)
        if where is None or reads is None or reads.kind not in MOVABLE or _only_reader(network, side) is not join:
            continue
        moved = attrs.evolve(one, inputs=reads.inputs, where=where)
        if commute(moved, reads):
            made = _moved(network, moved, reads.name)
            return None if made is None else (join.name, made)
    return None


def _only_reader(network: Network, writer: str) -> Operator | None:
    """Return the operator that alone reads a stream."""
    readers = network.outputs(writer)
    return network.operators.get(readers[0].reader) if len(readers) == 1 else None


def _plain(operator: Operator) -> bool:
    """Whether an operator is a join of two streams by time that passes all columns on."""
    return (
        operator.kind == "join"
        and operator.counts is None
        and operator.select is None
        and len(set(operator.inputs)) == 2
    )


def _moved(network: Network, one: Operator, reader: str | None = None) -> Network | None:
    """Return the network with an operator behind its new input, before one reader of it or all.

    None where an operator that knows its inputs by name would read another, or one that divides its tuples by name.
    """
    old, after = network.operators[one.name].inputs[0], one.inputs[0]

    def given(name: str, its: str) -> str:
        name = old if name == one.name else name
        return one.name if name == after and reader in (None, its) else name

    operators = {one.name: one}
    for operator in network.operators.values():
        if operator.name != one.name:
            inputs = tuple(given(name, operator.name) for name in operator.inputs)
            if inputs != operator.inputs and operator.kind in ("join", "python"):
                return None
            operators[operator.name] = attrs.evolve(operator, inputs=inputs)
    if any(network.operators[name].route is not None for name in (old, after) if name in network.operators):
        return None
    sinks = [attrs.evolve(sink, input=given(sink.input, sink.name)) for sink in network.sinks.values()]
    return network.having(operators.values(), sinks)


def _names(network: Network, join: Operator) -> tuple[dict[str, str], dict[str, str]] | None:
    """Return what a join calls the columns of each side, or None where those are not known."""
    sides = [_columns(network, name) for name in join.inputs]
    if sides[0] is None or sides[1] is None:
        return None
    clash = {name.lower() for name in sides[0]} & {name.lower() for name in sides[1]}
    left, right = (
        {name: f"{side}_{name}" if name.lower() in clash else name for name in found or ()}
        for side, found in zip(join.inputs, sides, strict=True)
    )
    return left, right


def _columns(network: Network, writer: str) -> frozenset[str] | None:
    """Return the columns of what a source or operator writes, or None where they are not known."""
    selected = []
    while writer in network.operators and network.operators[writer].kind in (*MOVABLE, "union"):
        operator = network.operators[writer]
        selected += [] if operator.kind != "map" or operator.select is None else [operator.select]
        writer = operator.inputs[0]
    found = _written(network, writer)
    for select in reversed(selected):
        parts = [part.split() for part in split(select)]
        if found is None or not all(parts):
            return None
        if not all(WORD.fullmatch(part[-1].strip("`")) or part == ["*"] for part in parts):
            return None
        made = frozenset(part[-1].strip("`") for part in parts if part != ["*"])
        found = made | found if ["*"] in parts else made
    return found


def _written(network: Network, writer: str) -> frozenset[str] | None:
    """Return the columns of a source or a join, or None where they are not known."""
    if writer in network.sources:
        schema = network.sources[writer].schema
        fields = None if schema is None or "<" in schema else [field.split() for field in split(schema)]
        if fields is None or not all(fields):
            return None
        return frozenset(field[0].strip("`:") for field in fields)
    join = network.operators[writer]
    names = _names(network, join) if join.kind == "join" and _plain(join) else None
    return None if names is None else frozenset(name for side in names for name in side.values())


def _renamed(one: Operator, names: Mapping[str, str]) -> str | None:
    """Return a filter's condition with its columns renamed, or None where one of its words is none of them."""
    wanted, others = columns_of(one), {name.lower(): other for name, other in names.items()}
    # Two columns whose names differ in case only are the same to Spark.
    if not wanted or not wanted <= set(others) or len(others) < len(names):
        return None

    where, made, end = one.where or "", "", 0
    for word in WORD.finditer(code(where)):
        quote, name = word[0][0] == "`", word[0].strip("`").lower()
        if name in wanted:
            made += where[end : word.start()] + (f"`{others[name]}`" if quote else others[name])
            end = word.end()
    return made + where[end:]
