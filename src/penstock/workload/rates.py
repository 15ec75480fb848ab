"""Rates of sources, in tuples per second, held for one period each."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.errors import InputError
from penstock.files import Text, atomic, file_of, suggest
from penstock.units import number, pairs


@attrs.frozen(eq=False)
class Rates:
    """Rates of sources over equal periods.

    Attributes
    ----------
    period
        Length of a period (s).
    sources
        Names, sorted.
    values
        Array (sources, periods) of tuples per second, read-only.
    start
        Time of the first period (s).
    """

    period: float
    sources: tuple[str, ...]
    values: NDArray[np.float64]
    start: float = 0.0

    @classmethod
    def of(cls, period: float, values: Mapping[str, ArrayLike], start: float = 0.0) -> Rates:
        """Build from one series per source; sources are ordered by name."""
        names = tuple(sorted(values))
        series = [np.asarray(values[name], dtype=float) for name in names]
        for name, each in zip(names, series, strict=True):
            if each.shape != series[0].shape:
                wanted = f"as many rates as {names[0]!r} has, {series[0].size}"
                raise InputError(f"expected {wanted}, got {each.size}", at=f"rates.{name}")
        table = np.array(series)
        table.setflags(write=False)
        if table.ndim != 2 or table.shape[1] == 0:
            raise InputError("expected at least one period of rates")
        if not (np.isfinite(table).all() and (table >= 0).all()):
            raise InputError("expected finite rates >= 0")
        if not (math.isfinite(period) and period > 0):
            raise InputError(f"expected a period > 0 s, got {period}")
        return cls(float(period), names, table, float(start))

    @classmethod
    def constant(cls, rates: Mapping[str, float], duration: float = 60.0, period: float = 1.0) -> Rates:
        """Return constant rates over a duration (s), cut into equal periods (s) of at most the length that is given."""
        if not (
            math.isfinite(duration) and duration > 0 and math.isfinite(period) and 0 < period <= duration * (1 + 1e-9)
        ):
            raise InputError(f"expected 0 < period <= duration, got period {period} and duration {duration}")
        if duration / period > 1e7:
            raise InputError(f"expected at most 1e7 periods, got {duration / period:.3g}", hint="lengthen --period")
        periods = max(1, math.ceil(duration / period - 1e-9))
        return cls.of(duration / periods, {name: np.full(periods, float(rate)) for name, rate in rates.items()})

    @property
    def periods(self) -> int:
        """Number of periods."""
        return int(self.values.shape[1])

    @property
    def duration(self) -> float:
        """Length of all periods (s)."""
        return self.period * self.periods

    def of_source(self, name: str) -> NDArray[np.float64]:
        """Return the series of one source, tuples per second."""
        series: NDArray[np.float64] = self.values[self.sources.index(name)]
        return series

    def check(self, sources: Iterable[str], *, inline: bool = False) -> Rates:
        """Return self if it has exactly these sources.

        Parameters
        ----------
        inline
            Whether the rates were written out in an option: then the hint does not speak of columns.

        Raises
        ------
        InputError
            Naming the source that is missing or unknown.
        """
        wanted, given = dict.fromkeys(sorted(sources)), dict.fromkeys(self.sources)
        for name in self.sources:
            if name not in wanted:
                raise InputError(
                    f"{name!r} is no source of the network", at="rates", hint=suggest(name, wanted, "sources")
                )
        for name in wanted:
            if name not in given:
                hint = f"add {name}=RATE" if inline else f"add a column {name!r}"
                raise InputError(f"source {name!r} has no rate", at="rates", hint=hint)
        return self

    def only(self, sources: Iterable[str]) -> Rates:
        """Return the rates of some of the sources."""
        return Rates.of(self.period, {name: self.of_source(name) for name in sources}, self.start)

    def until(self, seconds: float) -> Rates:
        """Return the first periods, those that begin within some seconds (s)."""
        periods = max(1, math.ceil(seconds / self.period - 1e-9))
        if periods >= self.periods:
            return self
        return Rates.of(self.period, dict(zip(self.sources, self.values[:, :periods], strict=True)), self.start)

    def scaled(self, factor: float) -> Rates:
        """Return all rates times a factor."""
        return Rates.of(self.period, dict(zip(self.sources, self.values * factor, strict=True)), self.start)

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write as a rates file."""
        with atomic(path) as file:
            file.write(",".join(("time", *self.sources)) + "\n")
            for p in range(self.periods):
                row = (self.start + p * self.period, *self.values[:, p].tolist())
                file.write(",".join(repr(value).removesuffix(".0") for value in row) + "\n")


def read_rates(given: str | os.PathLike[str], duration: float = 60.0, period: float = 1.0) -> Rates:
    """Read rates from a CSV file, or inline from ``clicks=100,bids=50``.

    Parameters
    ----------
    given
        A file with columns ``time,<source>,…`` and equal steps, ``-``, or inline rates.
    duration, period
        Of inline rates (s).

    Raises
    ------
    InputError
        Naming file, line and column.
    """
    text = str(given)
    if file_of(text) is None:
        return Rates.constant(pairs(text, "--rates", "source=rate", "clicks=100,bids=50"), duration, period)
    return _read_csv(Text(given), period)


def joined(parts: Mapping[str, Rates]) -> Rates:
    """Return rates of several sources as one table, with the shortest common length.

    Raises
    ------
    InputError
        If their periods differ.
    """
    period = next(iter(parts.values())).period
    if any(rates.period != period for rates in parts.values()):
        raise InputError("expected equal periods of all scheduled sources", at="sources")
    length = min(rates.periods for rates in parts.values())
    return Rates.of(period, {name: rates.of_source(name)[:length] for name, rates in parts.items()})


def _read_csv(text: Text, period: float) -> Rates:
    rows = text.rows()
    line, header = next(rows, (1, []))
    if len(header) < 2 or header[0] != "time":
        raise InputError(
            f"expected the columns time,<source>,…, got {','.join(header)[:80] or 'nothing'}", file=text.name, line=line
        )
    for name in header:
        if header.count(name) > 1:
            raise InputError(f"column {name!r} is given twice", file=text.name, line=line)
    times: list[float] = []
    table: list[list[float]] = []
    for line, row in rows:
        if len(row) != len(header):
            raise InputError(f"expected {len(header)} cells, got {len(row)}", file=text.name, line=line)
        values = [number(cell, f"column {name}", text.name, line) for name, cell in zip(header, row, strict=True)]
        if times and values[0] <= times[-1]:
            raise InputError(
                f"expected a time after {times[-1]:g}, got {values[0]:g}", at="column time", file=text.name, line=line
            )
        if len(times) > 1:
            first, step = times[1] - times[0], values[0] - times[-1]
            # The last digits of steps between times as large as seconds since 1970 are those of rounding.
            if abs(step - first) > 1e-6 * first + 4 * math.ulp(values[0]):
                raise InputError(
                    f"expected equal steps of {first:g} s, got {step:g} s", at="column time", file=text.name, line=line
                )
        times.append(values[0])
        table.append(values[1:])
    if not times:
        raise InputError("expected at least one row of rates", file=text.name)
    step = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else period
    return Rates.of(step, dict(zip(header[1:], np.array(table).T, strict=True)), times[0])
