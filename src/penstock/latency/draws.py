"""What a prediction does not know, drawn at random: costs, factors, overheads, speeds and the trigger's phase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.cluster import base_name
from penstock.latency.mace import relative_errors
from penstock.load import LoadModel, OperatorStatistics, Statistics
from penstock.load.fitting import ALONE, STRETCH, TINY, hidden, host_of, unmeasured
from penstock.load.statistics import HostStatistics
from penstock.units import digits

DRAWS = 200
"""How often a prediction is made again."""

LEAST = 0.05
"""No drawn cost or factor is less than this part of what was measured."""

BATCHES = 64
"""Intervals of the trigger in which a host's batches differ by chance, before the same differences come again."""

STRETCHES = 64
"""Stretches of time in which a core's speed differs, before the same differences come again."""

MATTERS = 0.1
"""Cores that an operator may need above which it is said that its cost is not known."""

GUESSED = "costs are taken as measured alone and overhead as on the other hosts, both to within a half"
"""What is taken of hosts that were never measured, while others were."""

FARTHEST = 20.0
"""Logarithm of how many times slower or faster things are drawn at most."""

TAILS, SCALE = 4, 0.8
"""Degrees of freedom of Student's t, and its share of a standard deviation, with which batches differ by chance: of
300 batches in seven runs 5 % were 1.7 off on either side, and 1 % were 3.2, where a normal distribution has 2.3. The
worst latency of a minute is that of such a batch."""

LATER = 0.5
"""How differently soon batches see their input, as in 31 batches of a run: standard deviation of the logarithm. Where
a window ends at a multiple of the trigger, a millisecond decides whether its results wait for another batch."""

AT_FIRST = {"worst": 0.83, "p99": 0.79, "p50": 0.99, "mean": 0.87}
"""How many times as wide as drawn an interval is where no earlier run on its machine tells: the likeliest width for the
31 predictions of `benchmarks/results/coverage.jsonl` up to revision 3ecfcb8. Errors partly cancel out."""


def by_chance(rng: np.random.Generator, size: int | tuple[int, ...]) -> Array:
    """Draw how batches differ by chance, in standard deviations."""
    return SCALE * rng.standard_t(TAILS, size)


def seen_later(rng: np.random.Generator, size: int) -> Array:
    """Draw factors on the time after which a batch sees its input."""
    return _times(LATER * rng.standard_normal(size))


@attrs.frozen(eq=False, kw_only=True)
class Draws:
    """Draws of what is not known, one a row.

    Attributes
    ----------
    cost
        Array (draws, operators): what each operator's cost is of the model's.
    factor
        Array (draws, hosts): what each host's factor is of the measured one.
    overhead
        Array (draws, hosts): seconds that a host's batches take more than their measured overhead.
    fixed
        Array (draws, hosts): by what overhead, that for state with it, takes longer from one run to another.
    speed
        Array (draws, hosts): by what everything on a host takes longer.
    wander
        Array (draws, hosts, stretches of `STRETCH` s): by what it takes longer in one stretch of time after another.
    chance
        Array (draws, hosts, intervals of the trigger): how batches that start in them differ by chance, in standard
        deviations (`by_chance`).
    phase
        Array (draws,): where in the trigger's interval the rates begin, as a share of it.
    reading
        Array (draws,): factors on the time after which a batch sees its input.
    """

    cost: Array
    factor: Array
    overhead: Array
    fixed: Array
    speed: Array
    wander: Array
    chance: Array
    phase: Array
    reading: Array

    def __len__(self) -> int:
        return len(self.phase)

    def in_phase(self) -> Draws:
        """Return the same for rates that begin at a multiple of the trigger."""
        return attrs.evolve(self, phase=np.zeros(len(self)))

    def noise(self, k: int, trigger: float) -> list[Array]:
        """Return by host what its batches take longer in a draw, by interval of the trigger in which they start."""
        return [np.repeat(row, max(round(STRETCH / trigger), 1)) for row in self.wander[k]]


def certain(statistics: Statistics | None, hosts: Iterable[str]) -> bool:
    """Whether nothing of costs can be drawn: the statistics tell of no error at all, and of each of some hosts."""
    known = statistics or Statistics()
    if any(row.error for row in known.operators.values()) or any(map(uncertain, known.hosts.values())):
        return False
    return not unmeasured(known, hosts)


def guessed(statistics: Statistics | None, hosts: Iterable[str]) -> tuple[str, ...]:
    """Return the note on those of some hosts that were never measured, while others were, if there are any."""
    names = unmeasured(statistics, hosts)
    return (f"{', '.join(names)} not measured: {GUESSED}",) if names else ()


def unresolved(model: LoadModel, statistics: Statistics) -> tuple[str, ...]:
    """Return the note on costs that calibration could not tell from nothing, where they may matter, if any do."""
    said = []
    for operator, load in zip(model.network.operators.values(), model.load.max(axis=1).tolist(), strict=True):
        row = statistics.operators.get(operator.name, OperatorStatistics())
        most = hidden(row, operator.cost)
        if most <= 1 or load * most < MATTERS:
            continue
        cost = row.resolution / most
        taken = f"{digits(1e6 * cost, 2)} µs" if cost > TINY else "0"
        below, cores = f"{digits(1e6 * row.resolution, 2)} µs", digits(load * most, 2)
        said.append(
            f"{operator.name}: cost below {below}, taken as {taken}; at these rates it may be up to {cores} cores"
        )
    return ("; ".join(said),) if said else ()


def uncertain(host: HostStatistics) -> bool:
    """Whether the statistics of a host tell of any error."""
    return any((host.error, host.overhead_error, host.residual, host.jitter, host.may_differ))


def homes(placement: Mapping[str, str], statistics: Statistics | None) -> dict[str, str]:
    """Return the host of each operator: of those of its copies the one whose costs are known worst."""
    found: dict[str, str] = {}
    for copy, host in placement.items():
        rows = [host_of(statistics, each) for each in (host, found.get(base_name(copy), host))]
        mine, other = (float(np.hypot(row.error, row.may_differ)) for row in rows)
        if mine >= other:
            found[base_name(copy)] = host
    return found


def draw(
    model: LoadModel,
    placement: Mapping[str, str],
    hosts: Sequence[str],
    statistics: Statistics | None,
    rng: np.random.Generator,
    *,
    count: int = DRAWS,
) -> Draws:
    """Draw what calibration does not know, as widely as it says.

    Errors of a factor and its overhead come from one regression, so they are drawn together. A factor that was measured
    in place makes the operators' errors a matter of their mix: the load of its host as a whole stays as measured.

    Parameters
    ----------
    placement
        Of the operators; replicas count as what they are copies of, on the host of `homes`.
    hosts
        Names, in the order of the answer.
    rng
        Where chance comes from.
    count
        How many draws.
    """
    known = statistics or Statistics()
    rows = [host_of(known, name) for name in hosts]
    errors = relative_errors(model.network, known)
    # One number after another in a fixed order: the same seed gives the same draws.
    # No cost is below 0: one that could not be told from nothing is as far above as it might be below.
    cost = np.abs(1 + rng.standard_normal((count, len(errors))) * errors)
    both = rng.standard_normal((count, 2, len(rows)))
    tied = np.array([row.correlation for row in rows])
    factor = 1 + both[:, 0] * [row.error for row in rows]
    other = tied * both[:, 0] + np.sqrt(1 - tied**2) * both[:, 1]
    # Cores wander for minutes too: where no earlier run tells, as far as between two stretches of the calibration.
    speed = _times(rng.standard_normal((count, len(rows))) * [row.may_differ for row in rows])
    wander = _times(
        rng.standard_normal((count, len(rows), STRETCHES)) * np.array([row.wander for row in rows])[:, None]
    )
    chance = by_chance(rng, (count, len(rows), BATCHES))
    phase = rng.random(count)
    fixed = _times(rng.standard_normal((count, len(rows))) * [row.overhead_may_differ for row in rows])
    reading = seen_later(rng, count)
    in_place = [0 < row.error < ALONE for row in rows]
    cost = _mixed(np.maximum(cost, LEAST), model, homes(placement, known), hosts, in_place)
    return Draws(
        cost=cost,
        factor=np.maximum(factor, LEAST),
        overhead=other * [row.overhead_error for row in rows],
        fixed=fixed,
        speed=speed,
        wander=wander,
        chance=chance,
        phase=phase,
        reading=reading,
    )


def _times(logarithms: Array) -> Array:
    """Return by how many times things differ, as far as numbers go on from there without overflow."""
    differs: Array = np.exp(np.clip(logarithms, -FARTHEST, FARTHEST))
    return differs


def _mixed(
    cost: Array, model: LoadModel, home: Mapping[str, str], hosts: Sequence[str], in_place: Sequence[bool]
) -> Array:
    """Return costs that leave the load of each host as it is where its factor was measured in place."""
    names = list(model.network.operators)
    load = model.mean_load
    cost = cost.copy()
    for host, measured in zip(hosts, in_place, strict=True):
        here = [number for number, name in enumerate(names) if home.get(name) == host]
        total = float(load[here].sum())
        if measured and total > 0:
            cost[:, here] /= (cost[:, here] @ load[here] / total)[:, None]
    return cost
