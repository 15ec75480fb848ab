"""The Nexmark auction events, each a pure function of its number.

Of every 50 events 1 is a person, 3 are auctions and 46 are bids. Ids, hot auctions, bidders and sellers, prices and
names follow the generator of the Nexmark suite [1]_. Two things differ, so that event ``n`` can be computed alone, on
any machine, again and again: random numbers are a hash of seed, event number and column, and an auction lives for a
time that does not depend on the rates to come.

The module needs numpy and the standard library only, and imports nothing of penstock where it runs: it is shipped to
Spark servers by value.

References
----------
.. [1] Tucker, Tufte, Papadimos, Maier: NEXMark, a benchmark for queries over data streams (2004); the generator and its
   ratios are those of the suite of Apache Beam.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Ints = NDArray[np.int64]
Masked: TypeAlias = "np.ma.MaskedArray[tuple[int], np.dtype[np.generic]]"
Column: TypeAlias = "NDArray[np.int64] | NDArray[np.datetime64] | _Words"

Event = tuple[Any, ...]
"""Values in the order of `SCHEMA`."""

SCHEMA = (
    "event bigint, kind string, id bigint, at timestamp, auction bigint, bidder bigint, price bigint, seller bigint, "
    "name string, city string, state string, category int, reserve bigint, expires timestamp"
)
"""Columns of all three kinds, as Spark DDL; a column that a kind does not have is null.

``event`` is the event's number, ``kind`` is person, auction or bid, ``at`` the scheduled time.
A *person* has id, name, city, state. An *auction* has id, price (its first bid), seller, name (of the item), category,
reserve, expires. A *bid* has auction, bidder, price. Prices are whole cents.
"""

COLUMNS = tuple(part.split()[0] for part in SCHEMA.split(", "))

PERSONS, AUCTIONS, EVENTS = 1, 3, 50
"""Of every ``EVENTS`` events the first is a person, the next three are auctions, the rest are bids."""

FIRST_PERSON, FIRST_AUCTION, FIRST_CATEGORY = 1000, 1000, 10
CATEGORIES = 5
HOT_AUCTION, HOT_BIDDER, HOT_SELLER = 2, 4, 4
"""One in so many bids (or auctions) does not go to the hot auction (come from the hot bidder, the hot seller)."""

HOT_EVERY = 100
"""Every hundredth auction, bidder and seller is hot while it is the newest such."""

ACTIVE_PEOPLE, FLYING_AUCTIONS = 1000, 100
PERSON_LEAD, AUCTION_LEAD = 10, 10
"""Bids may name people and auctions that come a little later."""

FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
NAMES = tuple(f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES)
CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
)  # fmt: skip
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
ITEMS = tuple(f"item {k}" for k in range(1000))

_MASK = (1 << 64) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 -- servers may run an older Python


@dataclass(frozen=True, eq=False)
class Schedule:
    """When each event is due: evenly, under piecewise constant rates.

    Event ``n`` (0, 1, …) is due when the integral of the rate has reached ``n`` and the rate is positive, as a whole
    microsecond. A period with rate r and width w so holds r·w events, the first at its first moment.

    Attributes
    ----------
    edges
        Array (periods + 1,), microseconds from the epoch, rising.
    rates
        Array (periods,), events per second within each period.
    counts
        Array (periods + 1,), integral of the rate up to each edge.

    Examples
    --------
    >>> schedule = Schedule.of([100.0, 0.0, 50.0], period=1.0)
    >>> schedule.total, schedule.count_by(0.5), schedule.time_of(99), schedule.time_of(100)
    (150, 50, 0.99, 2.0)
    """

    edges: Ints
    rates: NDArray[np.float64]
    counts: NDArray[np.float64]

    @classmethod
    def of(cls, rates: ArrayLike, period: float, start: float = 0.0) -> Schedule:
        """Build from one rate a period.

        Parameters
        ----------
        rates
            Events per second, one a period.
        period, start
            Length of a period and time of the first one (s).

        Raises
        ------
        InputError
            If a rate is negative or not finite, there is none, or the period is shorter than a microsecond.
        """
        from penstock.errors import InputError

        series = np.array(rates, dtype=np.float64, ndmin=1)
        if series.ndim != 1 or not series.size or not (np.isfinite(series).all() and (series >= 0).all()):
            raise InputError("expected one finite rate >= 0 for each of at least one period")
        if not (math.isfinite(period) and period >= 1e-6 and math.isfinite(start)):
            raise InputError(f"expected a period of at least 1 µs and a finite start, got {period} and {start}")
        edges = np.rint((start + np.arange(series.size + 1) * period) * 1e6).astype(np.int64)
        counts = np.concatenate([[0.0], np.cumsum(series * np.diff(edges) * 1e-6)])
        if counts[-1] > 1e12:
            raise InputError(f"expected at most 1e12 events, got {counts[-1]:.3g}")
        for array in (edges, series, counts):
            array.setflags(write=False)
        return cls(edges, series, counts)

    @property
    def total(self) -> int:
        """Number of events in all periods."""
        return int(self._whole(self.counts[-1:])[0])

    @property
    def duration(self) -> float:
        """Seconds from the first edge to the last."""
        return float(self.edges[-1] - self.edges[0]) * 1e-6

    def count_by(self, time: float) -> int:
        """Return how many events are due before a time (s); so event ``count_by(t)`` is the first at or after ``t``."""
        micros = math.ceil(min(max(time * 1e6 - 1e-3, float(self.edges[0])), float(self.edges[-1])))
        return int(self._before(np.array([micros]))[0])

    def time_of(self, number: int) -> float:
        """Return when an event is due (s); ``count_by(time_of(n)) <= n < count_by`` of any later time.

        Raises
        ------
        IndexError
            If the schedule ends before the event.
        """
        return float(self.micros_of(np.array([number]))[0] / 1e6)

    def micros_of(self, numbers: ArrayLike) -> Ints:
        """Return when events are due, in microseconds; an array of the shape of ``numbers``.

        Raises
        ------
        IndexError
            If the schedule ends before one of the events.
        """
        wanted = np.asarray(numbers, dtype=np.int64)
        if wanted.size and not (wanted.min() >= 0 and wanted.max() < self.total):
            raise IndexError(f"expected event numbers in 0..{self.total - 1}")
        reached = wanted + self._slack
        # the period whose count first exceeds n: periods of rate 0 never do
        period = np.clip(np.searchsorted(self.counts, reached, side="right") - 1, 0, self.rates.size - 1)
        since = np.minimum(reached - self.counts[period], self.counts[period + 1] - self.counts[period])
        rate = np.where(self.rates[period] > 0, self.rates[period], 1.0)
        micros: Ints = self.edges[period] + np.floor(since / rate * 1e6).astype(np.int64)
        micros = np.minimum(micros, self.edges[-1] - 1)
        # floating point leaves the guess a microsecond off at times; the definition decides
        while (late := self._before(micros) > wanted).any():
            micros = micros - late
        while (early := (self._before(micros + 1) <= wanted)).any():
            micros = micros + early
        return micros

    def _before(self, micros: Ints) -> Ints:
        period = np.clip(np.searchsorted(self.edges, micros, side="right") - 1, 0, self.rates.size - 1)
        count = self.counts[period] + self.rates[period] * (micros - self.edges[period]) * 1e-6
        return self._whole(np.clip(count, 0.0, self.counts[period + 1]))

    @property
    def _slack(self) -> float:
        """Rounding error of a count, in events."""
        return 1e-9 + 1e-15 * float(self.counts[-1])

    def _whole(self, count: NDArray[np.float64]) -> Ints:
        """Return how many of the numbers 0, 1, … lie below a count."""
        return np.ceil(np.maximum(count - self._slack, 0.0)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Nexmark:
    """The stream of events: number to event, by a seed and a schedule.

    Attributes
    ----------
    schedule
        When each event is due.
    seed
        Of all random choices; the same seed gives the same events.
    epoch
        Microseconds since 1970-01-01 UTC of the schedule's time 0.
    lifetime
        Mean life of an auction (s); uniform between 0 and twice that.

    Examples
    --------
    >>> stream = Nexmark(Schedule.of([1000.0], 1.0), seed=1)
    >>> [row[1] for row in stream.rows(0, 6)]
    ['person', 'auction', 'auction', 'auction', 'bid', 'bid']
    >>> bid = dict(zip(COLUMNS, stream.event(5)))
    >>> bid["at"].isoformat(), bid["seller"]
    ('1970-01-01T00:00:00.005000+00:00', None)
    """

    schedule: Schedule
    seed: int = 0
    epoch: int = 0
    lifetime: float = 10.0
    _key: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_key", int(_mix(np.array([self.seed & _MASK], dtype=np.uint64))[0]))

    def event(self, number: int) -> Event:
        """Return one event as a tuple in the order of ``SCHEMA``."""
        return self.rows(number, number + 1)[0]

    def stimulus(self, number: int) -> int:
        """Return when an event enters the system: its ``at``, in microseconds since 1970-01-01 UTC."""
        return self.epoch + int(self.schedule.micros_of(np.array([number]))[0])

    def rows(self, first: int, last: int) -> list[Event]:
        """Return the events ``first`` … ``last - 1`` as tuples in the order of ``SCHEMA``, times in UTC."""
        n = np.arange(first, last, dtype=np.int64)
        at = self.epoch + self.schedule.micros_of(n)
        when = _datetimes(at)
        out: list[Event] = [()] * n.size
        for kind, places in _places(n):
            part = self._of_kind(kind, n[places], at[places])
            columns: list[Iterable[object]] = [
                _listed(part[name]) if name in part else repeat(None) for name in COLUMNS
            ]
            columns[1] = repeat(kind)
            columns[3] = [when[k] for k in places.tolist()]
            for place, row in zip(places.tolist(), zip(*columns, strict=False), strict=False):
                out[place] = row
        return out

    def columns(self, first: int, last: int) -> dict[str, Masked]:
        """Return the events ``first`` … ``last - 1`` by column, null where masked.

        Returns
        -------
        dict of masked arrays, each of shape (last - first,)
            In the order of ``SCHEMA``; times are ``datetime64[us]`` in UTC, strings are objects.
        """
        n = np.arange(first, last, dtype=np.int64)
        at = self.epoch + self.schedule.micros_of(n)
        table = {name: _nulls(n.size, _DTYPES.get(name, np.dtype(np.int64))) for name in COLUMNS}
        table["event"][:] = n
        table["at"][:] = at.view("datetime64[us]")
        for kind, places in _places(n):
            table["kind"][places] = kind
            for name, values in self._of_kind(kind, n[places], at[places]).items():
                table[name][places] = values.take() if isinstance(values, _Words) else values
        return table

    def batch(self, first: int, last: int) -> pa.RecordBatch:
        """Return the events ``first`` … ``last - 1`` as a pyarrow RecordBatch (the server has pyarrow)."""
        import pyarrow as pa

        types = {"category": pa.int32(), "at": pa.timestamp("us", "UTC"), "expires": pa.timestamp("us", "UTC")}
        arrays = []
        for name, values in self.columns(first, last).items():
            kind = types.get(name, pa.string() if values.dtype == object else pa.int64())
            arrays.append(pa.array(values.data, mask=np.ma.getmaskarray(values), type=kind, from_pandas=False))
        return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))

    def _of_kind(self, kind: str, n: Ints, at: Ints) -> dict[str, Column]:
        person, auction = _newest(n)
        if kind == "person":
            return {
                "event": n,
                "id": person + FIRST_PERSON,
                "name": _Words(NAMES, self._below(n, 0, len(NAMES))),
                "city": _Words(CITIES, self._below(n, 1, len(CITIES))),
                "state": _Words(STATES, self._below(n, 2, len(STATES))),
            }
        if kind == "auction":
            hot = self._below(n, 0, HOT_SELLER) > 0
            first_bid = self._price(n, 2)
            life = (self._uniform(n, 4) * (2e6 * self.lifetime)).astype(np.int64) + 1
            return {
                "event": n,
                "id": auction + FIRST_AUCTION,
                "price": first_bid,
                "seller": np.where(hot, person // HOT_EVERY * HOT_EVERY, self._someone(n, 1, person)) + FIRST_PERSON,
                "name": _Words(ITEMS, self._below(n, 6, len(ITEMS))),
                "category": FIRST_CATEGORY + self._below(n, 5, CATEGORIES),
                "reserve": first_bid + self._price(n, 3),
                "expires": (at + life).view("datetime64[us]"),
            }
        hot = self._below(n, 0, HOT_AUCTION) > 0
        oldest = np.maximum(auction - FLYING_AUCTIONS, 0)
        cold = oldest + self._below(n, 1, auction - oldest + 1 + AUCTION_LEAD)
        regular = self._below(n, 2, HOT_BIDDER) > 0
        return {
            "event": n,
            "auction": np.where(hot, auction // HOT_EVERY * HOT_EVERY, cold) + FIRST_AUCTION,
            "bidder": np.where(regular, person // HOT_EVERY * HOT_EVERY + 1, self._someone(n, 3, person))
            + FIRST_PERSON,
            "price": self._price(n, 4),
        }

    def _uniform(self, n: Ints, draw: int) -> NDArray[np.float64]:
        """Return uniform numbers in [0, 1) of 53 bits, a hash of seed, event and draw."""
        key = np.uint64((self._key + draw * 0xD1B54A32D192ED03) & _MASK)
        bits = _mix(n.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + key) >> np.uint64(11)
        return bits.astype(np.float64) * 2.0**-53

    def _below(self, n: Ints, draw: int, limit: int | Ints) -> Ints:
        return np.asarray(self._uniform(n, draw) * limit).astype(np.int64)

    def _price(self, n: Ints, draw: int) -> Ints:
        return np.rint(10.0 ** (self._uniform(n, draw) * 6.0) * 100.0).astype(np.int64)

    def _someone(self, n: Ints, draw: int, person: Ints) -> Ints:
        active = np.minimum(person + 1, ACTIVE_PEOPLE)
        return person + 1 - active + self._below(n, draw, active + PERSON_LEAD)


class _Words:
    """Strings chosen from a list by position."""

    def __init__(self, words: Sequence[str], index: Ints) -> None:
        self.words, self.index = words, index

    def take(self) -> NDArray[np.object_]:
        return np.array(self.words, dtype=object)[self.index]


_DTYPES: dict[str, np.dtype[np.generic]] = {
    **dict.fromkeys(("kind", "name", "city", "state"), np.dtype(object)),
    **dict.fromkeys(("at", "expires"), np.dtype("datetime64[us]")),
    "category": np.dtype(np.int32),
}


def _newest(n: Ints) -> tuple[Ints, Ints]:
    """Return the newest person and auction at each event, counted from 0; an auction of the future counts as -1."""
    group, place = np.divmod(n, EVENTS)
    auction = np.where(
        place < PERSONS, group * AUCTIONS - 1, group * AUCTIONS + np.minimum(place - PERSONS, AUCTIONS - 1)
    )
    return group, auction


def _places(n: Ints) -> Iterator[tuple[str, Ints]]:
    place = n % EVENTS
    yield "person", np.flatnonzero(place < PERSONS)
    yield "auction", np.flatnonzero((place >= PERSONS) & (place < PERSONS + AUCTIONS))
    yield "bid", np.flatnonzero(place >= PERSONS + AUCTIONS)


def _nulls(size: int, kind: np.dtype[np.generic]) -> Masked:
    return np.ma.MaskedArray(np.zeros(size, kind), mask=np.ones(size, bool))


def _listed(values: Column) -> Sequence[object]:
    if isinstance(values, _Words):
        return [values.words[k] for k in values.index.tolist()]
    if values.dtype.kind == "M":
        return _datetimes(values.view(np.int64))
    listed: list[object] = values.tolist()
    return listed


def _datetimes(micros: Ints) -> list[datetime]:
    # with a time zone: Spark would read a naive time as local time of the server
    return [_EPOCH + timedelta(0, 0, k) for k in micros.tolist()]


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Finalise by splitmix64: every input bit reaches every output bit."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
