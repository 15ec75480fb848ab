"""What the controller has learned of a running network: costs, selectivities, rates; windowed, and never guessed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np

from penstock.cluster import base_name
from penstock.control.flow import Floats, Flow, Ints
from penstock.control.mix import Mix, differ, mixed
from penstock.control.rare import GIVEN, fading, likely
from penstock.files import Document
from penstock.load import OperatorStatistics, Statistics
from penstock.load.stretches import Stretch, over_windows
from penstock.network import Network
from penstock.steering import Observation

ENOUGH = 20.0
"""Tuples that an operator must have served, of late, before its own cost is believed."""

SURE, UNSURE = 0.1, 0.5
"""Relative standard errors of what a unit has worked: up to the first a look counts in full, beyond it by its
precision; beyond the second it counts only where no cost is known at all."""

HALF = 10
"""Looks after which what was seen counts half, at most."""

SPAN = 30.0
"""Seconds for which rates are kept at least, however often somebody looks."""

CHANGE = 3.0
"""Standard deviations beyond which counts say that a rate has changed."""


@attrs.frozen(eq=False, kw_only=True)
class Knowledge:
    """Sums over the recent past, in which an observation weighs half as much after every ``half`` seconds.

    Attributes
    ----------
    half
        Half-life (s); it is no longer than `HALF` periods: who looks more often wants to know sooner.
    window, long
        How many observations of the rates a decision looks at, and how many say how long rates have been the same.
    looks
        How many there were.
    operators
        Names, as the rows of the next one.
    sums
        Array (operators, 4): tuples served, benchmark-core seconds of these, tuples tried, tuples put out; the last two
        of windows that have closed, where there are any.
    windows
        By operator over windows: what it counts from one closing to the next.
    mixes
        By operator whose inputs differ in cost or selectivity: which of them its tuples came from.
    rates
        By source: tuples/s in the last observations, the newest last.
    promised
        By source that came with a query: the most (tuples/s) that was said of it, until it has been seen for a window.
    """

    half: float = 10.0
    window: int = 10
    long: int = 32
    looks: int = 0
    operators: tuple[str, ...] = ()
    sums: Floats = attrs.field(factory=lambda: np.zeros((0, 4)))
    windows: Mapping[str, Stretch] = attrs.field(factory=dict)
    mixes: Mapping[str, Mix] = attrs.field(factory=dict)
    rates: Mapping[str, tuple[float, ...]] = attrs.field(factory=dict)
    promised: Mapping[str, float] = attrs.field(factory=dict)

    def updated(self, seen: Observation, prior: Network) -> Knowledge:
        """Return what is known after one more observation.

        Where an engine knows only what a unit's tuples cost together, it is divided as the network's costs are to each
        other, or else those known so far, and counts the less the less sure it is. A cost that was learned stays until
        something newer is learned, or it is more than there was time for; so does a selectivity.
        """
        names = tuple(prior.operators)
        before = self._of(names)
        fresh, taken = seen.sums().T, self._taken(seen, prior)
        mixes = {name: mix for name, (mix, _) in taken.items()}
        if np.isnan(seen.work).any():
            fresh[:, 1], weight = attrs.evolve(self, mixes=mixes)._divided(seen, prior, before)
            fresh[:, :2] *= weight[:, None]
            fresh[np.isnan(fresh[:, 1]), :2] = 0.0
        sums = before * self._fading(seen.period)
        faded = (before[:, 0] >= ENOUGH) & (sums[:, 0] < ENOUGH)
        sums[faded, 1] *= ENOUGH / sums[faded, 0]
        sums[faded, 0] = ENOUGH
        if seen.operators != names:
            row = {name: k for k, name in enumerate(names)}
            base = np.array([row[base_name(name)] for name in seen.operators], np.int64)
            # What copies put out is counted once for all of them: the one that has tried most stands for it.
            fullest = np.full(len(names), -1, np.int64)
            order = np.argsort(fresh[:, 2], kind="stable")
            fullest[base[order]] = order
            fresh[fullest[base] != np.arange(len(base)), 2:] = 0.0
            copies, fresh = fresh, np.zeros((len(names), 4))
            np.add.at(fresh, base, copies)
        grows = [operator.growth is not None for operator in prior.operators.values()]  # as `learned_at` weighs
        counts_on = fading(before[:, 2:], fresh[:, 2:], self._fading(seen.period), grows, ENOUGH)
        sums[:, 2:] = before[:, 2:] * counts_on[:, None]
        windows = self._windows(prior, fresh, seen.period)
        for k, name in enumerate(names):
            if name in taken:
                mixes[name] = mixed(prior.operators[name], *taken[name], sums[k], fresh[k])
        sums += fresh
        for k, name in enumerate(names) if windows else ():
            if name in windows:
                sums[k, 2:] = windows[name].closed[1:]
        kept = max(self.long, math.ceil(SPAN / seen.period))
        rates = {}
        for name, count in zip(seen.sources, seen.entered.tolist(), strict=True):
            known = self.rates.get(name, ())
            # Until more is seen the rate is as it was, as after a restart.
            fresh_rate = known[-1:] if name in seen.unsure else (count / seen.period,)
            rates[name] = (*known, *fresh_rate)[-kept:]
        promised = {name: most for name, most in self.promised.items() if len(rates.get(name, ())) < self.window}
        late = {name: mix.cost for name, mix in mixes.items()}
        self._keep_up(sums, np.flatnonzero(faded), seen, prior, late)
        sums.setflags(write=False)
        return attrs.evolve(
            self, looks=self.looks + 1, operators=names, sums=sums, rates=rates, windows=windows, mixes=mixes,
            promised=promised,
        )  # fmt: skip

    def trusting(self) -> Knowledge:
        """Return it with what was promised of new sources instead of less that was seen of them."""
        found = {
            name: tuple(max(rate, most) for rate in self.rates.get(name) or (most,))
            for name, most in self.promised.items()
        }
        return attrs.evolve(self, rates={**self.rates, **found})

    def _windows(self, network: Network, fresh: Floats, period: float) -> dict[str, Stretch]:
        """Return what operators over windows have counted after one more look, which is by operator ``fresh``."""
        found = {}
        for operator, (tried, emitted) in zip(network.operators.values(), fresh[:, 2:].tolist(), strict=True):
            if over_windows(operator):
                before = self.windows.get(operator.name, Stretch())
                found[operator.name] = before.after(operator, (period, tried, emitted), self._half(period), ENOUGH)
        return found

    def _taken(self, seen: Observation, network: Network) -> dict[str, tuple[Mix, Floats]]:
        """Return by operator whose inputs differ its mix after one more look, and what it served of each input."""
        apart = [operator for operator in network.operators.values() if differ(operator)]
        if not apart or seen.arrived is None or seen.dropped is None:
            return {operator.name: (self.mixes.get(operator.name, Mix()), np.zeros(0)) for operator in apart}
        let_in = dict(zip(seen.streams, (seen.arrived - seen.dropped).tolist(), strict=True))
        base = np.array([base_name(name) for name in seen.operators])
        waits = np.full(len(base), np.nan) if seen.waiting is None else seen.waiting.copy()
        if seen.coming is not None:
            waits += seen.coming
        found = {}
        for operator in apart:
            came = np.array([let_in.get(stream.name, 0) for stream in network.inputs(operator.name)], float)
            mine, before = base == operator.name, self.mixes.get(operator.name, Mix())
            mix, taken = before.after(came, float(seen.served[mine].sum()), float(waits[mine].sum()))
            now = float(taken @ operator.cost / taken.sum()) if operator.cost and taken.any() else mix.cost
            found[operator.name] = attrs.evolve(mix, now=now), taken
        return found

    @staticmethod
    def _keep_up(sums: Floats, faded: Ints, seen: Observation, prior: Network, late: Mapping[str, float]) -> None:
        """Let costs of which nothing new is learned change with those of the unit's other operators.

        What an operator costs on a host that is cold, or busy with other things, would else be believed for as long as
        its input is dropped. That holds where the network's costs say what they are to each other; ``late`` is what it
        gives the tuples of those whose inputs differ.
        """
        row = {name: k for k, name in enumerate(prior.operators)}
        for unit in seen.units if faded.size else ():
            names = sorted({base_name(name) for name in unit.operators}, key=row.__getitem__)
            mine, nominal = np.array([row[name] for name in names], np.int64), _nominal(prior, names, late)
            if unit.work is None or not nominal.size:
                continue
            stale, fresh = np.isin(mine, faded), sums[mine, 0] >= ENOUGH
            fresh &= ~stale
            expected = float(sums[mine[fresh], 0] @ nominal[fresh])
            if expected > 0:
                factor = float(sums[mine[fresh], 1].sum()) / expected
                sums[mine[stale], 1] = sums[mine[stale], 0] * nominal[stale] * factor

    def _fading(self, period: float) -> float:
        """Return the share with which what was seen counts on after one more period (s)."""
        return float(0.5 ** (period / self._half(period)))

    def _half(self, period: float) -> float:
        """Return the half-life (s) of who looks so often."""
        return min(self.half, HALF * period)

    def _of(self, names: tuple[str, ...]) -> Floats:
        """Return the sums of some operators, array (names, 4); 0 where nothing is known."""
        if names == self.operators:
            return self.sums
        row = {name: k for k, name in enumerate(self.operators)}
        place = np.array([row.get(name, len(row)) for name in names], np.int64)
        found: Floats = np.concatenate([self.sums, np.zeros((1, 4))])[place]
        return found

    def _divided(self, seen: Observation, prior: Network, before: Floats) -> tuple[Floats, Floats]:
        """Return each operator's work where only that of whole units was seen, and how much of it counts."""
        work, weight = np.array(seen.work, float), np.ones(len(seen.operators))
        row = {name: k for k, name in enumerate(seen.operators)}
        sums = dict(zip(prior.operators, before, strict=True))
        now = {name: mix.now for name, mix in self.mixes.items()}
        cost = {}
        for name in seen.operators:
            base = base_name(name)
            cost[name] = _cost(sums[base], prior.operators[base].cost, self.mixes.get(base, Mix()))
        for unit in seen.units:
            rows = [row[name] for name in unit.operators if name in row and np.isnan(work[row[name]])]
            if unit.work is None or not rows:
                continue
            unsure = unit.doubt / max(unit.work, 1e-12)
            known = [cost[seen.operators[k]] for k in rows]
            expected = np.array([seen.served[k] * (each or 0.0) for k, each in zip(rows, known, strict=True)])
            worked, counts = unit.work, min(1.0, (SURE / unsure) ** 2) if unsure else 1.0
            # What was learned so would only repeat how it was divided before.
            nominal = _nominal(prior, [base_name(seen.operators[k]) for k in rows], now)
            if unsure > UNSURE and all(each is not None for each in known):
                most = worked + unit.doubt
                if expected.sum() <= most:
                    continue
                worked, counts = most, 1.0  # it was not more, though it may have been less
            parts = seen.served[rows] * nominal if nominal.size else expected
            if not parts.any():
                parts = seen.served[rows].astype(float)
            if parts.sum() > 0:
                work[rows] = parts / parts.sum() * worked
                weight[rows] = counts
        return work, weight

    def costs(self, flow: Flow) -> tuple[Floats, Floats]:
        """Return cost and selectivity of every input, arrays (inputs,): seen of late, or else as the network says.

        Where inputs differ, what was seen says how far off they are together. nan: neither.
        """
        found, row = self.means(flow), {name: k for k, name in enumerate(flow.network.operators)}
        sums = self._of(tuple(row))
        for name, mix in self.mixes.items():
            here = np.flatnonzero(flow.reader == row.get(name, -1))
            told = sums[row[name], ::2] >= ENOUGH if here.size else np.zeros(2, bool)
            for values, given, late, known in zip(
                found, flow.given, (mix.cost, mix.selectivity), (told[0], told.all()), strict=True
            ):
                if known and not math.isnan(late) and np.ptp(given[here]) > 0:
                    values[here] = _scaled(given[here], values[here], late)
        return found

    def means(self, flow: Flow) -> tuple[Floats, Floats]:
        """Return what `costs` does, but of all inputs of an operator what its tuples cost and put out on average."""
        cost, selectivity = (np.array(row) for row in flow.given)
        served, work = np.repeat(self._of(tuple(flow.network.operators))[:, :2], flow.ports, axis=0).T
        told = served >= ENOUGH
        cost[told] = work[told] / served[told]
        seen = np.repeat(self._selectivities(flow.network), flow.ports)
        return cost, np.where(told & ~np.isnan(seen), seen, selectivity)

    def errors(self, flow: Flow) -> tuple[Floats, Floats]:
        """Return the standard errors of cost and selectivity of every input, arrays (inputs,), as shares: 1 at most.

        What single tuples take and put out is not known: they are those of what comes by chance. Windows that have
        closed have put out all, and what they put out by chance is what they took.
        """
        served, _, tried, emitted = np.array(self._of(tuple(flow.network.operators)).T)
        windows = [over_windows(operator) for operator in flow.network.operators.values()]
        put = np.where(windows, tried, np.minimum(tried, np.maximum(emitted, GIVEN)))
        # In a mean that weighs the past less, the weights of as many count half.
        cost, selectivity = (np.repeat(1 / np.sqrt(np.maximum(2 * count, 1)), flow.ports) for count in (served, put))
        return cost, selectivity

    def _selectivities(self, network: Network) -> Floats:
        """Return what operators put out of all their inputs together, array (operators,); nan: too little was tried."""
        tried, emitted = self._of(tuple(network.operators))[:, 2:].T
        given = np.ones(len(tried))
        for k, (name, operator) in enumerate(network.operators.items()):
            if over_windows(operator):
                given[k] = np.nan  # a window that has closed has put out all
            elif operator.selectivity is not None:
                late = self.mixes[name].selectivity if name in self.mixes else np.nan
                given[k] = np.mean(operator.selectivity) if np.isnan(late) else late
        return np.where(tried >= ENOUGH, likely(tried, emitted, given), np.nan)

    def series(self, network: Network, looks: int | None = None) -> Floats:
        """Return the last rates of the sources, array (sources, k), the newest last; before the first their mean.

        Parameters
        ----------
        looks
            How many, as far as they are kept; None: as many as a decision looks at.
        """
        return self._table(network, self.window if looks is None else looks)

    def _table(self, network: Network, most: int) -> Floats:
        length = min(most, max((len(row) for row in self.rates.values()), default=1))
        table = np.zeros((len(network.sources), max(length, 1)))
        for row, name in zip(table, network.sources, strict=True):
            if known := self.rates.get(name, ())[-most:]:
                row[:] = np.mean(known)  # a source that came later would else count as one that is mostly idle
                row[len(row) - len(known) :] = known
        return table

    def steady(self, network: Network, period: float) -> Floats:
        """Return the rate of each source now (tuples/s), array (sources,): the mean since it last changed.

        Twice as many looks are taken while the newer half of them differs from the older one by no more than
        `CHANGE` standard deviations of arrivals by chance (Poisson).

        Parameters
        ----------
        period
            Time between two looks (s).
        """
        counts = self._table(network, self.long) * period
        looks = np.array([min(len(self.rates.get(name, ())), self.long) for name in network.sources])
        mean, same, half = counts[:, -1].copy(), np.ones(len(counts), bool), 1
        while 2 * half <= looks.max(initial=0):
            same &= 2 * half <= looks
            older, newer = counts[:, -2 * half : -half].mean(axis=1), counts[:, -half:].mean(axis=1)
            same &= np.abs(newer - older) <= CHANGE * np.sqrt((newer + older) / half) + 1 / half
            mean[same] = (newer + older)[same] / 2
            half *= 2
        rates: Floats = mean / period
        return rates

    def learned_at(self, network: Network, period: float) -> Floats:
        """Return the rate of each source (tuples/s) at which selectivities were learned, array (sources,).

        It is a mean in which each look weighs as it does in the sums. An output that never grows is then right at
        any rate: the selectivity is what was put out over the sum of the same rates. Those of windows were learned at
        the rates that `paced` says.
        """
        found = np.zeros(len(network.sources))
        for k, name in enumerate(network.sources):
            if rates := self.rates.get(name, ()):
                found[k] = np.average(rates, weights=self._fading(period) ** np.arange(len(rates))[::-1])
        return found

    def paced(self, flow: Flow, arrivals: Floats) -> Floats:
        """Return rates of inputs (tuples/s), array (inputs,), with those at which windows have learned instead."""
        found = arrivals.copy()
        for k, name in enumerate(flow.network.operators):
            seconds, tried, _ = self.windows[name].closed if name in self.windows else (0.0, 0.0, 0.0)
            if seconds:
                found[flow.reader == k] = tried / seconds
        return found

    def by_input(self, flow: Flow) -> Statistics:
        """Return what is known as statistics, for everything that is priced by them."""
        known, (cost, selectivity) = self.statistics(flow.network), self.costs(flow)
        rows = dict(known.operators)
        for k, name in enumerate(flow.network.operators):
            if name in self.mixes and name in rows:
                here, shares = flow.reader == k, rows[name].selectivity
                shares = shares and tuple(selectivity[here].tolist())
                rows[name] = attrs.evolve(rows[name], cost=tuple(cost[here].tolist()), selectivity=shares)
        return attrs.evolve(known, operators=rows)

    def statistics(self, network: Network) -> Statistics:
        """Return what is known as statistics, of all inputs of an operator together."""
        rows = {}
        sums, shares = self._of(tuple(network.operators)), self._selectivities(network)
        for name, (served, work, _, _), seen in zip(network.operators, sums.tolist(), shares.tolist(), strict=True):
            if served >= ENOUGH:
                share = None if math.isnan(seen) else (seen,)
                rows[name] = OperatorStatistics(cost=(work / served,), selectivity=share, tuples=int(served))
        return Statistics(operators=rows)

    def document(self) -> Document:
        """Return it for the state file."""
        mixes = {name: mix.document() for name, mix in self.mixes.items()}
        return {**attrs.asdict(self), "operators": list(self.operators), "sums": self.sums.tolist(), "mixes": mixes}

    @classmethod
    def read(cls, document: Document) -> Knowledge:
        """Return what `document` wrote."""
        rates = {name: tuple(row) for name, row in document["rates"].items()}
        sums = np.array(document["sums"], float).reshape(-1, 4)
        windows = {name: Stretch.read(row) for name, row in document.get("windows", {}).items()}
        mixes = {name: Mix.read(row) for name, row in document.get("mixes", {}).items()}
        promised = {name: float(most) for name, most in document.get("promised", {}).items()}
        read = {"operators": tuple(document["operators"]), "sums": sums, "rates": rates, "windows": windows}
        return cls(**{**document, **read, "mixes": mixes, "promised": promised})


def _cost(sums: Floats, given: Sequence[float] | None, mix: Mix) -> float | None:
    """Return a cost (s) that was learned, or else the network's, of what was served last; None: neither."""
    served, worked = sums[:2].tolist()
    if served >= ENOUGH and worked > 0:
        return float(worked / served) * (mix.now / mix.cost if mix.now > 0 and mix.cost > 0 else 1.0)
    if given is None:
        return None
    return float(np.mean(given)) if math.isnan(mix.now) else mix.now


def _nominal(network: Network, names: Iterable[str], mixed: Mapping[str, float]) -> Floats:
    """Return the costs (s) that the network gives some operators; empty unless it gives all of them.

    ``mixed``: those of tuples of several inputs, where that is known; else the mean over the inputs.
    """
    names = list(names)
    found = np.array(network.given_costs(names), float)
    for k in range(found.size):
        if not math.isnan(mean := mixed.get(names[k], math.nan)):
            found[k] = mean
    return found


def _scaled(given: Floats, seen: Floats, late: float) -> Floats:
    """Return what the network gives some inputs, by as much off as what was seen is from its mean for the same mix."""
    # What the network says is nothing has no share in what was seen.
    scaled: Floats = given * (seen / late) if late > 0 else np.maximum(given, seen)
    return scaled
