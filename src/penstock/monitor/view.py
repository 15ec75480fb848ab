"""What is looked at, and the two documents that a face shows of it: what it is, and what is measured."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.cluster import Host
from penstock.errors import InputError, PenstockError
from penstock.files import Document
from penstock.load import Statistics
from penstock.load.setting import Setting
from penstock.monitor.board import Board, summary, tail
from penstock.monitor.expected import FOLLOWED, OVERLOAD_ONLY, Expected, Question, expect, what_if
from penstock.monitor.periods import WITHIN, highest, mean
from penstock.network import Network
from penstock.network.model import Operator
from penstock.pictures.lanes import lay_out
from penstock.workload import Rates

AGAIN = 10.0
"""Seconds after which a run whose rates nobody told is expected anew, from the rates that came."""


@attrs.frozen(kw_only=True)
class Status:
    """How it is with what is looked at.

    Attributes
    ----------
    word
        ``running``, ``ended``, ``recorded`` (of the past) or ``planned`` (nothing was measured).
    since
        Since when (s since the epoch).
    says
        One sentence more, if there is one.
    """

    word: str
    since: float | None = None
    says: str = ""


class View:
    """One thing to look at: a run, recorded queries, or a plan.

    Whoever owns it calls `look` again and again; the documents may be asked for from other threads.

    Parameters
    ----------
    kind
        ``run``, ``log`` or ``plan``.
    folder
        What was named by the user.
    setting, board
        What is deployed, and what is measured of it.
    measured
        What the measured latency series is, for people.
    virtual
        Whether times are seconds since the beginning rather than since the epoch.
    """

    def __init__(
        self,
        kind: str,
        folder: str,
        setting: Setting,
        board: Board,
        *,
        measured: str = "measured",
        virtual: bool = False,
    ) -> None:
        self.virtual = virtual
        self.kind, self.folder, self.setting, self.board, self.measured = kind, folder, setting, board, measured
        self.status = Status(word="planned")
        self.batches = True
        self.revision = 0
        self.begin: float | None = None
        self.decisions: list[Document] = []
        self.decided = 0
        """How many decisions there were; the oldest are forgotten."""
        self.actions: tuple[str, ...] = ()
        self.findings: list[Document] = []
        self.notes: list[str] = []
        self.lock = threading.RLock()
        self._changed = -math.inf
        """When what is deployed changed last (s since the epoch): what is expected holds from then on."""
        self._expected: Expected | None = None
        self._expected_from = 0.0
        self._expected_at = -math.inf
        self._wrong: str | None = None

    def look(self, now: float) -> bool:
        """Take in what is new at a time (s since the epoch); return whether anything was."""
        return False

    def begun_anew(self) -> bool:
        """Return whether another run has begun where this one was.

        Raises
        ------
        InputError
            If what was there is gone, or is damaged.
        """
        return False

    @property
    def network(self) -> Network:
        """What runs."""
        return self.setting.network

    def grow(self, network: Network, hosts: Sequence[Host] = (), *, when: float) -> None:
        """Take in a network that has more than before from a time on (s since the epoch), and hosts that were added."""
        before = self.setting
        cluster = before.cluster.having([*before.cluster.hosts.values(), *hosts])
        rates = before.rates
        if rates is not None and not set(network.sources) <= set(rates.sources):
            rates = None  # nobody told the rates of a source that came later; those that are measured hold
        self.board.widen([stream.name for stream in network.streams], cluster.hosts, network.sinks)
        self.change(attrs.evolve(before, network=network, cluster=cluster, rates=rates), when=when)

    def change(self, setting: Setting, *, when: float) -> None:
        """Take in what is deployed from a time on (s since the epoch): what was expected until now holds no longer."""
        self.setting, self._changed = setting, when
        self._expected, self._wrong = None, None
        self.revision += 1

    def needs_expecting(self, now: float) -> Callable[[], object] | None:
        """Return the work of expecting, if it is time for that; it may take seconds, and needs no lock."""
        if self.begin is None and self.kind == "run":
            return None
        told = self.setting.rates is not None
        if self._expected is not None and (told or now - self._expected_at < AGAIN):
            return None
        if self._wrong is not None or (self._expected is None and now - self._expected_at < AGAIN):
            return None
        with self.lock:
            self._expected_at = now
            setting, (begin, rates) = self.setting, self._rates_to_come()
            if rates is None:
                return None

        def work() -> None:
            found, wrong = None, None
            try:
                found = expect(attrs.evolve(setting, rates=rates), np.random.default_rng(0), batches=self.batches)
            except PenstockError as error:
                wrong = str(error)
            with self.lock:
                if setting is not self.setting:
                    return  # it changed meanwhile: what was expected is of what was there before
                said = [*self._of_prediction()]
                self._expected, self._expected_from, self._wrong = found, begin, wrong
                self.revision += said != [*self._of_prediction()]
                self.board.changed = self.board.first

        return work

    def _rates_to_come(self) -> tuple[float, Rates | None]:
        """Return when the rates begin (s since the epoch) under which what is deployed now is, and the rates, if any.

        They are those that were told, or else those that were measured.
        """
        begin, rates = self.begin or 0.0, self.setting.rates
        if rates is None and (rates := self.measured_rates()) is not None:
            begin = self.board.start + rates.start
        if rates is None or begin >= self._changed:
            return begin, rates
        return self._changed, later(rates, self._changed - begin)

    def measured_rates(self) -> Rates | None:
        """Return the rates of the sources over the window, as far as they came; None before anything did."""
        board, length = self.board, self.board.length
        total, rates = np.zeros(length), np.nan_to_num(board.rates()[:, :length])
        rows: dict[str, Array] = {}
        for name in self.network.sources:
            # Every reader of a source sees all of it, but one that was admitted later only what came since.
            readers = [board.streams.index(stream.name) for stream in self.network.outputs(name)]
            rows[name] = rates[readers].max(axis=0, initial=0.0)
            total += rows[name]
        there = np.flatnonzero(total)
        if there.size == 0 or there[-1] == there[0]:
            return None
        first = int(there[0])
        return Rates.of(
            board.step, {name: row[first : there[-1] + 1] for name, row in rows.items()}, first * board.step
        )

    def usual_rates(self) -> dict[str, float]:
        """Return the mean rate of each source (tuples/s): as told, or else as measured."""
        rates = self.setting.rates or self.measured_rates()
        if rates is None:
            return dict.fromkeys(self.network.sources, 0.0)
        return {name: float(rates.of_source(name).mean()) for name in rates.sources}

    def about(self) -> Document:
        """Return what is looked at: network, hosts, placement, where everything stands on a page."""
        with self.lock:
            network, cluster, setting = self.network, self.setting.cluster, self.setting
            known = setting.statistics.complete(network)
            lanes = lay_out(network, setting.placement, list(cluster.hosts))
            return {
                "revision": self.revision,
                "kind": self.kind,
                "name": network.name,
                "folder": self.folder,
                "measured": self.measured,
                "virtual": self.virtual,
                "sources": list(network.sources),
                "operators": {
                    name: _operator(operator, setting.statistics) for name, operator in known.operators.items()
                },
                "sinks": {name: {"input": sink.input, "weight": sink.weight} for name, sink in network.sinks.items()},
                "streams": [
                    {
                        "name": s.name,
                        "writer": s.writer,
                        "reader": s.reader,
                        "crosses": self._crosses(s.writer, s.reader),
                    }
                    for s in network.streams
                ],
                "hosts": {
                    name: {"capacity": host.capacity, "quota": host.quota, "cores": host.cores}
                    for name, host in cluster.hosts.items()
                },
                # JSON keeps no order of keys that are whole numbers: series by host come in this one.
                "host_order": list(cluster.hosts),
                "placement": dict(setting.placement),
                "trigger": cluster.spark.trigger,
                "layout": {
                    "places": {name: [round(x, 3), round(y, 3)] for name, (x, y) in lanes.places.items()},
                    "lanes": {name: [round(y, 3), round(tall, 3)] for name, (y, tall) in lanes.lanes.items()},
                    "columns": lanes.columns,
                    "rows": round(lanes.rows, 3),
                },
                "decisions": self.decisions[-500:],
                "findings": self.findings,
                "actions": list(self.actions),
                "notes": [*self.notes, *self._of_prediction()],
            }

    def _of_prediction(self) -> Iterator[str]:
        """Yield what to know about what is predicted, or why nothing is."""
        missing = self.setting.statistics.complete(self.network).unpriced
        if missing:
            yield f"No prediction: the cost of {', '.join(missing[:3])} is unknown."
            return
        if self._wrong:
            yield f"No prediction: {self._wrong}"
            return
        if self._expected is not None:
            yield from self._expected.notes
        if not self.batches:
            yield OVERLOAD_ONLY
        elif len(self.network.operators) > FOLLOWED:
            yield f"The network is large, so batches are left out of the prediction. {OVERLOAD_ONLY}"
        if self.begin is not None and self._changed > self.begin:
            since = self._changed - self.begin
            yield f"The prediction begins {since:.0f} s after the run did: then what is deployed changed last."

    def live(self, now: float, begin: int = 0) -> Document:
        """Return what is measured and expected, from a bin of the window on."""
        with self.lock:
            board, untold = self.board, self._untold()
            end = board.length
            begin = min(begin, end)
            backlog = self._by_reader(board.backlog())
            backlog[[host in untold for host in board.hosts]] = np.nan
            dropped = board.totals[1] + board.dropped.sum(axis=1)
            series: Document = {
                "rates": board.seen(board.rates(), begin, end),
                "busy": board.seen(board.shares(), begin, end),
                "backlog": board.seen(backlog, begin, end),
                "measured": tail(board.worst, begin, end),
                "keep": {
                    name: tail(row, begin, end)
                    for name, row, total in zip(board.streams, board.keep(), dropped, strict=True)
                    if total
                },
                "offered": self._offered(begin, end),
                **self._expected_series(begin, end),
            }
            return {
                "revision": self.revision,
                "now": now,
                "status": attrs.asdict(self.status),
                "step": board.step,
                "start": board.start,
                "from": begin,
                "length": end,
                "series": series,
                "usual": self.usual_rates(),
                "totals": self._totals(),
            }

    def ask(self, question: Question) -> Document:
        """Answer what would happen if …"""
        with self.lock:
            setting, usual = self.setting, self.usual_rates()
        return what_if(setting, question, usual, batches=self.batches)

    def act(self, kind: str, given: Document) -> Document:
        """Do something to what runs.

        Raises
        ------
        InputError
            If nothing can be done here.
        """
        raise InputError("nothing can be changed here", hint="only a running controller can be asked")

    def _crosses(self, writer: str, reader: str) -> bool:
        hosts = [self.setting.placement.get(name) for name in (writer, reader)]
        return None not in hosts and hosts[0] != hosts[1]

    def _untold(self) -> set[str]:
        """Return the hosts of which nobody tells how many rows wait for them."""
        return set()

    def _by_reader(self, waiting: Array) -> Array:
        """Return what waits for each host, array (hosts, bins)."""
        found = np.zeros((len(self.board.hosts), waiting.shape[1]))
        for row, stream in zip(waiting, self.network.streams, strict=True):
            host = self.setting.placement.get(stream.reader)
            if host in self.board.hosts:
                found[self.board.hosts.index(host)] += row
        return found

    def _edges(self, begin: int, end: int, origin: float, period: float) -> Array:
        """Return the edges of bins of the window in periods (s) since an origin (s since the epoch)."""
        board = self.board
        return (board.start + np.arange(begin, end + 1, dtype=np.float64) * board.step - origin) / period

    def _offered(self, begin: int, end: int) -> list[float | None]:
        """Return the rates that the sources were told to have, array (sources, bins); nothing where nobody told."""
        rates = self.setting.rates
        if rates is None or self.begin is None:
            return []
        return tail(mean(rates.values, self._edges(begin, end, self.begin, rates.period)), 0, end - begin)

    def _expected_series(self, begin: int, end: int) -> Document:
        """Return what is expected of each bin: the worst latency of what enters in it, and the load in the mean."""
        found = self._expected
        if found is None:
            return {}
        edges = self._edges(begin, end, self._expected_from, found.period)
        # The worst of a bin is at least that of each of its periods: so are its quantiles.
        worst = {"predicted": found.series}
        if found.spread is not None:
            worst |= {"low": found.spread.low, "high": found.spread.high}
        return {
            **{name: tail(highest(series, edges), 0, end - begin) for name, series in worst.items()},
            "load": tail(mean(found.load, edges), 0, end - begin),
        }

    def _totals(self) -> Document:
        """Return what was counted over the whole run, and what is expected of it; None where nobody counted.

        ``whole`` is false where latencies are those of the last period only. ``seconds`` is how long was counted, and
        ``hosts`` the share of it in which each worked, where somebody added that up. Streams that were not there all
        the time have a ``rate`` of their own (rows/s).
        """
        board, found = self.board, self._expected
        counts = board.totals.T.tolist()
        return {
            "streams": {
                name: {
                    "arrived": arrived,
                    "delivered": arrived - dropped,
                    "dropped": dropped,
                    "late": min(late, arrived - dropped),
                }
                for name, (arrived, dropped, late, told) in zip(board.streams, counts, strict=True)
                if told
            },
            "latency": summary(board.sinks.values()),
            "sinks": {
                name: {
                    "rows": row.count,
                    "latency": summary([row]),
                    "predicted": None if found is None or name not in found.sinks else found.told(name),
                }
                for name, row in board.sinks.items()
            },
            "predicted": None if found is None else found.told(),
            "interval": None if found is None else found.interval(),
            "model": None if found is None else found.model,
            "whole": True,
            "seconds": None,
            "hosts": {},
        }


def _operator(operator: Operator, known: Statistics) -> Document:
    """Return what is shown of an operator."""
    said = {key: getattr(operator, key) for key in ("where", "select", "on", "function", "window", "slide", "within")}
    row = known.operators.get(operator.name)
    return {
        "kind": operator.kind,
        "inputs": list(operator.inputs),
        "cost": None if operator.cost is None else max(operator.cost, default=None),
        "selectivity": None if operator.selectivity is None else max(operator.selectivity, default=None),
        "resolution": 0.0 if row is None else row.resolution,
        "pin": operator.pin,
        "routes": operator.route is not None,
        **{key: value for key, value in said.items() if value is not None},
    }


def later(rates: Rates, seconds: float) -> Rates | None:
    """Return the rates from some seconds after their beginning on, over periods of the same length; None: it is all."""
    first = seconds / rates.period
    edges = first + np.arange(math.ceil(rates.periods - first - WITHIN) + 1, dtype=np.float64)
    if edges.size <= 1:
        return None
    values = dict(zip(rates.sources, mean(rates.values, edges), strict=True))
    return Rates.of(rates.period, values, rates.start + seconds)


def bins_for(streams: int, bins: int) -> int:
    """Return how many bins a window of so many streams has, so that a page can hold them all."""
    return min(bins, max(120, 300_000 // max(1, streams)))
