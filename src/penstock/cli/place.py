"""``penstock place``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import common, options

if TYPE_CHECKING:
    from penstock.load import LoadModel
    from penstock.placement import Answer


def command(
    network: options.NetworkArgument,
    rates: options.RatesOption,
    algorithm: Annotated[str, typer.Option("--algorithm", metavar="NAME", help="Placement algorithm.")] = "correlation",
    cluster_file: options.ClusterOption = None,
    hosts: options.HostsOption = None,
    previous: Annotated[
        str | None, typer.Option("--previous", metavar="FILE|INLINE", help="Current placement, to be improved.")
    ] = None,
    theta: Annotated[
        float, typer.Option("--theta", metavar="T", help="Share of the operators, lightest first, that stay.")
    ] = 0.0,
    replicas: Annotated[
        int, typer.Option("--replicas", metavar="R", help="Copies of each operator; 0: as the algorithm needs.")
    ] = 0,
    restarts: Annotated[
        int | None, typer.Option("--restarts", metavar="K", help="mace-climb: how many starts.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", metavar="N", help="mace-climb: how many exchanges it may try.")
    ] = None,
    limit: Annotated[float | None, typer.Option("--seconds", metavar="S", help="mace-climb: time limit (s).")] = None,
    load_threshold: Annotated[
        float | None,
        typer.Option(
            "--load-threshold", metavar="D", help="correlation: difference of two hosts' loads that it evens out."
        ),
    ] = None,
    score_threshold: Annotated[
        float | None,
        typer.Option(
            "--score-threshold", metavar="S", help="correlation-exchange: score above which it moves an operator."
        ),
    ] = None,
    improvement_threshold: Annotated[
        float | None,
        typer.Option(
            "--improvement-threshold", metavar="R", help="correlation: correlation of hosts that is good enough."
        ),
    ] = None,
    overload: Annotated[
        str | None,
        typer.Option(
            "--overload",
            metavar="allow|soft",
            help="Return the best placement even where none keeps the quotas; soft: quotas only guide.",
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option("--objective", metavar="NAME", help="latency, balance, potential or hosts."),
    ] = None,
    domains: Annotated[
        int,
        typer.Option(
            "--domains", metavar="D", help="Divide the cluster into D domains, and place each by itself first."
        ),
    ] = 1,
    overlap: Annotated[
        float, typer.Option("--overlap", metavar="S", help="Share of the next domain's hosts that each domain may use.")
    ] = 0.0,
    group_below: Annotated[
        float, typer.Option("--group-below", metavar="L", help="Place operators of less load (cores) in groups.")
    ] = 0.0,
    weights: Annotated[
        str, typer.Option("--weights", metavar="W", help="Weights of the potential objective.")
    ] = "load=1,correlation=1,network=1",
    move_cost: Annotated[
        float,
        typer.Option(
            "--move-cost", metavar="C", help="What moving one benchmark core of load costs, in units of the objective."
        ),
    ] = 0.0,
    tighten: Annotated[
        int, typer.Option("--tighten", metavar="N", help="Raise the lower bound of the latency by N linear programs.")
    ] = 0,
    statistics: options.StatisticsOption = None,
    duration: options.DurationOption = 60.0,
    period: options.PeriodOption = 1.0,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Decide which operator runs on which host.

    Example: penstock place examples/two-chains/network.toml --hosts 2 --rates clicks=100,buys=20
    """
    import numpy as np

    from penstock.cli import reading
    from penstock.cluster import Placement
    from penstock.errors import InputError
    from penstock.load import expand_replicas
    from penstock.placement import ALGORITHMS, Divided, Problem, Weights, place, prepare

    graph, _ = reading.get_network(network, statistics)
    cluster = reading.get_cluster(cluster_file, hosts, graph)
    model = reading.get_model(graph, rates, duration, period)
    if seed < 0:
        raise InputError(f"expected a seed of at least 0, got {seed}", at="--seed")
    row = ALGORITHMS.get(algorithm)
    copies = replicas or (2 if row is not None and row.replicas == "apart" else 1)
    if replicas < 0:
        raise InputError(f"expected at least 1 copy of each operator, got {replicas}", at="--replicas")
    before = None
    if previous is not None:
        before = reading.get_placement(previous, graph, cluster)
        wanted = set(expand_replicas(graph, copies))
        before = Placement({name: host for name, host in before.items() if name in wanted})
    if overload not in (None, "allow", "soft"):
        raise InputError(f"expected allow or soft, got {overload!r}", at="--overload")
    given = {
        "restarts": restarts,
        "budget": budget,
        "seconds": limit,
        "balance": load_threshold,
        "score": score_threshold,
        "threshold": improvement_threshold,
    }
    parameters: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    problem = Problem(model, cluster, before, graph.pins, copies)
    prepare(problem, algorithm, **parameters)
    start = time.perf_counter()
    answer = place(
        problem,
        algorithm,
        np.random.default_rng(seed),
        measure=objective,
        weights=Weights.parse(weights),
        theta=theta,
        divided=Divided(domains=domains, overlap=overlap, least=group_below),
        move_cost=move_cost,
        overload=overload is not None,
        soft=overload == "soft",
        tighten=tighten,
        **parameters,
    )
    seconds = time.perf_counter() - start
    rows = reading.host_rows(model, answer.placement, cluster)
    if json:
        common.answer(
            {
                "algorithm": algorithm,
                "feasible": not answer.over,
                **({"reason": "; ".join(answer.over)} if answer.over else {}),
                "placement": dict(answer.placement),
                "hosts": rows,
                "objective": {"name": answer.objective, "value": answer.value, "lower_bound": answer.bound},
                "moved": list(answer.moved),
                "moved_load": answer.moved_load,
                "seconds": seconds,
            }
        )
        return
    _show(algorithm, answer, model, rows)
    for sentence in answer.over:
        common.say(sentence)
    least = "" if answer.bound is None else f" (no placement is below {answer.bound:.4g})"
    moves = f"; {len(answer.moved)} operators moved, load {answer.moved_load:.4g}" if before is not None else ""
    typer.echo(f"{answer.objective} {answer.value:.4g}{least}{moves}; {seconds * 1000:.1f} ms")


def _show(algorithm: str, answer: Answer, model: LoadModel, rows: dict[str, dict[str, float]]) -> None:
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
    common.table(
        "hosts: load as a share of capacity",
        ["host", "mean", "std", "max"],
        [[name, share["mean"], share["std"], share["max"]] for name, share in rows.items()],
    )
