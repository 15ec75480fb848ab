"""``penstock calibrate``: measure what operators cost on this Spark."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Annotated, NamedTuple

import attrs
import typer

from penstock.cli import common, options
from penstock.cli.run import InputOptions
from penstock.errors import InputError
from penstock.files import Document
from penstock.home import KEPT

if TYPE_CHECKING:
    from penstock.cluster import Cluster
    from penstock.load import Statistics
    from penstock.network import Network
    from penstock.running.prediction import Report
    from penstock.spark.run import Engine
    from penstock.workload import Rates


class SampleOptions(NamedTuple):
    """What is measured, and where."""

    sample: Annotated[
        str | None,
        typer.Option("--sample", metavar="DIR_OR_FILE", help="Sample rows of each source; default: its first rows."),
    ] = None
    cluster: options.ClusterOption = None
    host: Annotated[str | None, typer.Option("--host", metavar="H", help="Host of the cluster to measure on.")] = None


class PrecisionOptions(NamedTuple):
    """How well to measure."""

    error: Annotated[float, typer.Option("--error", metavar="E", help="Relative error to reach for each operator.")] = (
        0.02
    )
    budget: Annotated[
        float, typer.Option("--budget", metavar="S", parser=options.span, help="Time limit for each operator (s).")
    ] = 4.0


def command(
    network: options.NetworkArgument,
    sample: SampleOptions,
    wish: PrecisionOptions,
    inputs: InputOptions,
    answer: options.AnswerOptions,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", callback=options.output, help="Write the statistics here.")
    ] = None,
) -> None:
    """Measure every operator on sample rows: cost, selectivity and error; and a host's overhead per batch.

    With --rates also how hosts do with all that is placed on them, under bursts as high as these rates.

    Example: penstock calibrate examples/auction/network.toml --out statistics.json
    """
    from penstock.cli import reading
    from penstock.running.calibrating import said

    graph, _ = reading.get_network(network)
    cluster = reading.get_cluster(sample.cluster, None if sample.cluster is not None else 1, graph)
    name = sample.host or next(iter(cluster.hosts))
    if name not in cluster.hosts:
        raise InputError(f"{name!r} is no host of the cluster", at="--host")
    if not 0 < wish.error < 1 or not 0 < wish.budget < 1e6:
        raise InputError("expected an error between 0 and 1 and a budget > 0", at="--error")
    rates = inputs.read(graph)
    _check(graph, cluster, inputs)
    statistics = _measured(_Task(graph, cluster, name, sample.sample, wish, inputs, rates, answer.seed))
    for unseen in (name for name, row in statistics.operators.items() if row.tuples == 0):
        reached = "rows could meet in" if graph.operators[unseen].kind == "join" else "row reached"
        common.note(f"note: no sample {reached} operators.{unseen}: what it costs and lets through was not measured")
    if rates is None:
        common.note(
            "note: measured alone: what costs become on hosts that do more is not known, so that predictions have wide "
            "intervals; --rates measures it too, and so does penstock run --learn"
        )
    if out is not None:
        statistics.write(out)
    document = statistics.document()
    if answer.json:
        common.answer(document)
        return
    _show(graph.name, name, statistics)
    if rates is None:
        common.say(f"overhead of {name}: {statistics.hosts[name].overhead * 1000:.0f} ms a batch")
    else:
        common.say(said(statistics.measured))
        show_hosts(document)


@attrs.frozen
class _Task:
    """What is measured, on which host alone, and, with rates, in place."""

    network: Network
    cluster: Cluster
    host: str
    sample: str | None
    wish: PrecisionOptions
    inputs: InputOptions
    rates: Rates | None
    seed: int


def _measured(task: _Task) -> Statistics:
    """Start hosts and measure."""
    from penstock.running.record import Record
    from penstock.spark.calibrate import Precision, calibrate_alone, check_samples, measure_overhead, read_samples
    from penstock.spark.compile import check_network
    from penstock.spark.connection import Connection
    from penstock.spark.hosts import cores_here, start_hosts
    from penstock.spark.run import Engine

    check_network(task.network, task.cluster.spark)
    check_samples(task.network, task.sample)
    names = [task.host] if task.rates is None else list(task.cluster.hosts)
    cluster, part = task.cluster.crowded(names, cores_here()), 0.95 if task.rates is None else 0.4
    with common.progress() as tell:
        tell("starting host" if len(names) == 1 else "starting hosts", 0.0)
        with start_hosts(cluster, names=names, kept=KEPT) as running:
            engine = Engine(cluster, running)
            kafka = Connection.of(task.cluster.spark)
            samples = read_samples(
                engine.sessions[task.host], task.network, task.sample, kafka={} if kafka is None else kafka.spark
            )
            found = calibrate_alone(
                engine, task.host, task.network, samples, Precision(*task.wish),
                report=lambda what, share: tell(what, part * share),
            )  # fmt: skip
            if task.rates is None:
                tell("overhead", part)
                found = measure_overhead(engine, task.host, found)
            else:
                found = _in_place(engine, task, found, lambda what, share: tell(what, part + (1 - part) * share))
    return Record.of_user().applied(found, cluster)


def _check(network: Network, cluster: Cluster, inputs: InputOptions) -> None:
    """Refuse what cannot be measured in place."""
    if inputs.rates is None:
        if inputs.placement is not None or inputs.algorithm is not None:
            at = "--placement" if inputs.placement is not None else "--algorithm"
            raise InputError("measures in place, which takes the rates to come", at=at, hint="pass --rates")
        return
    hint = "penstock run --learn measures in place with the rows that come"
    for source in network.sources.values():
        if not source.scheduled:
            raise InputError(
                f"{source.name!r} brings its rows when they come, and not at given rates", at="--rates", hint=hint
            )
    if cluster.spark.mode == "real-time":
        raise InputError("in place micro-batches are measured", at="--rates", hint="set mode = 'micro-batch' for that")
    if inputs.placement is not None:
        from penstock.cli import reading
        from penstock.spark.compile import check_placement

        check_placement(network, reading.get_placement(inputs.placement, network, cluster), cluster.spark)


def _in_place(engine: Engine, task: _Task, alone: Statistics, tell: Report) -> Statistics:
    """Run bursts on all hosts; sinks keep nothing."""
    from penstock.cli import reading
    from penstock.network import Network
    from penstock.running.calibrating import calibrate_in_place
    from penstock.running.job import Job

    known, inputs = alone.complete(task.network, override=True), task.inputs
    deployed = reading.Deployment(known, alone, engine.cluster)
    placed = reading.decide_placement(deployed, inputs.placement, inputs.algorithm, task.rates, task.seed)
    sinks = [attrs.evolve(sink, format=None, options={}) for sink in task.network.sinks.values()]
    bare = Network.of(task.network.name, task.network.sources.values(), task.network.operators.values(), sinks)
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        return calibrate_in_place(engine, Job(bare, engine.cluster, placed, folder, rates=task.rates), alone, tell)


def show_hosts(document: Document) -> None:
    """Print what hosts add, as statistics that were measured in place tell it."""
    common.table(
        "in place",
        ["host", "overhead (s a batch)", "factor", "error"],
        [[name, row["overhead"], row["factor"], f"{row['error']:.1%}"] for name, row in document["hosts"].items()],
    )


def _show(network: str, name: str, statistics: Statistics) -> None:
    common.table(
        f"{network}: measured alone on {name}",
        ["operator", "cost (µs)", "selectivity", "grows as", "error", "rows"],
        [
            [
                o,
                common.microseconds(attrs.asdict(row)),
                None if row.selectivity is None else max(row.selectivity),
                "" if row.growth is None else f"rate^{row.growth.exponent:.2g}",
                f"{row.error:.1%}",
                row.tuples,
            ]
            for o, row in statistics.operators.items()
        ],
    )
