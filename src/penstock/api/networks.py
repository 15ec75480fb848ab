"""Planning a network in a notebook: the values that the commands print."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TypedDict, Unpack

import attrs
import numpy as np
from numpy.typing import ArrayLike

from penstock.api.spelling import generator, naming_parameters, numbers, whole_seed
from penstock.arrays import Array
from penstock.cluster import Cluster, Placement, read_cluster, read_placement
from penstock.errors import InputError, locating
from penstock.files import Document, suggest
from penstock.latency.estimate import Estimate
from penstock.latency.models import default_model, model_of
from penstock.load import LoadModel, Statistics, load_model, read_statistics
from penstock.load.setting import begun
from penstock.network import Network, read_network
from penstock.placement import Answer, Problem, copies_of, terms_of
from penstock.placement import place as decide
from penstock.running.as_modelled import in_batches
from penstock.shedding import PLANNERS, LookUp, Question, build_program, build_table, optimum
from penstock.shedding.answer import WITHOUT_TABLE, look_up_document
from penstock.shedding.room import rooms, shares, told
from penstock.shedding.runs import Run
from penstock.simulation import Options, SimulationResult
from penstock.simulation import simulate as run
from penstock.workload import Rates, read_rates

Path = str | os.PathLike[str]
Planned = Network | Path
"""A network, or a network file."""

Hosts = int | Path | Cluster
"""A number of hosts of capacity 1 with free links, a cluster file, or a cluster."""

Arriving = Path | Rates | Mapping[str, ArrayLike]
"""A rates file, ``"clicks=100,bids=50"``, rates, or rates by source: a number, or one for each second.

A data frame with a column for each source will do.
"""

Placed = Path | Mapping[str, str] | Answer
"""A placement file, ``"a=h1,b=h2"``, hosts by operator, or what `place` answered."""


@naming_parameters()
def load_network(path: Path, statistics: Path | Statistics | None = None) -> Network:
    """Read a network file, completed by statistics or their file.

    Raises
    ------
    InputError
        Naming file, table, key and line.
    """
    return _completed(read_network(_path(path, "path", "a network file")), statistics)[0]


@naming_parameters()
def place(
    network: Planned,
    rates: Arriving,
    hosts: Hosts = 2,
    *,
    algorithm: str = "correlation",
    previous: Placed | None = None,
    seed: int = 0,
    **parameters: object,
) -> Answer:
    """Decide which operator runs on which host; as ``penstock place``.

    Parameters
    ----------
    algorithm
        One of `penstock.placement.ALGORITHMS`.
    parameters
        Of the algorithm, and the fields of `penstock.placement.Terms`: ``theta``, ``measure``, ``overload``, …;
        ``statistics``: costs that the network leaves open, and factors of hosts; ``replicas``: copies of each operator.

    Returns
    -------
    Answer
        With ``placement``, ``objective``, ``value`` and ``bound``.

    Raises
    ------
    Infeasible
        Naming the host or link that is short.
    """
    network, known = _completed(network, parameters.pop("statistics", None))
    cluster = _cluster(hosts, network)
    before = None if previous is None else _placement(previous, network, cluster)
    copies = _copies(algorithm, parameters.pop("replicas", 0))
    problem = Problem.of(_model(network, rates), cluster, known, before, copies)
    terms, own = terms_of(parameters)
    return decide(problem, algorithm, generator(seed), terms, **own)


@naming_parameters()
def estimate(
    network: Planned,
    rates: Arriving,
    placement: Placed,
    hosts: Hosts = 2,
    *,
    model: str | None = None,
    statistics: Path | Statistics | None = None,
) -> Estimate:
    """Predict latency; as ``penstock estimate``.

    Parameters
    ----------
    model
        One of `penstock.latency.models.MODELS`; None: the one that fits the cluster, as the command takes it.
    statistics
        Costs and selectivities that the network leaves open, and overheads and factors of hosts.

    Returns
    -------
    Estimate
        With ``total`` (worst, p99, p50, mean; s), ``series``, ``sinks`` and ``bottleneck``.

    Raises
    ------
    InputError
        If the parts do not fit each other.
    """
    network, known = _completed(network, statistics)
    cluster = _cluster(hosts, network)
    placed = _placement(placement, network, cluster)
    decide = model_of(model or default_model(cluster, network, placed))
    return decide(_model(network, rates), placed, cluster, known)


class Further(TypedDict, total=False):
    """What else a simulation takes: what was measured, and where chance comes from."""

    statistics: Path | Statistics | None
    seed: int | None


@naming_parameters()
def simulate(
    network: Planned,
    rates: Arriving,
    placement: Placed,
    hosts: Hosts = 2,
    *,
    options: Options | None = None,
    **more: Unpack[Further],
) -> SimulationResult:
    """Run a placed network in virtual time; as ``penstock simulate``.

    Parameters
    ----------
    options
        Policy, bounds, drops, failures, moves: `penstock.simulation.Options`.
    more
        ``statistics``: costs and selectivities that the network leaves open, factors of hosts, and the overheads of
        micro-batches that have none; ``seed`` of everything random, instead of the one of the options.

    Returns
    -------
    SimulationResult
        With ``latency`` and counts of every stream.

    Raises
    ------
    InputError
        If the parts do not fit each other.
    """
    _refuse_others(more, Further)
    options = options or Options()
    if not isinstance(options, Options):
        raise InputError(f"expected simulation.Options, got {type(options).__name__}", at="options")
    if (seed := more.get("seed")) is not None:
        options = attrs.evolve(options, seed=whole_seed(seed))
    network, known = _completed(network, more.get("statistics"))
    cluster = _cluster(hosts, network)
    placed = _placement(placement, network, cluster)
    batches, in_place = in_batches(options.microbatch, cluster, placed, known)
    return run(network, in_place, placed, _rates(network, rates), attrs.evolve(options, microbatch=batches))


class Promise(TypedDict, total=False):
    """What a plan table is made for: its region, ``upto``, and the share of the optimum that it may lose, ``error``."""

    upto: Mapping[str, float] | None
    error: float


@attrs.frozen(eq=False, kw_only=True)
class Shed:
    """What to drop at given rates.

    Attributes
    ----------
    keep
        Keep fraction of each stream with a drop.
    score, optimum, full
        Weighted tuples a second at the sinks: under the plan, of the best plan, and with unlimited capacity.
    feasible
        Whether the plan keeps every host within its capacity.
    load
        By host, as a share of its capacity.
    notes
        What is left out, and what plans may fill of hosts whose batches take a part.
    """

    keep: Mapping[str, float]
    score: float
    optimum: float
    full: float
    feasible: bool
    load: Mapping[str, float]
    notes: tuple[str, ...] = ()


@naming_parameters()
def shed(
    network: Planned,
    placement: Placed,
    at: Mapping[str, float],
    hosts: Hosts = 2,
    *,
    planner: str = "exact",
    statistics: Path | Statistics | None = None,
    **promise: Unpack[Promise],
) -> Shed:
    """Decide what to drop when sources bring these rates; as ``penstock shed``.

    Parameters
    ----------
    at
        Tuples a second, by source.
    statistics
        Costs and selectivities that the network leaves open, and overheads and factors of hosts: where a cluster file
        says that they work in micro-batches, plans leave room.
    promise
        ``upto`` bounds the region of the plan table, twice ``at`` by default; ``error`` is the share of the optimum
        that it may lose, 0.05 by default.

    Raises
    ------
    InputError
        If the planner or a source is unknown.
    Infeasible
        If what cannot be dropped is too much for a host; with ``planner="replica"``: if copies alone cannot make room.
    """
    names = [*PLANNERS, *WITHOUT_TABLE]
    if not isinstance(planner, str) or planner not in names:
        raise InputError(f"unknown planner {planner!r}", at="planner", hint=suggest(str(planner), names, "planners"))
    _refuse_others(promise, Promise)
    upto, error = promise.get("upto"), promise.get("error", 0.05)
    if isinstance(error, bool) or not isinstance(error, int | float | np.number) or not 0 < error < 1:
        raise InputError(f"expected an error between 0 and 1, got {error!r}", at="error")
    network, known = _completed(network, statistics)
    cluster = _cluster(hosts, network)
    placed = _placement(placement, network, cluster)
    room = rooms(network, cluster, placed, known)
    program, rates = build_program(network, cluster, placed).leaving(shares(cluster, room)), _at(network, at, "at")
    if (direct := WITHOUT_TABLE.get(planner)) is not None:
        return _shed(told(direct(program, cluster, placed, rates), room))
    run = Run.of(program, rates)
    most = 2 * rates if upto is None else _at(network, upto, "upto")
    if (most < rates).any():
        raise InputError("expected rates of at least those of at", at="upto")
    question = Question(optimum(run.program), most, error)
    look_up = LookUp(run.program, build_table(planner, question))
    return _shed(told(look_up_document(look_up, question, rates, run), room))


def _refuse_others(given: Mapping[str, object], known: type) -> None:
    """Refuse further arguments that nobody knows."""
    if unknown := [name for name in given if name not in known.__annotations__]:
        raise InputError("no such argument", at=unknown[0], hint=suggest(unknown[0], known.__annotations__, "others"))


def _shed(found: Document) -> Shed:
    """Return the value of what the command would print."""
    told = {name: found[name] for name in ("keep", "score", "optimum", "full", "feasible")}
    load = {name: row["load"] for name, row in found["hosts"].items()}
    return Shed(**told, load=load, notes=tuple(found.get("notes", ())))


def _completed(given: Planned, statistics: object) -> tuple[Network, Statistics]:
    """Return a network with the costs and selectivities that statistics, or their file, have for it, and those."""
    network, file = _network(given), None
    if statistics is None:
        return network, Statistics()
    if not isinstance(statistics, Statistics):
        file = _path(statistics, "statistics", "statistics or their file")
        statistics = read_statistics(file, network)
    with locating(file):
        return statistics.complete(network), statistics


def _network(given: Planned) -> Network:
    return given if isinstance(given, Network) else read_network(_path(given, "network", "a network or its file"))


def _cluster(hosts: Hosts, network: Network) -> Cluster:
    if isinstance(hosts, int | np.integer) and not isinstance(hosts, bool):
        if not 1 <= hosts <= 1_000_000:
            raise InputError(f"expected 1 to 1000000 hosts, got {hosts}", at="hosts")
        hosts = Cluster.uniform(int(hosts))
    elif not isinstance(hosts, Cluster):
        hosts = read_cluster(_path(hosts, "hosts", "a whole number of hosts, a cluster or its file"))
    network.check_hosts(hosts.hosts)
    return hosts


def _placement(given: Placed, network: Network, cluster: Cluster) -> Placement:
    if isinstance(given, Answer):
        given = given.placement
    if isinstance(given, Mapping):
        if not all(isinstance(name, str) for pair in given.items() for name in pair):
            raise InputError("expected names of hosts by names of operators", at="placement")
        placed = Placement(dict(given))
    else:
        placed = read_placement(_path(given, "placement", "hosts by operator, an answer of place, or a file"))
    return placed.check(network.operators, cluster.hosts, network.pins)


def _copies(algorithm: str, count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise InputError(f"expected a whole number, got {count!r}", at="replicas")
    return copies_of(algorithm, int(count))


def _rates(network: Network, given: Arriving) -> Rates:
    if isinstance(given, Rates):
        rates = given
    elif (columns := getattr(given, "items", None)) is not None:  # a data frame is no mapping, and has them
        rates = _by_source(dict(columns()))
    else:
        rates = read_rates(_path(given, "rates", "rates by source, or a file"))
    return begun(rates.check(network.sources), network)


def _by_source(given: Mapping[str, ArrayLike]) -> Rates:
    if not all(isinstance(name, str) for name in given):
        raise InputError("expected rates by names of sources", at="rates")
    try:
        rows = {name: np.atleast_1d(np.asarray(values, float)) for name, values in given.items()}
    except (TypeError, ValueError) as error:
        raise InputError(f"expected numbers: {error}", at="rates") from None
    length = max((row.size for row in rows.values()), default=0)
    length = 60 if length == 1 else length
    if any(row.ndim > 1 or row.size not in (1, length) for row in rows.values()):
        raise InputError("expected as many rates of every source", at="rates")
    return Rates.of(1.0, {name: np.resize(row, length) for name, row in rows.items()})


def _path(given: object, at: str, expected: str) -> Path:
    """Return what names a file, or holds its text, and refuse everything else."""
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"expected {expected}, got {type(given).__name__} {given!r}", at=at)
    return given


def _model(network: Network, rates: Arriving) -> LoadModel:
    return load_model(network, _rates(network, rates))


def _at(network: Network, rates: Mapping[str, float], name: str) -> Array:
    if not isinstance(rates, Mapping):
        raise InputError(f"expected rates by source, got {type(rates).__name__} {rates!r}", at=name)
    try:
        checked = Rates.constant(numbers(rates, name), 1.0).check(network.sources)
    except InputError as error:
        error.at = re.sub(r"^rates\b", name, error.at or name)
        raise
    return np.array([checked.of_source(name)[0] for name in network.sources])
