"""The load model: a few matrices that every decision reads.

Ideal rates cascade from the sources as if everything upstream were instantaneous (Xing et al. section 2.2,
Chandramouli et al. definition 5), so all series are deterministic functions of the source rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Bools
from penstock.cluster import Cluster, base_name, hosts_by_operator
from penstock.errors import InputError
from penstock.load.pairs import recent
from penstock.network import Network, Operator
from penstock.workload import Rates

Matrix = NDArray[np.float64]

HUGE = 1e60
"""Larger rates and loads are refused: their squares and sums would leave the range of numbers."""


@attrs.frozen(eq=False)
class LoadModel:
    """Rates and loads of a network under given source rates.

    Attributes
    ----------
    network
        With every cost known.
    rates
        Of the sources; sets the period.
    arrivals
        Array (streams, periods), tuples per second on each stream, ordered as ``network.streams``.
    load
        Array (operators, periods), benchmark-core seconds per second, ordered as ``network.operators``: the load
        series (Xing et al. section 2.3), also called deterministic load time series (Chandramouli et al. section III).
    coefficients
        Array (operators, sources): load per unit of source rate, about the mean rates where a time-window join makes
        it non-linear.
    stream_coefficients
        Array (streams, sources): tuples per second on each stream per unit of source rate, likewise.
    """

    network: Network
    rates: Rates
    arrivals: Matrix
    load: Matrix
    coefficients: Matrix
    stream_coefficients: Matrix

    @property
    def period(self) -> float:
        """Length of a period (s)."""
        return self.rates.period

    @cached_property
    def operator_index(self) -> dict[str, int]:
        """Row of each operator in ``load`` and ``coefficients``."""
        return {name: row for row, name in enumerate(self.network.operators)}

    @cached_property
    def stream_index(self) -> dict[str, int]:
        """Row of each stream, by name, in ``arrivals``."""
        return {stream.name: row for row, stream in enumerate(self.network.streams)}

    @cached_property
    def mean_load(self) -> Matrix:
        """Array (operators,), mean over the periods."""
        mean: Matrix = self.load.mean(axis=1)
        return mean

    def load_of(self, operator: str) -> Matrix:
        """Return the load series of an operator or of a replica ``operator#2``."""
        series: Matrix = self.load[self.operator_index[base_name(operator)]]
        return series

    def inflow(self, operator: str) -> Matrix:
        """Return the tuples per second on each input of an operator, array (inputs, periods)."""
        rows: Matrix = self.arrivals[[self.stream_index[stream.name] for stream in self.network.inputs(operator)]]
        return rows

    def gain(self, operator: str) -> Matrix:
        """Return the output tuples per tuple of each input of an operator, array (inputs, periods)."""
        row, inflow = self.network.operators[operator], self.inflow(operator)
        selectivity = np.array(row.selectivity or (1.0,) * len(row.inputs))[:, None]
        if row.counts is not None:
            return selectivity * self.partners(operator)
        return selectivity * self.partners(operator) * growth_factor(row, inflow, self.period)

    def partners(self, operator: str) -> Matrix:
        """Return how many tuples of the other input a tuple of each input of a join meets, array (inputs, periods).

        It is 1 of what is no join.
        """
        row, inflow = self.network.operators[operator], self.inflow(operator)
        if row.kind != "join":
            return np.ones_like(inflow)
        if row.counts is not None:
            return np.repeat(np.array(row.counts[::-1], float)[:, None], inflow.shape[1], axis=1)
        within = row.within or 0.0
        return within * recent(inflow, within, self.period)[::-1]

    def ends(self, operator: str) -> Bools:
        """Return where the tuples of an input end in an operator, array (inputs, periods).

        They do where nobody reads it, and where it puts nothing out for them.
        """
        found: Bools = (self.gain(operator) <= 0) | (not self.network.outputs(operator))
        return found

    def host_load(self, placement: Mapping[str, str], cluster: Cluster) -> Matrix:
        """Return the load of each host.

        Returns
        -------
        ndarray, shape (hosts, periods)
            Benchmark-core seconds per second (not divided by capacity), ordered as ``cluster.hosts``.
        """
        rows = {host: row for row, host in enumerate(cluster.hosts)}
        total = np.zeros((len(rows), self.load.shape[1]))
        for operator, host in sorted(placement.items()):
            total[rows[host]] += self.load_of(operator)
        return total

    def link_traffic(self, placement: Mapping[str, str]) -> dict[tuple[str, str], Matrix]:
        """Return the tuples per second from host to host, each an array (periods,).

        A tuple crosses to a host once, however many operators there read it. Sources without a host use no link, and
        sinks never do.
        """
        traffic: dict[tuple[str, str], Matrix] = {}
        places = {name: sorted(set(hosts)) for name, hosts in hosts_by_operator(placement).items()}
        places |= {source.name: [source.host] for source in self.network.sources.values() if source.host is not None}
        for writer in (*self.network.sources, *self.network.operators):
            crossings: dict[tuple[str, str], Matrix] = {}
            for stream in self.network.outputs(writer):
                series = self.arrivals[self.stream_index[stream.name]]
                routed = stream.share < 1
                for start in places.get(writer, ()):
                    for end in places.get(stream.reader, ()):
                        if start != end:
                            pair = (start, end)
                            before = crossings.get(pair, np.zeros_like(series))
                            crossings[pair] = before + series if routed else np.maximum(before, series)
            for pair, series in crossings.items():
                traffic[pair] = traffic[pair] + series if pair in traffic else series
        return dict(sorted(traffic.items()))


def load_model(network: Network, rates: Rates, keep: Mapping[str, float] | None = None) -> LoadModel:
    """Compute the load model.

    Parameters
    ----------
    network
        Every operator needs a cost; a missing selectivity is 1.
    rates
        Of exactly the network's sources.
    keep
        Keep fractions by stream: what is dropped is on no stream. One that is not named keeps everything.

    Raises
    ------
    InputError
        If a cost is missing, the rates do not fit the network, or a number leads beyond all bounds.
    """
    rates.check(network.sources)
    network.check_costs()
    index = {stream.name: row for row, stream in enumerate(network.streams)}
    arrivals = np.zeros((len(network.streams), rates.periods))
    # Slopes about the mean rates: exact for everything but time-window joins.
    slopes = np.zeros((len(network.streams), len(rates.sources)))
    load = np.zeros((len(network.operators), rates.periods))
    coefficients = np.zeros((len(network.operators), len(rates.sources)))
    passed = {stream.name: stream.share * (keep or {}).get(stream.name, 1.0) for stream in network.streams}
    for position, source in enumerate(rates.sources):
        for stream in network.outputs(source):
            arrivals[index[stream.name]] = passed[stream.name] * rates.values[position]
            slopes[index[stream.name], position] = passed[stream.name]
    with np.errstate(over="ignore", invalid="ignore"):
        for row, operator in enumerate(network.operators.values()):
            inputs = [index[stream.name] for stream in network.inputs(operator.name)]
            cost = np.asarray(operator.cost)
            load[row] = cost @ arrivals[inputs]
            coefficients[row] = cost @ slopes[inputs]
            rate, slope = _output(operator, arrivals[inputs], slopes[inputs], rates.period)
            for stream in network.outputs(operator.name):
                arrivals[index[stream.name]] = passed[stream.name] * rate
                slopes[index[stream.name]] = passed[stream.name] * slope
    for matrix in (arrivals, slopes, load, coefficients):
        if not matrix.max(initial=0.0) < HUGE:
            raise _too_large(network, matrix, streams=matrix is arrivals or matrix is slopes)
        matrix.setflags(write=False)
    return LoadModel(network, rates, arrivals, load, coefficients, slopes)


def _too_large(network: Network, matrix: Matrix, streams: bool) -> InputError:
    """Return the refusal of a matrix of streams or operators, at the first one that is beyond `HUGE`."""
    names = [stream.writer for stream in network.streams] if streams else list(network.operators)
    beyond = {names[row] for row in np.flatnonzero(~(matrix < HUGE).all(axis=1))}
    name = next(name for name in (*network.sources, *network.operators) if name in beyond)
    key = "selectivity" if streams else "cost"
    mine = name in network.operators
    at = f"operators.{name}.{key}" if mine else f"rates.{name}"
    problem = f"too large: it leads to rates or loads above {HUGE:g}"
    return InputError(problem, file=network.file if mine else None, at=at)


def _output(operator: Operator, rates: Matrix, slopes: Matrix, period: float) -> tuple[Matrix, Matrix]:
    """Return the output rate of an operator and its slope per source (docs/background/load-model.md)."""
    selectivity = np.asarray(operator.selectivity or (1.0,) * len(operator.inputs))
    if operator.kind != "join":
        return _grown(operator, rates, slopes, (selectivity @ rates, selectivity @ slopes), period)
    if operator.counts is not None:
        first, second = operator.counts
        weights = selectivity * np.array([second, first], float)
        return weights @ rates, weights @ slopes
    within, mean = operator.within or 0.0, rates.mean(axis=1)
    pairs = within * (selectivity @ (rates * recent(rates, within, period)[::-1]))
    slope = selectivity.sum() * within * (mean[1] * slopes[0] + mean[0] * slopes[1])
    return _grown(operator, rates, slopes, (pairs, slope), period)


def _grown(
    operator: Operator, rates: Matrix, slopes: Matrix, put: tuple[Matrix, Matrix], period: float
) -> tuple[Matrix, Matrix]:
    """Return output and slope of an operator whose output grows otherwise than its kind says, from what that says."""
    out, slope = put
    if operator.growth is None:
        return out, slope
    mean = rates.mean(axis=1, keepdims=True)
    factor = float(growth_factor(operator, mean)[0])
    with np.errstate(divide="ignore"):
        part = np.where(mean > 0, slopes / mean, 0.0).mean(axis=0)
    level = float((_output(attrs.evolve(operator, growth=None), mean, slopes, period)[0])[0])
    more = operator.growth.exponent - operator.power
    return out * growth_factor(operator, rates, period), factor * (slope + more * level * part)


def growth_factor(operator: Operator, rates: Matrix, period: float = 1.0) -> Matrix:
    """Return what the output is of what it would be if it grew as the operator's kind says, array (periods,).

    Parameters
    ----------
    rates
        Array (inputs, periods), tuples/s.
    period
        Length of a period (s), where there are several: pairs of a join with a time window are of rates of before too.
    """
    if operator.growth is None:
        return np.ones(rates.shape[1])
    with np.errstate(divide="ignore"):
        if operator.within is None:
            middle = np.exp(np.log(rates).mean(axis=0))
        else:
            middle = np.sqrt((rates * recent(rates, operator.within, period)[::-1]).mean(axis=0))
        power = operator.growth.exponent - operator.power
        found: Matrix = np.where(middle > 0, (middle / operator.growth.at) ** power, 0.0)
    return found


def expand_replicas(network: Network, replicas: int) -> tuple[str, ...]:
    """Return the names to place: each operator and its copies ``operator#2`` … ``operator#replicas``."""
    return tuple(
        name if copy == 1 else f"{name}#{copy}" for name in network.operators for copy in range(1, replicas + 1)
    )
