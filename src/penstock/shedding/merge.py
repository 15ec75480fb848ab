"""Merging tables and mapping them back through a host (Tatbul et al. section 6.3).

A `Partial` is a table on its way through a host: for rates at some of its streams, the load that they put on the host,
and the score behind them. From the host's ends to its inputs,

* an operator maps a row's output rate to its input rate (``r / selectivity``);
* a split needs the greatest rate of its branches; the others drop the rest, which is the local plan;
* a merge takes all pairs of input rates that add up to the row's rate, on a grid of one of them;
* tables are combined row by row, and rows that overload the host are left out.

Rows that others beat are pruned without loss. Similar rows (in the same cell of a grid, of rates and of load) are
pruned only where there would be too many: like a grid of rates that costs a *round* of the spread, or half a round,
since the cells are half as wide.
"""

from __future__ import annotations

import math

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.native.jit import kernel
from penstock.shedding.grid import TooLarge
from penstock.shedding.program import Matrix

KERNEL = "penstock.shedding.fit_kernel"
FULL = 1 + 1e-12
ROOM = 30_000
"""Rows that a table may have before similar ones are pruned."""
WORK = 40_000_000
"""Comparisons of rows before similar ones are pruned."""
USUAL = 100
"""Rows that nothing beats and that each row is compared with, about."""
SIMILAR = 0.5
"""Rounds of the spread that pruning similar rows costs: the width of its cells."""
EXACT = 600_000
"""Pairs of rows that are all listed; of more, only the best in each cell of the grid is kept."""
MOST_PAIRS = 20_000_000
SLOTS = 1 << 23
MOST_SPLITS = 400_000
"""Pairs of rates that merges of one table may have."""


@attrs.frozen(eq=False)
class Partial:
    """A table on its way through a host.

    Attributes
    ----------
    dims
        Names of what the rates are of.
    rates
        Array (rows, dims), tuples/s.
    load
        Array (rows,): share of the host's usable capacity.
    score
        Array (rows,).
    kept
        Array (rows, arcs): kept rates of the host's arcs, as far as they are settled.
    small
        Array (dims,): an optimal rate below it may have become 0; inf where rates are not on a grid.
    rounds
        Within the spread, to this power, of the optimum.
    """

    dims: tuple[str, ...]
    rates: Matrix
    load: Matrix
    score: Matrix
    kept: Matrix
    small: Matrix
    rounds: float

    def __len__(self) -> int:
        return len(self.score)

    def rows(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> Partial:
        """Return some rows."""
        return attrs.evolve(
            self, rates=self.rates[chosen], load=self.load[chosen], score=self.score[chosen], kept=self.kept[chosen]
        )


def table_of(dims: tuple[str, ...], rates: Matrix, score: Matrix, small: Matrix, rounds: float, arcs: int) -> Partial:
    """Return a table that puts no load on the host yet."""
    return Partial(dims, rates, np.zeros(len(rates)), score, np.zeros((len(rates), arcs)), small, rounds)


def settled(table: Partial, dim: str, arc: int, cost: float, name: str, factor: float) -> Partial:
    """Fix the rate of an arc, charge its load, and turn it into the rate of what offers it.

    Parameters
    ----------
    dim, name
        The arc, and what it becomes; where the table has that already, a row needs the greater of both.
    factor
        What the arc offers per tuple of it.
    """
    at = table.dims.index(dim)
    rates, kept = table.rates[:, at], table.kept.copy()
    kept[:, arc] = rates
    needed = rates / factor if factor > 0 else np.where(rates > 0, np.inf, 0.0)
    small = float(table.small[at]) / factor if factor > 0 else 0.0
    load = table.load + cost * rates
    others = [k for k in range(len(table.dims)) if k != at]
    dims, columns, smalls = [table.dims[k] for k in others], table.rates[:, others], table.small[others]
    if name in dims:
        k = dims.index(name)
        columns[:, k], smalls[k] = np.maximum(columns[:, k], needed), max(smalls[k], small)
    else:
        dims, columns, smalls = [*dims, name], np.column_stack([columns, needed]), np.append(smalls, small)
    found = attrs.evolve(table, dims=tuple(dims), rates=columns, load=load, kept=kept, small=smalls)
    return found.rows((load <= FULL) & np.isfinite(needed))


def paired(table: Partial, dim: str, inputs: list[tuple[str, float, Matrix]], spread: float) -> Partial:
    """Map a merge back: all rates of its inputs, each on its grid but the last, that add up to a row's rate.

    Parameters
    ----------
    inputs
        Name of each input, what it adds per tuple, and its grid.
    """
    for name, factor, grid in inputs[:-1]:
        if factor <= 0:
            table = _with(table, name, np.zeros(len(table)), 0.0)
            continue
        at = table.dims.index(dim)
        count = len(grid)
        if len(table) * count > MOST_SPLITS:
            table = similar(table, spread)
        if len(table) * count > MOST_SPLITS:
            raise TooLarge(f"a merge of streams would need {len(table) * count:,} pairs of rates")
        chosen = np.repeat(np.arange(len(table)), count)
        many = table.rows(chosen)
        taken = np.minimum(np.tile(grid, len(table)) * factor, many.rates[:, at])
        rates = many.rates.copy()
        rates[:, at] -= taken
        small = np.where(np.arange(len(table.dims)) == at, np.inf, table.small)
        many = attrs.evolve(many, rates=rates, small=small, rounds=many.rounds + 1)
        # Rates above a row's own all give the pair (all, nothing), which is needed once.
        first = np.ones(len(many), bool)
        first[1:] = (taken[1:] != taken[:-1]) | (chosen[1:] != chosen[:-1])
        table = pruned(_with(many, name, taken / factor, math.inf).rows(first), spread)
    name, factor, _ = inputs[-1]
    at = table.dims.index(dim)
    last = table.rates[:, at] / factor if factor > 0 else np.where(table.rates[:, at] > 0, np.inf, 0.0)
    rates = table.rates.copy()
    rates[:, at] = last
    dims = tuple(name if k == at else other for k, other in enumerate(table.dims))
    return attrs.evolve(table, dims=dims, rates=rates).rows(np.isfinite(last))


def _with(table: Partial, name: str, rates: Matrix, small: float) -> Partial:
    return attrs.evolve(
        table,
        dims=(*table.dims, name),
        rates=np.column_stack([table.rates, rates]),
        small=np.append(table.small, small),
    )


def combined(one: Partial, other: Partial, spread: float) -> Partial:
    """Combine every row of two tables; for a rate that both need, the greater; and prune."""
    pairs = len(one) * len(other)
    if pairs > MOST_PAIRS:
        raise TooLarge(f"two tables of a host would have {len(one):,} times {len(other):,} rows together")
    extra = [k for k, name in enumerate(other.dims) if name not in one.dims]
    shared = [(one.dims.index(name), k) for k, name in enumerate(other.dims) if name in one.dims]
    rounds = max(one.rounds, other.rounds)
    if pairs <= EXACT:
        left, right = np.repeat(np.arange(len(one)), len(other)), np.tile(np.arange(len(other)), len(one))
        fits = one.load[left] + other.load[right] <= FULL
        left, right = left[fits], right[fits]
    else:
        left, right = _best_pairs(one, other, extra, shared, spread)
        rounds += SIMILAR
    rates, small = np.hstack([one.rates[left], other.rates[right][:, extra]]), np.append(one.small, other.small[extra])
    for a, b in shared:
        rates[:, a] = np.maximum(rates[:, a], other.rates[right, b])
        small[a] = max(small[a], other.small[b])
    table = Partial(
        (*one.dims, *(other.dims[k] for k in extra)),
        rates, one.load[left] + other.load[right], one.score[left] + other.score[right],
        np.stack([left, right], axis=1).astype(float), small, rounds,
    )  # fmt: skip
    found = pruned(table, spread, listed=pairs <= EXACT)
    left, right = found.kept.astype(np.int64).T
    return attrs.evolve(found, kept=one.kept[left] + other.kept[right])


def _best_pairs(
    one: Partial, other: Partial, extra: list[int], shared: list[tuple[int, int]], spread: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return of all pairs of rows the best in each cell of the grid of rates and load."""
    code = kernel(KERNEL, len(one) * len(other) * (1 + len(one.dims) + len(extra)))
    step = -math.log1p(-spread) * SIMILAR
    dims = len(one.dims) + len(extra)
    cells = [np.full((len(table), max(1, dims)), -1, np.int64) for table in (one, other)]
    sizes = np.ones(max(1, dims), np.int64)
    columns: list[tuple[int, int | None, int | None]] = [
        (a, a, next((b for c, b in shared if c == a), None)) for a in range(len(one.dims))
    ]
    columns += [(len(one.dims) + k, None, b) for k, b in enumerate(extra)]
    for at, a, b in columns:
        both = [table.rates[:, column] for table, column in ((one, a), (other, b)) if column is not None]
        numbers = _cells(np.concatenate(both), step)
        sizes[at] = int(numbers.max(initial=0)) + 1
        if a is not None:
            cells[0][:, at] = numbers[: len(one)]
        if b is not None:
            cells[1][:, at] = numbers[-len(other) :]
    if not dims:
        cells[0][:] = 0
    loads = np.concatenate([one.load, other.load])
    least = float(loads[loads > 0].min(initial=1.0))
    if float(np.prod(sizes.astype(float))) * (2 + math.log(2 / least) / step) > 4e18:
        raise TooLarge(f"two tables of a host would have {dims} inputs together")
    sides = [code.Side(each, table.load, table.score) for each, table in zip(cells, (one, other), strict=True)]
    grid = code.Cells(sizes, step, math.floor(math.log(least) / step))
    with np.errstate(over="ignore"):  # Hashes are to overflow, also where they are interpreted.
        left, right, enough = code.best_pairs(sides[0], sides[1], grid, SLOTS)
    if not enough:
        raise TooLarge(f"two tables of a host would have more than {SLOTS // 2:,} rows together")
    return left, right


def _cells(rates: Matrix, step: float) -> NDArray[np.int64]:
    """Return the number of the cell of each rate, 0 for no rate."""
    found, some = np.zeros(len(rates), np.int64), rates > 0
    if some.any():
        numbers = np.floor(np.log(rates[some]) / step).astype(np.int64)
        found[some] = 1 + numbers - numbers.min()
    return found


def pruned(table: Partial, spread: float, *, loads: bool = True, listed: bool = True) -> Partial:
    """Leave out rows that another beats: nowhere above it, no more load, and at least its score.

    Parameters
    ----------
    loads
        Whether load still matters; not once all tables of the host are together.
    listed
        Whether similar rows may still be there.
    """
    best = _best(table, loads=loads)
    if best is None or (listed and len(best) > ROOM):
        fewer = similar(table if best is None else best, spread, loads=loads) if listed else table
        best = _best(fewer, loads=loads) or fewer
        if len(table) > len(best) * 3 // 2:
            return best
        best = table
    return best


def _best(table: Partial, *, loads: bool) -> Partial | None:
    """Return the rows that no other beats, or None where that is too much work."""
    price = np.column_stack([table.rates, table.load]) if loads else table.rates
    price = price[:, np.ptp(price, axis=0) > 0] if len(table) else price
    found = undominated(price, table.score)
    return None if found is None else table.rows(found)


def undominated(price: Matrix, score: Matrix) -> NDArray[np.int64] | None:
    """Return the rows, in their order, that no other beats: no price higher, and at least the score.

    Of equal rows the first stays. None: it would take more than `WORK` comparisons.
    """
    code = kernel(KERNEL, len(score) * (min(len(score), USUAL) * price.shape[1] + 1))
    keep = np.zeros(len(score), bool)
    if price.shape[1] > 2:
        total = price.sum(axis=1)
        order = np.lexsort((np.arange(len(score)), total, -score))
        done = code.undominated(np.ascontiguousarray(price), score, order, WORK, keep)
        return np.flatnonzero(keep) if done else None
    first = price[:, 0] if price.shape[1] else np.zeros(len(score))
    second = price[:, 1] if price.shape[1] > 1 else np.zeros(len(score))
    order = np.lexsort((-score, second, first))
    rank = np.unique(second, return_inverse=True)[1].astype(np.int64)
    code.undominated_pair(rank[order], score[order], keep)
    return np.sort(order[keep])


def similar(table: Partial, spread: float, *, loads: bool = True) -> Partial:
    """Keep of similar rows the one with the greatest score: one in each cell of a grid of rates and load."""
    price = np.column_stack([table.rates, table.load]) if loads else table.rates
    order = np.lexsort((table.load, -table.score))
    key = np.zeros(len(table), np.int64)
    for column in price.T:
        numbers = _cells(column, -math.log1p(-spread) * SIMILAR)
        key = np.unique(key * (int(numbers.max()) + 1) + numbers, return_inverse=True)[1].astype(np.int64)
    first = np.unique(key[order], return_index=True)[1]
    return attrs.evolve(table.rows(np.sort(order[first])), rounds=table.rounds + SIMILAR)


def joined_zero(table: Partial, name: str) -> Partial:
    """Return the table with one more rate that is 0 in all rows."""
    return _with(table, name, np.zeros(len(table)), 0.0)
