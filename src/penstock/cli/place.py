"""``penstock place``."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.cli import common, options
from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock.load import LoadModel
    from penstock.placement import Answer


class AlgorithmOptions(NamedTuple):
    """What decides, what for, and in how many parts."""

    algorithm: Annotated[str, typer.Option("--algorithm", metavar="NAME", help="Placement algorithm.")] = "correlation"
    objective: Annotated[
        str | None,
        typer.Option("--objective", metavar="NAME", help="latency, balance, potential or hosts."),
    ] = None
    weights: Annotated[str, typer.Option("--weights", metavar="W", help="Weights of the potential objective.")] = (
        "load=1,correlation=1,network=1"
    )
    overload: Annotated[
        str | None,
        typer.Option(
            "--overload",
            metavar="allow|soft",
            help="Return the best placement even where none keeps quotas and bandwidths; soft: quotas only guide.",
        ),
    ] = None
    replicas: Annotated[
        int, typer.Option("--replicas", metavar="R", help="Copies of each operator; 0: as the algorithm needs.")
    ] = 0
    domains: Annotated[
        int,
        typer.Option(
            "--domains", metavar="D", help="Divide the cluster into D domains, and place each by itself first."
        ),
    ] = 1
    overlap: Annotated[
        float, typer.Option("--overlap", metavar="S", help="Share of the next domain's hosts that each domain may use.")
    ] = 0.0
    group_below: Annotated[
        float, typer.Option("--group-below", metavar="L", help="Place operators of less load (cores) in groups.")
    ] = 0.0
    tighten: Annotated[
        int, typer.Option("--tighten", metavar="N", help="Raise the lower bound of the latency by N linear programs.")
    ] = 0


class PreviousOptions(NamedTuple):
    """What need not move."""

    previous: Annotated[
        str | None, typer.Option("--previous", metavar="FILE|INLINE", help="Current placement, to be improved.")
    ] = None
    theta: Annotated[
        float, typer.Option("--theta", metavar="T", help="Share of the operators, lightest first, that stay.")
    ] = 0.0
    move_cost: Annotated[
        float,
        typer.Option(
            "--move-cost", metavar="C", help="What moving one benchmark core of load costs, in units of the objective."
        ),
    ] = 0.0


class TuningOptions(NamedTuple):
    """Parameters of single algorithms."""

    restarts: Annotated[int | None, typer.Option("--restarts", metavar="K", help="mace-climb: how many starts.")] = None
    budget: Annotated[
        int | None, typer.Option("--budget", metavar="N", help="mace-climb: how many exchanges it may try.")
    ] = None
    seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="S", parser=options.span, help="mace-climb: time limit (s).")
    ] = None
    load_threshold: Annotated[
        float | None,
        typer.Option(
            "--load-threshold", metavar="D", help="correlation: difference of two hosts' loads that it evens out."
        ),
    ] = None
    score_threshold: Annotated[
        float | None,
        typer.Option(
            "--score-threshold", metavar="S", help="correlation-exchange: score above which it moves an operator."
        ),
    ] = None
    improvement_threshold: Annotated[
        float | None,
        typer.Option(
            "--improvement-threshold", metavar="R", help="correlation: correlation of hosts that is good enough."
        ),
    ] = None

    def parameters(self) -> dict[str, float]:
        """Return those that are there."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def command(
    network: options.NetworkOptions,
    rates: options.RatesOptions,
    wish: AlgorithmOptions,
    before: PreviousOptions,
    tuning: TuningOptions,
    answer: options.AnswerOptions,
) -> None:
    """Decide which operator runs on which host.

    Example: penstock place examples/two-chains/network.toml --hosts 2 --rates clicks=100,buys=20
    """
    import numpy as np

    from penstock.cli import reading
    from penstock.load.summary import host_shares
    from penstock.placement import Divided, Problem, Terms, Weights, copies_of, place, prepare

    graph, known, cluster = reading.get_deployment(network)
    model = reading.get_model(graph, *rates, known)
    if wish.overload not in (None, "allow", "soft"):
        raise InputError(f"expected allow or soft, got {wish.overload!r}", at="--overload")
    copies = copies_of(wish.algorithm, wish.replicas)
    previous = None if before.previous is None else reading.get_placement(before.previous, graph, cluster)
    parameters = tuning.parameters()
    problem = Problem.of(model, cluster, known, previous, copies)
    if problem.cluster is not cluster:
        common.note("note: capacities are those that hosts have by their factors in the statistics: capacity / factor")
    prepare(problem, wish.algorithm, **parameters)
    start = time.perf_counter()
    terms = Terms(
        measure=wish.objective,
        weights=Weights.parse(wish.weights),
        theta=before.theta,
        divided=Divided(domains=wish.domains, overlap=wish.overlap, least=wish.group_below),
        move_cost=before.move_cost,
        overload=wish.overload is not None,
        soft=wish.overload == "soft",
        tighten=wish.tighten,
    )
    found = place(problem, wish.algorithm, np.random.default_rng(answer.seed), terms, **parameters)
    seconds = time.perf_counter() - start
    rows = host_shares(model, found.placement, problem.cluster)
    if answer.json:
        common.answer({"algorithm": wish.algorithm, **found.document(), "hosts": rows, "seconds": seconds})
        return
    _show(wish.algorithm, found, model)
    common.show_hosts(rows)
    for sentence in found.over:
        common.say(sentence)
    # Latency is what overload makes rows wait: `estimate` adds what batches and services take.
    what, unit = ("wait through overload: latency", " s") if found.objective == "latency" else (found.objective, "")
    value = "not told, for some host is over its quota" if math.isinf(found.value) else f"{found.value:.4g}{unit}"
    least = "" if found.bound is None else f" (no placement is below {found.bound:.4g}{unit})"
    moves = f"; {len(found.moved)} operators moved, load {found.moved_load:.4g}" if previous is not None else ""
    typer.echo(f"{what} {value}{least}{moves}; found in {seconds * 1000:.1f} ms")


def _show(algorithm: str, answer: Answer, model: LoadModel) -> None:
    from penstock.cluster import base_name

    load = dict(zip(model.network.operators, model.mean_load, strict=True))
    common.table(
        f"{model.network.name}: placed by {algorithm}",
        ["operator", "host", "load", "moved"],
        [
            [name, host, float(load[base_name(name)]), "yes" if name in answer.moved else ""]
            for name, host in answer.placement.items()
        ],
    )
