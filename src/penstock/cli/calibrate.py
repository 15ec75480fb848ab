"""``penstock calibrate``: measure what operators cost on this Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import attrs
import typer

from penstock.cli import common, options
from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock.load import Statistics


class SampleOptions(NamedTuple):
    """What is measured, and where."""

    sample: Annotated[
        str | None,
        typer.Option(
            "--sample", metavar="DIR_OR_FILE", help="Sample rows of each source; nexmark sources make their own."
        ),
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
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", callback=options.output, help="Write the statistics here.")
    ] = None,
    json: options.JsonOption = False,
) -> None:
    """Measure every operator on sample rows: cost, selectivity and error; and a host's overhead per batch.

    Example: penstock calibrate examples/auction/network.toml --out statistics.json
    """
    from penstock.cli import reading
    from penstock.control.record import Record

    graph, _ = reading.get_network(network)
    cluster = reading.get_cluster(sample.cluster, None if sample.cluster is not None else 1, graph)
    name = sample.host or next(iter(cluster.hosts))
    if name not in cluster.hosts:
        raise InputError(f"{name!r} is no host of the cluster", at="--host")
    if not 0 < wish.error < 1 or not 0 < wish.budget < 1e6:
        raise InputError("expected an error between 0 and 1 and a budget > 0", at="--error")
    from penstock.spark.calibrate import Precision, calibrate_alone, measure_overhead, read_samples
    from penstock.spark.compile import check_network
    from penstock.spark.hosts import start_hosts
    from penstock.spark.run import Engine

    check_network(graph, cluster.spark)
    with common.progress() as tell:
        tell("starting host", 0.0)
        with start_hosts(cluster, names=[name]) as running:
            engine = Engine(cluster, running)
            samples = read_samples(engine.sessions[name], graph, sample.sample)
            statistics = calibrate_alone(engine, name, graph, samples, Precision(*wish), report=tell)
            tell("overhead", 0.95)
            statistics = Record.of_user().applied(measure_overhead(engine, name, statistics), cluster)
    for unseen in (name for name, row in statistics.operators.items() if row.tuples == 0):
        common.note(f"note: no sample row reached operators.{unseen}: what it costs and lets through was not measured")
    if out is not None:
        statistics.write(out)
    document = statistics.document()
    if json:
        common.answer(document)
        return
    _show(graph.name, name, statistics)


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
    common.say(f"overhead of {name}: {statistics.hosts[name].overhead * 1000:.0f} ms a batch")
