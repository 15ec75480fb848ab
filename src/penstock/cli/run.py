"""``penstock run``: run a placed network on Spark, and measure it."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from penstock.cli import common
from penstock.errors import InputError

DirectoryOption = Annotated[
    str | None,
    typer.Option(
        "--directory",
        metavar="DIR",
        help="Folder for checkpoints, state and logs between hosts; default .penstock/<network name>.",
    ),
]


def command(
    network: common.NetworkArgument,
    cluster_file: common.ClusterOption = None,
    hosts: common.HostsOption = None,
    placement: Annotated[
        str | None, typer.Option("--placement", metavar="FILE|INLINE", help="Placement file, or a=h1,b=h2.")
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option("--algorithm", metavar="A", help="Placement algorithm; default: correlation.")
    ] = None,
    statistics: common.StatisticsOption = None,
    rates: Annotated[
        str | None,
        typer.Option("--rates", metavar="FILE|INLINE", help="Expected rates; nexmark sources follow them."),
    ] = None,
    duration: common.DurationOption = 60.0,
    period: common.PeriodOption = 1.0,
    keep: common.KeepOption = None,
    plan: common.PlanOption = None,
    control_period: Annotated[
        float | None,
        typer.Option("--control-period", metavar="S", help="How often to look up --plan (s); default: the trigger."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--for", metavar="SECONDS", help="Stop after this time (s); default: when the sources end."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Process what the sources hold now, then stop.")] = False,
    directory: DirectoryOption = None,
    learn: Annotated[
        str | None,
        typer.Option("--learn", metavar="OUT.json", help="Write the statistics, corrected by this run."),
    ] = None,
    report: Annotated[
        str | None, typer.Option("--report", metavar="OUT.json", help="Also write the report here.")
    ] = None,
    seed: common.SeedOption = 0,
    json: common.JsonOption = False,
) -> None:
    """Run a placed network on Spark, measure the latency of every row, and compare with the prediction.

    Example: penstock run examples/auction/network.toml --hosts 2 --algorithm correlation --for 60
    """
    from penstock.cli import reading
    from penstock.control import chain
    from penstock.control.job import Job, execute, finish

    if plan is not None and (keep is not None or once):
        raise InputError(f"does not go with {'--keep' if keep is not None else '--once'}", at="--plan")
    if seconds is not None and not 0 < seconds < 1e9:
        raise InputError(f"expected a time > 0 s, got {seconds}", at="--for")
    graph, known = reading.get_network(network, statistics)
    if learn is not None and (once or plan is not None or keep is not None):
        raise InputError("does not go with --once, --keep and --plan", at="--learn")
    if learn is not None and not chain.priced(graph, known):
        raise InputError("needs the cost of every operator", at="--learn", hint="pass --statistics from calibrate")
    cluster = reading.get_cluster(cluster_file, hosts if hosts is not None or cluster_file is not None else 1, graph)
    fractions = reading.get_keep(keep, graph)
    expected = reading.get_rates(graph, rates, duration, period) if rates is not None else None
    # Spark's room is entered late: everything that is wrong in the files has been said by now.
    from penstock.spark.compile import check_network, check_placement
    from penstock.spark.hosts import start_hosts
    from penstock.spark.hosts.cores import available_cpus
    from penstock.spark.run import Engine, claimed, placement_of, scheduled_rates

    check_network(graph, cluster.spark)
    if expected is None and graph.scheduled:
        expected = reading.joined_rates({name: scheduled_rates(s.options, name) for name, s in graph.sources.items()})
    folder = chain.where(directory or cluster.spark.directory, graph)
    there = claimed(folder)
    if placement is None and algorithm is None and there is not None:
        placed = placement_of(there).check(graph.operators, cluster.hosts)
    else:
        placed = reading.decide_placement(graph, cluster, placement, algorithm, expected, seed)
    check_placement(placed)
    cluster = cluster.crowded(sorted(set(placed.values())), len(available_cpus()) or os.cpu_count() or 1)
    shedder = None
    if plan is not None:
        from penstock.shedding import read_table
        from penstock.shedding.live import Shed, Shedder

        table = Shed(table=read_table(plan), period=cluster.spark.trigger if control_period is None else control_period)
        shedder = Shedder.of(table, graph, cluster, placed, None)
    job = Job(
        network=graph,
        cluster=cluster,
        placement=placed,
        folder=folder,
        statistics=known,
        rates=expected,
        scheduled=rates is not None,
        keep=fractions,
        shedder=shedder,
        seconds=seconds,
        once=once,
        seed=seed,
    )
    with common.progress() as tell:
        tell("starting hosts", 0.0)
        with start_hosts(cluster, names=sorted(set(placed.values()))) as running:
            outcome = execute(Engine(cluster, running), job, tell, lambda drift: common.say(drift.says))
    done = finish(job, outcome)
    document: dict[str, Any] = done.report
    document["directory"] = folder
    if report is not None:
        common.write_document(report, document)
    if learn is not None:
        chain.learned(graph, cluster, placed, outcome, done.rates, known).write(learn)
    if json:
        common.answer(document)
        return
    show(document)


def show(document: dict[str, Any]) -> None:
    """Print a run's report for people: predicted beside measured, counts per stream."""
    from penstock.control.forecast import Drift

    show_latency(document, document["sinks"])
    counted = ["arrived", "delivered", "dropped"]
    counted += ["late"] if any(row["late"] for row in document["streams"].values()) else []
    common.table(
        "streams: rows",
        ["stream", *counted],
        [[name, *(row[key] for key in counted)] for name, row in document["streams"].items()],
    )
    if "plan" in document:
        common.show_plan(document["plan"])
    for drift in document.get("drifts", ()):
        common.say(Drift(**drift).says)
    hosts = ", ".join(
        f"{name} busy {row['busy']:.0%}"
        + (f", its core {row['core']:.2f} times as fast as calibrated" if "core" in row else "")
        for name, row in document["hosts"].items()
    )
    common.say(f"{hosts}; every row accounted for: {'yes' if document['balanced'] else 'no'}")


def show_latency(document: dict[str, Any], sinks: dict[str, Any]) -> None:
    """Print latencies of a run's report, of all sinks and of some: predicted beside measured."""
    rows, spread = [], bool(document.get("draws"))
    for name, row in [("all sinks", document), *sinks.items()]:
        measured, predicted, virtual = row["latency"], row.get("predicted"), row.get("simulated")
        for key in ("max", "p99", "p50", "mean"):
            guess = predicted[key] if predicted else None
            gap = f"{100 * (guess / measured[key] - 1):+.1f} %" if guess is not None and measured[key] else ""
            beside = [virtual[key]] if virtual else []
            shown, word = name if key == "max" else "", {"max": "worst"}.get(key, key)
            between = [common.between(row["interval"][word])] if "interval" in row else [""]
            rows.append([shown, word, *beside, guess, *(between if spread else []), measured[key], gap])
    beside = ["simulated"] if "simulated" in document else []
    columns = ["sink", "", *beside, "predicted", *(["p05 to p95"] if spread else []), "measured", "difference"]
    common.table("latency in seconds", columns, rows)
