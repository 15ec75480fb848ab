"""Measured statistics of operators and hosts, and their file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Annotated

import attrs
import msgspec

from penstock.errors import InputError, locating
from penstock.files import Document, Text, convert, schema_of, shortened, suggest, write_json
from penstock.network import Network
from penstock.network.file import GrowthTable, growth_of
from penstock.network.model import Growth

LASTING = 2.0
"""What `wander` is multiplied by for a whole run, of which it tells too little. Measured: batches follow the power 0.5
of the core's speed within a run, and 0.6 to 1.8 from one run to another."""

Positive = Annotated[float, msgspec.Meta(ge=0)]

UNTOLD = 10.0
"""An overhead error counts up to this many times the overhead and a second together."""

Apart = Annotated[float, msgspec.Meta(ge=0, le=2)]
"""How far things are apart, as a logarithm: 2 is a factor of 7, and two standard deviations of that one of 50."""

Times = Annotated[float, msgspec.Meta(gt=0, le=10)]
"""How many times as wide an interval is as it was drawn."""


@attrs.frozen(kw_only=True)
class OperatorStatistics:
    """What one operator costs.

    Attributes
    ----------
    cost, selectivity
        Per input; None where it was not measured.
    error
        Relative standard error of the cost.
    tuples
        How many tuples were measured.
    resolution
        Cost (s) below which it cannot be told from nothing.
    state
        Bytes of state that it kept; None: not known.
    overhead
        Seconds that each batch of its query takes for its state, however few tuples are in it.
    growth
        How the output grows with the input's rate, where that was measured; it belongs to the selectivity.
    """

    cost: tuple[float, ...] | None = None
    selectivity: tuple[float, ...] | None = None
    error: float = 0.0
    tuples: int = 0
    resolution: float = 0.0
    state: float | None = None
    overhead: float = 0.0
    growth: Growth | None = None


@attrs.frozen(kw_only=True)
class HostStatistics:
    """What a host adds.

    Attributes
    ----------
    overhead, idle
        Seconds per batch, beside what its operators need for their state, and per batch without input, which only ends
        windows; None: the same.
    factor, error
        What in-place costs are of single ones, and the relative standard error of that.
    overhead_error, correlation
        Standard error of the overhead (s), and how that of the factor goes with it (-1 to 1), as one regression gave
        both.
    residual, jitter
        How batches differ by chance from what overhead and factor say, standard deviations in s: of a batch of one
        second, with the square root of its duration for others, since chance averages out; and of a batch of any size.
    unrest
        Standard deviation of the host's speed from one stretch of the calibration to another, as a share of it, beside
        what its core's speed tells.
    speed
        Steps of a fixed loop that its core did a second while it was calibrated; None: not measured. Overhead and
        factor are those of a core of this speed.
    wander
        How the core's speed makes batches longer and shorter between stretches of ten seconds: standard deviation, as a
        share.
    between_runs, overhead_between_runs
        How far all batches of a run, and their overhead besides, were from what calibration had told in earlier runs on
        this machine: standard deviations, as shares; None: no run is known.
    """

    overhead: float = 0.0
    idle: float | None = None
    factor: float = 1.0
    error: float = 0.0
    overhead_error: float = 0.0
    correlation: float = 0.0
    residual: float = 0.0
    jitter: float = 0.0
    unrest: float = 0.0
    speed: float | None = None
    wander: float = 0.0
    between_runs: float | None = None
    overhead_between_runs: float | None = None

    @property
    def may_differ(self) -> float:
        """By how much batches of a run may take longer or shorter as a whole: standard deviation, as a share."""
        return math.hypot(self.unrest, LASTING * self.wander) if self.between_runs is None else self.between_runs

    @property
    def overhead_may_differ(self) -> float:
        """By how much the overhead may differ besides: standard deviation, as a share."""
        return self.may_differ if self.overhead_between_runs is None else self.overhead_between_runs


@attrs.frozen(kw_only=True)
class Statistics:
    """Statistics of a network's operators and a cluster's hosts, and how they were measured.

    Attributes
    ----------
    operators, hosts
        By name.
    measured
        How, for people.
    intervals
        Of the worst latency, p99, p50 and mean, how many times as wide as drawn the interval of a prediction has to be,
        by what came of earlier ones on these machines; of those that are missing, as it is drawn.
    """

    operators: Mapping[str, OperatorStatistics] = attrs.field(factory=dict)
    hosts: Mapping[str, HostStatistics] = attrs.field(factory=dict)
    measured: Document = attrs.field(factory=dict)
    intervals: Mapping[str, float] = attrs.field(factory=dict)

    def of(self, network: Network) -> Statistics:
        """Return the statistics of a network's own operators."""
        return attrs.evolve(self, operators={n: row for n, row in self.operators.items() if n in network.operators})

    def check(self, network: Network) -> Statistics:
        """Return self if the network has all of its operators.

        Raises
        ------
        InputError
            Naming the stranger.
        """
        for name in self.operators:
            if name not in network.operators:
                hint = suggest(name, network.operators, "operators")
                raise InputError("is no operator of the network", at=f"operators.{name}", hint=hint)
        return self

    def complete(self, network: Network, *, override: bool = False) -> Network:
        """Return the network with the costs and selectivities that it leaves open.

        Parameters
        ----------
        override
            Whether measured values also replace those that the network gives.
        """
        operators = []
        for operator in network.operators.values():
            known = self.operators.get(operator.name)
            if known is not None:
                changes: Document = {}
                for key in ("cost", "selectivity"):
                    measured = getattr(known, key)
                    if measured is None:
                        continue
                    if len(measured) not in (1, len(operator.inputs)):
                        raise InputError(
                            f"expected {len(operator.inputs)} numbers (one per input), got {len(measured)}",
                            at=f"operators.{operator.name}.{key}",
                        )
                    # What a delay lets through is what it does, and not for statistics to say.
                    open_here = getattr(operator, key) is None and (key, operator.kind) != ("selectivity", "delay")
                    if override or open_here:
                        changes[key] = measured * len(operator.inputs) if len(measured) == 1 else measured
                if "selectivity" in changes and known.growth is not None:
                    changes["growth"] = known.growth
                if known.state is not None and (override or operator.state is None):
                    changes["state"] = known.state
                operator = attrs.evolve(operator, **changes)
            operators.append(operator)
        return network.having(operators)

    def document(self) -> Document:
        """Return the content of a statistics file."""

        def row(known: OperatorStatistics) -> Document:
            numbers: Document = {
                key: None if values is None else values[0] if len(set(values)) == 1 else list(values)
                for key, values in (("cost", known.cost), ("selectivity", known.selectivity))
            }
            told: Document = {"resolution": known.resolution} if known.resolution else {}
            if known.state is not None:
                told["state"] = known.state
            if known.overhead:
                told["overhead"] = known.overhead
            if known.growth is not None:
                told["growth"] = attrs.asdict(known.growth)
            return {**numbers, "error": known.error, "tuples": known.tuples, **told}

        return {
            "operators": {name: row(known) for name, known in sorted(self.operators.items())},
            "hosts": {
                name: attrs.asdict(known, filter=lambda _, value: value is not None)
                for name, known in sorted(self.hosts.items())
            },
            "measured": dict(self.measured),
            **({"intervals": dict(self.intervals)} if self.intervals else {}),
        }

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a statistics file."""
        write_json(path, self.document())


class OperatorRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One operator of a statistics file."""

    cost: Positive | list[Positive] | None = None
    selectivity: Positive | list[Positive] | None = None
    error: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    tuples: Annotated[int, msgspec.Meta(ge=0)] = 0
    resolution: Annotated[Positive, msgspec.Meta(description="cost below which it cannot be told from 0")] = 0.0
    state: Annotated[Positive, msgspec.Meta(description="bytes of state that it kept")] | None = None
    overhead: Annotated[Positive, msgspec.Meta(description="seconds per batch for its state")] = 0.0
    growth: GrowthTable | None = None


class HostRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One host of a statistics file."""

    overhead: Annotated[Positive, msgspec.Meta(description="seconds per batch")] = 0.0
    idle: Annotated[Positive, msgspec.Meta(description="seconds per batch without input, if not as any")] | None = None
    factor: Annotated[float, msgspec.Meta(gt=0, description="in-place cost over the cost measured alone")] = 1.0
    error: Annotated[Positive, msgspec.Meta(description="relative standard error of the factor")] = 0.0
    overhead_error: Annotated[Positive, msgspec.Meta(description="standard error of the overhead, in seconds")] = 0.0
    correlation: Annotated[
        float, msgspec.Meta(ge=-1, le=1, description="of the errors of factor and overhead, from one regression")
    ] = 0.0
    residual: Annotated[
        Positive,
        msgspec.Meta(le=100, description="how batches of one second differ by chance: standard deviation, in seconds"),
    ] = 0.0
    jitter: Annotated[Positive, msgspec.Meta(le=100, description="and that whatever their size, in seconds")] = 0.0
    unrest: Annotated[
        Apart,
        msgspec.Meta(
            description="how the host's speed changed while it was calibrated: standard deviation, as a share"
        ),
    ] = 0.0
    speed: Annotated[float, msgspec.Meta(gt=0, description="loop steps a second while it was calibrated")] | None = None
    wander: Annotated[
        Apart,
        msgspec.Meta(description="how its core's speed changes batches between ten seconds and ten others, as a share"),
    ] = 0.0
    between_runs: (
        Annotated[Apart, msgspec.Meta(description="how far earlier runs here were off, as a share")] | None
    ) = None
    overhead_between_runs: (
        Annotated[Apart, msgspec.Meta(description="and their overhead besides, as a share of it")] | None
    ) = None


class IntervalRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many times as wide as drawn intervals have to be, by what came of earlier predictions."""

    worst: Times = 1.0
    p99: Times = 1.0
    p50: Times = 1.0
    mean: Times = 1.0


class StatisticsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A statistics file; the output of ``calibrate --json`` is one."""

    operators: dict[str, OperatorRow]
    hosts: dict[str, HostRow] = {}
    measured: Document = {}
    intervals: IntervalRow | None = None


def read_statistics(path: str | os.PathLike[str], network: Network | None = None) -> Statistics:
    """Read a statistics file.

    Parameters
    ----------
    path
        A JSON file, or ``-``.
    network
        If given, operators that it does not have are refused.

    Raises
    ------
    InputError
        Naming file and key.
    """
    text = Text(path)
    with locating(text.name):
        found = parse_statistics(text.json())
        return found if network is None else found.check(network)


def parse_statistics(document: object) -> Statistics:
    """Check the content of a statistics file."""
    if not isinstance(document, dict) or not isinstance(document.get("operators"), dict):
        raise InputError('expected {"operators": {"name": {"cost": …}}}', at="operators")
    operators = {}
    for name, table in document["operators"].items():
        at = f"operators.{name}"
        row = convert(table, OperatorRow, at)
        operators[name] = OperatorStatistics(
            cost=_numbers(row.cost, f"{at}.cost"),
            selectivity=_numbers(row.selectivity, f"{at}.selectivity"),
            error=row.error,
            tuples=row.tuples,
            resolution=row.resolution,
            state=row.state,
            overhead=row.overhead,
            growth=growth_of(row.growth, f"{at}.growth"),
        )
        _finite(row.error, f"{at}.error")
        _finite(row.resolution, f"{at}.resolution")
        _finite(row.state or 0.0, f"{at}.state")
        _finite(row.overhead, f"{at}.overhead")
    tables = document.get("hosts", {})
    if not isinstance(tables, dict):
        raise InputError(f"expected a table, got {shortened(tables)}", at="hosts")
    hosts = {}
    for name, table in tables.items():
        host = convert(table, HostRow, f"hosts.{name}")
        for key in HostRow.__struct_fields__:
            _finite(getattr(host, key) or 0.0, f"hosts.{name}.{key}")
        hosts[name] = _limited(HostStatistics(**msgspec.structs.asdict(host)))
    rest = convert({**document, "operators": {}, "hosts": {}}, StatisticsFile, "")
    intervals = {} if rest.intervals is None else msgspec.structs.asdict(rest.intervals)
    for key, share in intervals.items():
        _finite(share, f"intervals.{key}")
    return Statistics(operators=operators, hosts=hosts, measured=rest.measured, intervals=intervals)


def _limited(host: HostStatistics) -> HostStatistics:
    """Return a host with errors that predictions can be drawn with.

    Where all batches were alike, a regression gives factor and overhead errors of any size. They say no more than that
    the two could not be told apart.
    """
    return attrs.evolve(
        host, error=min(host.error, 1.0), overhead_error=min(host.overhead_error, UNTOLD * (1 + host.overhead))
    )


def _numbers(value: float | list[float] | None, at: str) -> tuple[float, ...] | None:
    if value is None:
        return None
    numbers = tuple(map(float, value)) if isinstance(value, list) else (float(value),)
    if not numbers:
        raise InputError("expected a number for each input, got none", at=at)
    for number in numbers:
        _finite(number, at)
    return numbers


def _finite(number: float, at: str) -> None:
    if not math.isfinite(number):
        raise InputError(f"expected a finite number >= 0, got {number}", at=at)


def statistics_schema() -> Document:
    """Return the JSON schema of statistics files."""
    return schema_of(StatisticsFile, "statistics")
