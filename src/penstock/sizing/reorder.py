"""Rewriting: the legal orders of filters and maps that commute, cheapest first (plan selection, section IX-A)."""

from __future__ import annotations

import heapq
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import attrs

from penstock.network import Network, Operator
from penstock.network.sql import code

MOVABLE = ("filter", "map", "delay")
ORDERS = 720
"""Orders of one row of operators that are listed; of longer rows only the one by rank."""
VARIANTS = 1000
"""Networks that are listed at most."""

WORD = re.compile(r"`[^`]*`|[A-Za-z_]\w*")


def commute(first: Operator, second: Operator) -> bool:
    """Whether two operators that follow each other may be exchanged.

    Filters and delays look at a row and let it pass, so they commute with each other. With a map a filter commutes if
    the map passes on every column that the filter's condition reads, under the same name, whatever its case. Maps, and
    Python functions, of which nothing is known, stay where they are to each other.
    """
    if first.kind not in MOVABLE or second.kind not in MOVABLE:
        return False
    maps = [operator for operator in (first, second) if operator.kind == "map"]
    if not maps:
        return True
    if len(maps) == 2:
        return False
    other = second if maps[0] is first else first
    return _words(other) <= _passed(maps[0], _words(other))


def columns_of(operator: Operator) -> set[str]:
    """Return the words of a filter's condition that may be columns, in lower case.

    String literals are none, nor are SQL's own words.
    """
    return _words(operator) - SQL


def _words(operator: Operator) -> set[str]:
    return {word.strip("`").lower() for word in WORD.findall(code(operator.where or ""))}


def _passed(operator: Operator, wanted: set[str]) -> set[str]:
    """Return which of the wanted columns a map passes on unchanged; one without ``select`` passes on everything."""
    if operator.select is None:
        return wanted
    parts = [part.strip().strip("`").lower() for part in split(operator.select)]
    named = [_name(part) for part in parts if part != "*"]
    # Words of the language itself (and, like, null …) cannot be told from columns: a map that is to be passed
    # must then name them too, so that in doubt nothing moves; the commonest are known.
    if None in named:
        return wanted & SQL
    if "*" in parts:
        return wanted - set(named)
    # A name that is given twice is ambiguous behind the map.
    return {part for part in parts if WORD.fullmatch(part) and named.count(part) == 1} | (wanted & SQL)


def _name(part: str) -> str | None:
    """Return the name of the column that a part of a ``select`` makes; None where it may make others.

    A call without a name may be of a function that makes several columns, as ``v.*`` does.
    """
    last = part.split()[-1] if part else ""
    name = last.split(".")[-1].strip("`")
    return name if WORD.fullmatch(name) and "(" not in last else None


SQL = frozenset(
    [
        *("and", "or", "not", "in", "is", "null", "like", "between", "true", "false", "case", "when", "then", "else"),
    ]
)


def split(text: str) -> list[str]:
    """Split at commas outside brackets, comments and texts."""
    parts, depth, start = [], 0, 0
    for place, char in enumerate(code(text)):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def rows(network: Network) -> list[tuple[str, ...]]:
    """Return the longest rows of movable operators in which each is the only reader of the one before."""
    after: dict[str, str] = {}
    for name, operator in network.operators.items():
        if operator.kind in MOVABLE and operator.route is None:
            readers = network.outputs(name)
            if len(readers) == 1 and readers[0].reader in network.operators:
                reader = network.operators[readers[0].reader]
                if reader.kind in MOVABLE and reader.route is None:
                    after[name] = reader.name
    heads = [name for name in network.operators if name in after and name not in after.values()]
    found = []
    for head in heads:
        row = [head]
        while row[-1] in after:
            row.append(after[row[-1]])
        # What reads the end of the row by its name (a join's condition) keeps that name: the last one stays.
        names = [stream.reader for stream in network.outputs(row[-1])]
        if any(network.operators[n].kind in ("join", "python") for n in names if n in network.operators):
            row.pop()
        if len(row) > 1:
            found.append(tuple(row))
    return found


def orders(network: Network, row: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the legal orders of a row: pairs that do not commute keep theirs. The given order comes first."""
    operators = network.operators
    fixed = [
        (a, b)
        for i, a in enumerate(row)
        for b in row[i + 1 :]
        if not commute(operators[a], operators[b])
    ]  # fmt: skip

    def legal(order: Sequence[str]) -> bool:
        place = {name: index for index, name in enumerate(order)}
        return all(place[a] < place[b] for a, b in fixed)

    if len(row) <= 6:
        found = [order for order in itertools.permutations(row) if legal(order)]
    else:
        found = [tuple(row), by_rank(network, row, fixed)]
    return list(dict.fromkeys([tuple(row), *found]))[:ORDERS]


def by_rank(network: Network, row: Sequence[str], fixed: Sequence[tuple[str, str]] = ()) -> tuple[str, ...]:
    """Return the order by falling (1 − selectivity)/cost, the cheapest of independent filters."""
    number = {name: place for place, name in enumerate(row)}
    before, after = Counter(b for _, b in fixed), defaultdict(list)
    for a, b in fixed:
        after[a].append(b)
    # The highest rank first, of equals the first in the row.
    ready = [(-_rank(network.operators[name]), number[name], name) for name in row if not before[name]]
    heapq.heapify(ready)
    done = []
    while ready:
        done.append(heapq.heappop(ready)[2])
        for name in after[done[-1]]:
            before[name] -= 1
            if not before[name]:
                heapq.heappush(ready, (-_rank(network.operators[name]), number[name], name))
    return tuple(done)


def _rank(operator: Operator) -> float:
    cost, selectivity = (operator.cost or (0.0,))[0], (operator.selectivity or (1.0,))[0]
    return (1 - selectivity) / cost if cost > 0 else (float("inf") if selectivity < 1 else 0.0)


def reordered(network: Network, row: Sequence[str], order: Sequence[str]) -> Network:
    """Return the network with a row of operators in another order."""
    if tuple(row) == tuple(order):
        return network
    operators = dict(network.operators)
    before = network.operators[row[0]].inputs[0]
    for name in order:
        operators[name] = attrs.evolve(operators[name], inputs=(before,))
        before = name
    for stream in network.outputs(row[-1]):
        if stream.reader in operators:
            reader = operators[stream.reader]
            inputs = tuple(order[-1] if given == row[-1] else given for given in reader.inputs)
            operators[stream.reader] = attrs.evolve(reader, inputs=inputs)
    sinks = [attrs.evolve(sink, input=order[-1]) if sink.input == row[-1] else sink for sink in network.sinks.values()]
    first = network.operators[row[0]].inputs[0]
    if first in operators and operators[first].route is not None:
        route = {order[0] if name == row[0] else name: share for name, share in (operators[first].route or {}).items()}
        operators[first] = attrs.evolve(operators[first], route=route)
    return network.having(operators.values(), sinks)


def variants(network: Network) -> Iterator[tuple[tuple[tuple[str, ...], ...], Network]]:
    """Iterate over the legal reorderings, the given network first: the rows as ordered, and the network.

    Rows are independent of each other, so that with many of them each is reordered alone beside the others by rank.
    """
    found = rows(network)
    choices = [orders(network, row) for row in found]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > VARIANTS:
        alone = [
            tuple(order if i == k else row for i, row in enumerate(found))
            for k, choice in enumerate(choices)
            for order in choice
        ]
        combos = list(dict.fromkeys([tuple(found), *alone]))[:VARIANTS]
    else:
        combos = list(itertools.product(*choices))
    for combo in combos:
        made = network
        for row, order in zip(found, combo, strict=True):
            made = reordered(made, row, order)
        yield combo, made
