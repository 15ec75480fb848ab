"""Rates and loads of a whole network at once: the load model in numpy, for decisions that are made every period.

`penstock.load.load_model` is the reference; this computes the same numbers (docs/background/load-model.md) level by
level of the network instead of operator by operator, with costs and selectivities as arrays, which change with every
observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.load.pairs import recent
from penstock.network import Network

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@attrs.frozen(eq=False)
class Flow:
    """How rates run through a network, as arrays.

    Attributes
    ----------
    network
        Its operators, in its order, are the rows below.
    level
        By level of the network, the inputs of the operators there (numbers of rows of the next five).
    writer, reader, share, factor, stream
        Arrays (inputs,): number of what is read (sources first, then operators), operator that reads, share of the
        writer's output, what a count-window join multiplies the selectivity by, number of the stream.
    product
        Rows (operator, first input, second input, factor) of joins with a time window.
    """

    network: Network
    level: tuple[Ints, ...]
    writer: Ints
    reader: Ints
    share: Floats
    factor: Floats
    stream: Ints
    product: tuple[tuple[int, int, int, float], ...]

    @classmethod
    def of(cls, network: Network) -> Flow:
        """Lay a network out."""
        number = {name: k for k, name in enumerate((*network.sources, *network.operators))}
        streams = {stream.name: k for k, stream in enumerate(network.streams)}
        depth = dict.fromkeys(network.sources, 0)
        rows: list[tuple[int, int, float, float, int]] = []
        levels: dict[int, list[int]] = {}
        product = []
        for row, operator in enumerate(network.operators.values()):
            depth[operator.name] = 1 + max(depth[given] for given in operator.inputs)
            counts = operator.counts[::-1] if operator.kind == "join" and operator.counts is not None else None
            if operator.kind == "join" and counts is None:
                product.append((row, len(rows), len(rows) + 1, operator.within or 0.0))
            for stream in network.inputs(operator.name):
                levels.setdefault(depth[operator.name], []).append(len(rows))
                factor = float(counts[stream.port]) if counts is not None else 1.0
                rows.append((number[stream.writer], row, stream.share, factor, streams[stream.name]))
        columns = list(zip(*rows, strict=True)) if rows else [()] * 5
        return cls(
            network,
            tuple(np.array(levels[key], np.int64) for key in sorted(levels)),
            np.array(columns[0], np.int64),
            np.array(columns[1], np.int64),
            np.array(columns[2], float),
            np.array(columns[3], float),
            np.array(columns[4], np.int64),
            tuple(product),
        )

    @cached_property
    def given(self) -> tuple[Floats, Floats]:
        """Cost and selectivity of every input as the network gives them, arrays (inputs,); nan where it does not."""
        operators = tuple(self.network.operators.values())
        cost, selectivity = np.full(self.writer.size, np.nan), np.ones(self.writer.size)
        place = 0
        for operator in operators:
            count = len(operator.inputs)
            if operator.cost is not None:
                cost[place : place + count] = operator.cost
            if operator.selectivity is not None:
                selectivity[place : place + count] = operator.selectivity
            place += count
        return cost, selectivity

    @cached_property
    def ports(self) -> Ints:
        """How many inputs each operator has, array (operators,)."""
        return np.bincount(self.reader, minlength=len(self.network.operators)).astype(np.int64)

    def run(
        self,
        rates: Floats,
        cost: Floats,
        selectivity: Floats,
        keep: Mapping[str, float] | None = None,
        period: float = 1.0,
    ) -> tuple[Floats, Floats, Floats]:
        """Return the load of every operator, the rate of every input after drops, and what is put out.

        Parameters
        ----------
        rates
            Array (sources, k), tuples/s.
        cost, selectivity
            Arrays (inputs,).
        keep
            Keep fractions by stream.
        period
            Seconds between columns of the rates, which joins with a time window remember.

        Returns
        -------
        load, arrivals, put : ndarray, shapes (operators, k), (inputs, k), (sources + operators, k)
            Benchmark cores, tuples/s that are let through, and tuples/s that each source and operator puts out.
        """
        count, sources = len(self.network.operators), len(self.network.sources)
        put = np.zeros((sources + count, rates.shape[1]))
        put[:sources] = rates
        through = self.share * self._kept(keep)
        arrivals = np.zeros((self.writer.size, rates.shape[1]))
        timed = {row: (first, second, within) for row, first, second, within in self.product}
        for inputs in self.level:
            arrivals[inputs] = put[self.writer[inputs]] * through[inputs, None]
            out = arrivals[inputs] * (selectivity * self.factor)[inputs, None]
            readers = self.reader[inputs]
            if readers.size and (readers[1:] != readers[:-1]).all():
                put[sources + readers] = out
            else:
                np.add.at(put, sources + readers, out)
            for row in {int(r) for r in readers} & set(timed) if timed else ():
                *pair, within = timed[row]
                come = arrivals[pair]
                put[sources + row] = within * (selectivity[pair] @ (come * recent(come, within, period)[::-1]))
        load = np.zeros((count, rates.shape[1]))
        np.add.at(load, self.reader, arrivals * cost[:, None])
        return load, arrivals, put

    def worth(self, selectivity: Floats) -> Floats:
        """Return the weighted sink tuples that one tuple leads to if nothing is dropped, array (sources + operators,).

        Behind a join with a time window a tuple counts with what it would yield alone: its selectivity.
        """
        sources = len(self.network.sources)
        number = {name: k for k, name in enumerate((*self.network.sources, *self.network.operators))}
        value = np.zeros(sources + len(self.network.operators))
        for sink in self.network.sinks.values():
            value[number[sink.input]] += sink.weight * self.network.inputs(sink.name)[0].share
        for inputs in reversed(self.level):
            gain = self.share * selectivity * self.factor
            np.add.at(value, self.writer[inputs], gain[inputs] * value[sources + self.reader[inputs]])
        return value

    def follows(
        self,
        waiting: Floats,
        selectivity: Floats,
        keep: Mapping[str, float] | None = None,
        group: Ints | None = None,
    ) -> Floats:
        """Return the tuples that come to each operator of those that wait at operators before it, array (operators,).

        Behind a join with a time window a tuple counts with what it would yield alone: its selectivity.

        Parameters
        ----------
        waiting, selectivity
            Arrays (operators,) and (inputs,).
        keep
            Keep fractions by stream.
        group
            Array (operators,): tuples are followed only to operators of the same group. None: to all.
        """
        sources = len(self.network.sources)
        through = self.share * self._kept(keep)
        if group is not None:
            among = self.writer >= sources
            through[among] *= group[self.writer[among] - sources] == group[self.reader[among]]
        mean = np.bincount(self.reader, selectivity * self.factor, len(waiting)) / np.maximum(self.ports, 1)
        coming = np.zeros(len(waiting))
        for inputs in self.level:
            inner = inputs[self.writer[inputs] >= sources]
            before = self.writer[inner] - sources
            out = (waiting[before] + coming[before]) * mean[before] * through[inner]
            np.add.at(coming, self.reader[inner], out)
        return coming

    def taken(self, keep: Mapping[str, float]) -> Floats:
        """Return the share of what comes to each operator that keep fractions let in, array (operators,)."""
        count = len(self.network.operators)
        kept: Floats = np.bincount(self.reader, self._kept(keep), count) / np.maximum(self.ports, 1)
        return kept

    def _kept(self, keep: Mapping[str, float] | None) -> Floats:
        """Return the keep fraction of each input's stream, array (inputs,)."""
        shares = np.ones(self.writer.size)
        if keep:
            at = {stream.name: k for k, stream in enumerate(self.network.streams)}
            by_stream = np.ones(len(at))
            for name, share in keep.items():
                if name in at:  # of a replica's stream only its own reader hears
                    by_stream[at[name]] = share
            shares = by_stream[self.stream]
        return shares
