"""``penstock run``: run a placed network on Spark, and measure it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.cli import common, options
from penstock.cli.engines import make_room
from penstock.errors import EngineError, InputError, locating
from penstock.files import Document, write_json
from penstock.home import KEPT, run_folder

if TYPE_CHECKING:
    from penstock.cli.reading import Deployment
    from penstock.cluster import Cluster, Placement
    from penstock.load import Statistics
    from penstock.network import Network
    from penstock.running.job import Done, Job
    from penstock.shedding.live import Shedder
    from penstock.workload import Rates

DirectoryOption = Annotated[
    str | None,
    typer.Option(
        "--directory",
        metavar="DIR",
        help="Folder for checkpoints, state and logs between hosts; default .penstock/<network name>.",
    ),
]


PROMPT_PERIOD = 1.0
"""How often (s) a plan table is looked up in real-time mode, unless told otherwise."""


class InputOptions(NamedTuple):
    """What runs where, and what is expected to come in."""

    placement: Annotated[
        str | None, typer.Option("--placement", metavar="FILE|INLINE", help="Placement file, or a=h1,b=h2.")
    ] = None
    algorithm: options.AlgorithmOption = None
    rates: Annotated[
        str | None,
        typer.Option("--rates", metavar="FILE|INLINE", help="Expected rates; nexmark sources follow them."),
    ] = None
    duration: options.DurationOption = 60.0
    period: options.PeriodOption = 1.0

    def read(self, network: Network) -> Rates | None:
        """Read the expected rates, if there are any."""
        from penstock.cli import reading

        if self.rates is None:
            return None
        return reading.get_rates(network, self.rates, self.duration, self.period)


class DropOptions(NamedTuple):
    """What to drop."""

    keep: options.KeepOption = None
    plan: options.PlanOption = None
    control_period: Annotated[
        float | None,
        typer.Option(
            "--control-period",
            metavar="S",
            parser=options.span,
            help="How often to look up --plan (s); default: the trigger, in real-time mode 1 s.",
        ),
    ] = None


class EndOptions(NamedTuple):
    """When to stop, and what to write."""

    seconds: Annotated[
        float | None,
        typer.Option(
            "--for",
            metavar="SECONDS",
            parser=options.span,
            help="Stop after this time (s); default: when the sources end.",
        ),
    ] = None
    once: Annotated[bool, typer.Option("--once", help="Process what the sources hold now, then stop.")] = False
    directory: DirectoryOption = None
    learn: Annotated[
        str | None,
        typer.Option(
            "--learn", metavar="OUT.json", callback=options.output, help="Write the statistics, corrected by this run."
        ),
    ] = None
    report: Annotated[
        str | None,
        typer.Option("--report", metavar="OUT.json", callback=options.output, help="Also write the report here."),
    ] = None


def command(
    network: options.NetworkOptions,
    inputs: InputOptions,
    drop: DropOptions,
    end: EndOptions,
    answer: options.AnswerOptions,
) -> None:
    """Run a placed network on Spark, measure the latency of every row, and compare with the prediction.

    Example: penstock run examples/two-chains/network.toml --hosts 2
    --placement examples/two-chains/placement.json --for 60
    """
    from penstock.cli import reading
    from penstock.running.drift import YOUNG
    from penstock.running.job import Job, execute, finish
    from penstock.running.record import Record
    from penstock.workload.rates import joined

    _check(drop, end)
    count = 1 if network.hosts is None and network.cluster is None else network.hosts
    graph, known, cluster = deployed = reading.get_deployment(network._replace(hosts=count))
    _check_learned(end, graph, known)
    fractions = reading.get_keep(drop.keep, graph)
    expected = inputs.read(graph)
    # Spark's room is entered late: everything that is wrong in the files has been said by now.
    from penstock.spark import hosts, left
    from penstock.spark.compile import check_network
    from penstock.spark.run import Engine, scheduled_rates

    check_network(graph, cluster.spark)
    if expected is None and graph.scheduled:
        expected = joined({name: scheduled_rates(s) for name, s in graph.sources.items()})
    folder = run_folder(end.directory or cluster.spark.directory, graph.name)
    there = left.going_on(folder, graph)
    _check_outputs(end, folder)
    placed = _placed(deployed, inputs, there, folder)
    if placed is None:
        placed = reading.decide_placement(deployed, inputs.placement, inputs.algorithm, expected, answer.seed)
    _check_placed(graph, cluster, placed, drop, end)
    cluster = cluster.crowded(sorted(set(placed.values())), hosts.cores_here())
    job = Job(
        network=graph, cluster=cluster, placement=placed, folder=folder, rates=expected, keep=fractions,
        statistics=Record.of_user().applied(known, cluster), scheduled=inputs.rates is not None, once=end.once,
        shedder=_shedder(drop, graph, cluster, placed, known), seconds=end.seconds, seed=answer.seed,
        young=YOUNG * any(cluster.hosts[name].spark is None for name in placed.values()), teach=end.learn is not None,
    )  # fmt: skip
    told = _modes(graph, cluster, placed, end)
    make_room(folder)
    with common.ending_in_order() as asked, common.progress() as tell:
        tell("starting hosts", 0.0)
        with hosts.start_hosts(cluster, names=sorted(set(placed.values())), kept=KEPT) as running:
            outcome = execute(Engine(cluster, running), job, tell, common.say)
    done = finish(job, outcome, record=Record.of_user())
    document: Document = {**done.report, "directory": folder, **told}
    whole = _tell(end, job, done, document, json=answer.json)
    common.leave_if_asked(asked)
    if not whole:
        raise typer.Exit(1)


def _tell(end: EndOptions, job: Job, done: Done, document: Document, *, json: bool) -> bool:
    """Write the files that are wanted, and print the answer; return whether the run showed enough for statistics.

    Neither is lost with the other: the reader of the answer may leave, or a disk be full.
    """
    try:
        try:
            if end.report is not None:
                write_json(end.report, document)
        finally:
            enough = end.learn is None or _learn(job, done, end.learn)
    finally:
        (common.answer if json else show)(document)
    return enough


def _learn(job: Job, done: Done, out: str) -> bool:
    """Write the statistics of a job with what its run showed; return whether it showed enough."""
    from penstock.running.learned import learned
    from penstock.running.record import Record

    try:
        told = learned(job, done.outcome, done.rates)
    except EngineError as error:
        common.say(f"penstock: no: --learn {out}: not written, since this run tells too little: {error}")
        return False
    Record.of_user().applied(told, job.cluster).write(out)
    return True


def _check(drop: DropOptions, end: EndOptions) -> None:
    options.goes_with("--control-period", drop.control_period is not None, "--plan", drop.plan is not None)
    if drop.plan is not None and (drop.keep is not None or end.once):
        raise InputError(f"does not go with {'--keep' if drop.keep is not None else '--once'}", at="--plan")
    if end.seconds is not None and end.once:
        raise InputError("does not go with --once, which ends when all is delivered", at="--for")
    if end.seconds is not None and not 0 < end.seconds < 1e9:
        raise InputError(f"expected a time > 0 s, got {end.seconds}", at="--for")
    if end.learn is not None and (end.once or drop.plan is not None or drop.keep is not None):
        raise InputError("does not go with --once, --keep and --plan", at="--learn")


def _check_outputs(end: EndOptions, folder: str) -> None:
    from penstock.spark.left import check_output

    for at, path in (("--report", end.report), ("--learn", end.learn)):
        if path is not None:
            check_output(path, folder, at)


def _check_learned(end: EndOptions, network: Network, known: Statistics) -> None:
    if end.learn is not None and known.complete(network).unpriced:
        raise InputError("needs the cost of every operator", at="--learn", hint="pass --statistics from calibrate")


def _placed(deployed: Deployment, inputs: InputOptions, there: Document | None, folder: str) -> Placement | None:
    """Return where the operators of a run are that goes on, if nobody says where else."""
    from penstock.spark.left import placement_of

    if there is None or inputs.placement is not None or inputs.algorithm is not None:
        return None
    network, _, cluster = deployed
    with locating(folder):
        return placement_of(there).check(network.operators, cluster.hosts, network.pins)


def _check_placed(graph: Network, cluster: Cluster, placed: Placement, drop: DropOptions, end: EndOptions) -> None:
    from penstock.cluster import with_copies
    from penstock.spark.compile import check_placement

    check_placement(graph, placed, cluster.spark)
    if with_copies(placed):
        if drop.plan is not None:
            raise InputError(
                "copies do not follow a plan table", at="--plan", hint="penstock control sheds with copies"
            )
        if end.learn is not None:
            raise InputError("learns from operators without copies only", at="--learn", hint="place each once")


def _shedder(
    drop: DropOptions, network: Network, cluster: Cluster, placement: Placement, known: Statistics
) -> Shedder | None:
    if drop.plan is None:
        return None
    from penstock.latency.real_time import batched
    from penstock.shedding import read_table
    from penstock.shedding.live import Shed, Shedder
    from penstock.shedding.room import rooms, stale

    usual = PROMPT_PERIOD if cluster.spark.mode == "real-time" else cluster.spark.trigger
    period = usual if drop.control_period is None else drop.control_period
    table = read_table(drop.plan)
    shedder = Shedder.of(Shed(table=table, period=period), network, cluster, placement, None)
    # Hosts that penstock starts itself work in micro-batches, whether or not a file has said so.
    for line in stale(table, cluster, rooms(network, cluster, placement, known, batched(network, cluster.spark))):
        common.note(line)
    return shedder


def _modes(graph: Network, cluster: Cluster, placed: Placement, end: EndOptions) -> Document:
    """Say of each query of a cluster in real-time mode how it runs; return it for the report."""
    from penstock.latency.real_time import modes

    if cluster.spark.mode != "real-time":
        return {}
    found = modes(graph, placed, cluster.spark, once=end.once)
    if end.learn is not None and len({each.name for each in found}) > 1:
        why = next(each.says for each in found if each.why is not None)
        hint = "set mode = 'micro-batch' for that run"
        raise InputError(f"learns from runs in one mode, and here {why}", at="--learn", hint=hint)
    for each in found:
        common.say(each.says)
    rows = {
        each.query: {"host": each.host, "operators": list(each.operators), "mode": each.name, "why": each.why}
        for each in found
    }
    return {"queries": rows}


def show(document: Document) -> None:
    """Print a run's report for people: predicted beside measured, counts per stream."""
    from penstock.running.drift import Drift, in_short

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
    for line in in_short(Drift(**drift) for drift in document.get("drifts", ())):
        common.say(line)
    if document.get("down"):
        common.say(f"{', '.join(document['down'])} died; what ran there went on in its copies elsewhere")
    hosts = ", ".join(
        f"{name} busy {'unknown' if row['busy'] is None else format(row['busy'], '.0%')}"
        + (f", its core {row['core']:.2f} times as fast as calibrated" if "core" in row else "")
        for name, row in document["hosts"].items()
    )
    common.say(f"{hosts}; every row accounted for: {'yes' if document['balanced'] else 'no'}")
    if "runs" in document:
        common.say(f"all of this is over the folder's {document['runs']} runs, without the time between them")
    for note in document.get("notes", ()):
        common.say(f"note: {note}")


def show_latency(document: Document, sinks: Document) -> None:
    """Print latencies of a run's report, of all sinks and of some: predicted beside measured."""
    rows, spread, simulated = [], bool(document.get("draws")), "simulated" in document
    alike = "waited" not in document
    for name, row in [("all sinks", document), *sinks.items()]:
        measured, predicted, virtual = row["latency"], row.get("predicted"), row.get("simulated")
        for key in ("max", "p99", "p50", "mean"):
            guess = predicted[key] if predicted else None
            gap = f"{100 * (guess / measured[key] - 1):+.1f} %" if guess is not None and measured[key] and alike else ""
            beside = [virtual[key] if virtual else ""] if simulated else []
            shown, word = name if key == "max" else "", {"max": "worst"}.get(key, key)
            between = [common.between(pair)] if (pair := row.get("interval", {}).get(word)) else [""]
            rows.append([shown, word, *beside, guess, *(between if spread else []), measured[key], gap])
    columns = [
        "sink",
        "",
        *(["simulated"] if simulated else []),
        "predicted",
        *(["p05 to p95"] if spread else []),
        "measured",
        "difference",
    ]
    common.table("latency in seconds", columns, rows)
