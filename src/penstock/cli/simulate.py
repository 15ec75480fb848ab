"""``penstock simulate``: the placed network in virtual time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import attrs
import typer

from penstock.cli import common, options
from penstock.errors import InputError
from penstock.files import Document, file_of
from penstock.units import spoken

if TYPE_CHECKING:
    from penstock.cluster import Cluster, Placement
    from penstock.latency.batches import BatchHosts
    from penstock.load import Statistics
    from penstock.network import Network
    from penstock.simulation import Arrivals, MicroBatch, Options, Shed, Steering
    from penstock.workload import Rates

T = TypeVar("T")


class InputOptions(NamedTuple):
    """What runs where, and what comes in."""

    placement: options.PlacementOption
    rates: Annotated[
        str | None, typer.Option("--rates", metavar="FILE|INLINE", help="Rates file, or clicks=100,bids=50.")
    ] = None
    arrivals: Annotated[
        str | None, typer.Option("--arrivals", metavar="FILE", help="Single rows instead of rates: time,source[,work].")
    ] = None
    duration: Annotated[
        float | None,
        typer.Option(
            "--duration", metavar="S", parser=options.span, help="End of the run (s); default: with the input, or 60."
        ),
    ] = None
    period: options.PeriodOption = 1.0


class HostOptions(NamedTuple):
    """How hosts work."""

    policy: Annotated[
        str, typer.Option("--policy", help="What a host serves next: fcfs, stimulus, round-robin or longest-queue.")
    ] = "fcfs"
    subinterval: Annotated[
        float,
        typer.Option(
            "--subinterval",
            metavar="S",
            parser=options.span,
            help="With stimulus: serve those of one subinterval (s) in turn.",
        ),
    ] = 0.0
    queue: Annotated[
        int | None, typer.Option("--queue", metavar="N", help="Most rows that may wait at an operator's input.")
    ] = None
    trigger: Annotated[
        float | None,
        typer.Option(
            "--trigger", metavar="S", parser=options.span, help="Hosts work in micro-batches with this trigger (s)."
        ),
    ] = None
    overhead: Annotated[
        float | None,
        typer.Option(
            "--overhead",
            metavar="S",
            parser=options.span,
            help="Fixed time of a micro-batch (s); default: from the statistics, or 0.",
        ),
    ] = None
    progressive: Annotated[
        bool, typer.Option("--progressive", help="A micro-batch puts rows out evenly, not at its end.")
    ] = False


class EventOptions(NamedTuple):
    """What happens to hosts, operators and streams during the run."""

    keep: options.KeepOption = None
    plan: options.PlanOption = None
    control_period: Annotated[
        float,
        typer.Option("--control-period", metavar="S", parser=options.span, help="How often to look up --plan (s)."),
    ] = 1.0
    fail: Annotated[
        list[str] | None, typer.Option("--fail", metavar="HOST@S", help="A host fails; may be repeated.")
    ] = None
    recover: Annotated[
        list[str] | None, typer.Option("--recover", metavar="HOST@S", help="A host recovers; may be repeated.")
    ] = None
    move: Annotated[
        list[str] | None, typer.Option("--move", metavar="OP:HOST@S", help="An operator moves; may be repeated.")
    ] = None
    move_time: Annotated[
        float,
        typer.Option("--move-time", metavar="S", parser=options.span, help="How long a moving operator pauses (s)."),
    ] = 0.0
    move_time_per_tuple: Annotated[
        float,
        typer.Option(
            "--move-time-per-tuple",
            metavar="S",
            parser=options.span,
            help="Additional pause for each row in its queue (s).",
        ),
    ] = 0.0


class RebalanceOptions(NamedTuple):
    """Who moves operators, by what is observed."""

    rebalance: Annotated[
        str | None,
        typer.Option(
            "--rebalance", metavar="ALGORITHM", help="Move operators by what is observed, e.g. correlation-exchange."
        ),
    ] = None
    every: Annotated[
        float | None,
        typer.Option("--every", metavar="S", parser=options.span, help="How often --rebalance decides (s); default 1."),
    ] = None
    window: Annotated[
        int | None, typer.Option("--window", metavar="K", help="How many samples a decision reads; default 10.")
    ] = None
    sample: Annotated[
        float | None,
        typer.Option("--sample", metavar="S", parser=options.span, help="Length of a sample (s); default: as --every."),
    ] = None
    initial: Annotated[
        str | None,
        typer.Option("--initial", metavar="ALGORITHM", help="Distribute all operators once, after the warm-up."),
    ] = None
    theta: Annotated[
        float | None, typer.Option("--theta", metavar="T", help="Share of the operators, lightest first, that stay.")
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights", metavar="W", help="Weights of the potential objective, as load=1,correlation=1,network=1."
        ),
    ] = None


class RunOptions(NamedTuple):
    """How to run, and what to write."""

    warmup: Annotated[
        float,
        typer.Option(
            "--warmup",
            metavar="S",
            parser=options.span,
            help="Leave this much time at the start out of latency and wait (s).",
        ),
    ] = 0.0
    drain: Annotated[bool, typer.Option("--drain", help="Continue after the input until the system is empty.")] = False
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace",
            metavar="OUT.csv",
            callback=options.output,
            help="Write every row at the sinks: sink,stimulus,egress.",
        ),
    ] = None
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot", metavar="OUT.png", callback=options.picture, help="Draw latency, rows and hosts over time."
        ),
    ] = None
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", help="Independent runs, with seeds SEED, SEED + 1, …")
    ] = 1
    on_spark: Annotated[bool, typer.Option("--on-spark", help="Do the runs in a Spark job.")] = False
    seed: options.SeedOption = 0
    json: options.JsonOption = False

    def check(self) -> None:
        """Refuse no runs, and pictures or rows of several."""
        if self.repeat < 1:
            raise InputError(f"expected at least one run, got {self.repeat}", at="--repeat")
        several = "--on-spark" if self.on_spark else "--repeat" if self.repeat > 1 else None
        for option, path in (("--trace", self.trace), ("--plot", self.plot)):
            if several is not None and path is not None:
                raise InputError(f"is of a single run: does not go with {several}", at=option)


def command(
    network: options.NetworkOptions,
    inputs: InputOptions,
    work: HostOptions,
    events: EventOptions,
    moved: RebalanceOptions,
    run: RunOptions,
) -> None:
    """Run the placed network in virtual time: latency, queues, and what became of every row.

    Example: penstock simulate examples/two-chains/network.toml --hosts 2 --rates clicks=100,buys=20
    --placement examples/two-chains/placement.json
    """
    from penstock.cli import reading
    from penstock.latency.batches import BatchHosts
    from penstock.running import virtual
    from penstock.simulation import Job, Options

    run.check()
    _must_fit(events, moved)
    graph, known, cluster = reading.get_deployment(network)
    placed = reading.get_placement(inputs.placement, graph, cluster)
    arrivals = _arrivals(inputs, graph)
    shed = _shed(events, work, known, network=graph, cluster=cluster, placement=placed)
    pace = _fixed(BatchHosts.of(known, cluster), work.overhead)
    batches, cluster = _batched(work, known, graph, cluster, placed)
    settings = Options(
        policy=work.policy,
        subinterval=work.subinterval,
        duration=inputs.duration,
        warmup=run.warmup,
        queue=work.queue,
        keep=reading.get_keep(events.keep, graph, copies=True),
        drain=run.drain,
        move_time=events.move_time,
        move_time_per_tuple=events.move_time_per_tuple,
        shed=shed,
        steer=_steering(moved, run.warmup),
        microbatch=batches,
        **_events(events),
    )
    _note_late(settings, arrivals)
    began = time.perf_counter()
    job, seeds = Job(graph, cluster, placed, arrivals, settings), range(run.seed, run.seed + run.repeat)
    try:
        if run.repeat > 1 or run.on_spark:
            results = virtual.several(job, seeds, on_spark=run.on_spark)
        else:
            with common.progress() as tell:
                results = [virtual.once(job, run.seed, tell, run.trace, run.plot)]
    except InputError as error:
        source = {**inputs._asdict(), **events._asdict()}.get(str(error.at).partition(".")[0])
        raise error.located(file_of(source) if isinstance(source, str) else None) from None
    seconds = time.perf_counter() - began
    batched = None if batches is None else attrs.evolve(pace, trigger=batches.trigger, progressive=batches.progressive)
    document = {**virtual.report(job, results, seeds, batched), "seconds": seconds}
    if run.json:
        common.answer(document)
        return
    _print(document)


def _arrivals(inputs: InputOptions, network: Network) -> Rates | Arrivals:
    from penstock.cli import reading
    from penstock.simulation import read_arrivals

    if (inputs.rates is None) == (inputs.arrivals is None):
        raise InputError("expected one of --rates and --arrivals", at="--rates")
    if inputs.rates is None:
        return read_arrivals(str(inputs.arrivals))
    # Of rates in a file it only ends the run.
    duration = None if file_of(inputs.rates) else inputs.duration
    duration = options.DURATION if duration is None else duration
    return reading.given_rates(network, inputs.rates, duration, inputs.period)


def _events(given: EventOptions) -> Document:
    from penstock.simulation import Failure, Move, Recovery

    def moved(what: str, at: float) -> Move:
        operator, colon, host = what.rpartition(":")
        if not (colon and operator and host):
            raise InputError(f"expected OPERATOR:HOST@SECONDS, got {what!r}", at="--move", hint="e.g. views:h2@30")
        return Move(operator, host, at)

    return {
        "failures": _timed(given.fail, "--fail", Failure),
        "recoveries": _timed(given.recover, "--recover", Recovery),
        "moves": _timed(given.move, "--move", moved),
    }


def _timed(given: list[str] | None, option: str, make: Callable[[str, float], T]) -> tuple[T, ...]:
    made = []
    for item in (part.strip() for text in given or () for part in text.split(",")):
        what, at, when = item.rpartition("@")
        if not (what and at and when.strip()):
            raise InputError(f"expected …@SECONDS, got {item!r}", at=option, hint="e.g. h1@10")
        try:
            number = spoken(when.strip())
        except InputError as error:
            raise InputError(error.problem, at=option, hint="e.g. h1@10 or 'h1@500 ms'") from None
        made.append(make(what.strip(), number))
    return tuple(made)


def _shed(
    given: EventOptions,
    work: HostOptions,
    known: Statistics,
    *,
    network: Network,
    cluster: Cluster,
    placement: Placement,
) -> Shed | None:
    """Return who follows a plan table, if there is one; say if it fills hosts more than batches leave."""
    if given.plan is None:
        return None
    from penstock.shedding import read_table
    from penstock.shedding.room import rooms, stale
    from penstock.simulation import Shed

    table = read_table(given.plan)
    if work.trigger is not None and work.overhead is None:
        batched = attrs.evolve(cluster, spark=attrs.evolve(cluster.spark, trigger=work.trigger))
        for line in stale(table, cluster, rooms(network, batched, placement, known, network.operators)):
            common.note(f"note: {line}")
    return Shed(table=table, period=given.control_period, cluster=cluster)


def _end(arrivals: Rates | Arrivals, duration: float | None) -> float:
    """Return when the input ends, and with it a run that does not drain (s)."""
    from penstock.workload import Rates

    if duration is not None:
        return duration
    return arrivals.duration if isinstance(arrivals, Rates) else float(arrivals.times[-1])


def _note_late(settings: Options, arrivals: Rates | Arrivals) -> None:
    """Note what comes to nothing since the run is over by then: a warm-up, and events."""
    from penstock.workload import Rates

    end, start = _end(arrivals, settings.duration), arrivals.start if isinstance(arrivals, Rates) else 0.0
    if settings.drain:
        return
    if 0 < settings.warmup >= end:
        common.note(f"note: --warmup lasts until the run ends at {end:.6g} s: no latency is measured")
    since = f"; times count from the beginning of the rates, which is {start:.15g} in their file" if start else ""
    times = {
        "--fail": [event.at for event in settings.failures],
        "--recover": [event.at for event in settings.recoveries],
        "--move": [event.at for event in settings.moves],
    }
    for option, late in ((option, at) for option, given in times.items() for at in given if at >= end):
        common.note(f"note: {option} at {late:.15g} s changes nothing, since the run ends at {end:.6g} s{since}")


def _must_fit(events: EventOptions, moved: RebalanceOptions) -> None:
    """Refuse what is said of moves and looks where there are none."""
    moves = events.move or moved.rebalance is not None or moved.initial is not None
    for option, with_it, there in (
        ("control_period", "--plan", events.plan is not None),
        ("move_time", "--move or --rebalance", moves),
        ("move_time_per_tuple", "--move or --rebalance", moves),
    ):
        given = getattr(events, option) != EventOptions._field_defaults[option]
        options.goes_with("--" + option.replace("_", "-"), given, with_it, there)


def _steering(wish: RebalanceOptions, warmup: float) -> Steering | None:
    """Return who moves operators, if anybody does; what is not given is left to the policy's defaults."""
    parts = {"every": wish.every, "window": wish.window, "sample": wish.sample, "theta": wish.theta}
    given: Document = {key: value for key, value in parts.items() if value is not None}
    if wish.rebalance is None and wish.initial is None:
        for key in (*given, *(["weights"] if wish.weights is not None else [])):
            raise InputError(f"expected --rebalance with --{key}", at=f"--{key}")
        return None
    from penstock.running.rebalance import Rebalance

    if wish.weights is not None:
        from penstock.placement import Weights

        given["parameters"] = {"weights": Weights.parse(wish.weights)}
    return Rebalance(algorithm=wish.rebalance, initial=wish.initial, warmup=warmup, **given)


def _fixed(hosts: BatchHosts, overhead: float | None) -> BatchHosts:
    """Return what hosts make of batches with a fixed time of every batch, if one is given."""
    if overhead is None:
        return hosts
    return attrs.evolve(hosts, overhead=dict.fromkeys(hosts.overhead, overhead), idle={}, state={})


def _batched(
    work: HostOptions, known: Statistics, network: Network, cluster: Cluster, placement: Placement
) -> tuple[MicroBatch | None, Cluster]:
    """Return the micro-batches asked for, and the cluster with hosts as fast as statistics say that they are."""
    from penstock.running.as_modelled import in_batches, unlike
    from penstock.simulation import MicroBatch

    asked = None
    if work.trigger is not None:
        asked = MicroBatch(trigger=work.trigger, overhead=work.overhead, progressive=work.progressive)
        for note in unlike(network, cluster, placement):
            common.note(f"note: {note}")
    elif work.overhead is not None or work.progressive:
        raise InputError("expected --trigger with --overhead and --progressive", at="--trigger")
    else:
        common.note_rows(cluster)
    return in_batches(asked, cluster, placement, known)


def _print(document: Document) -> None:
    latency = document["latency"]
    columns, end = ("mean", "p50", "p99", "max", "count"), common.number(document["end"], 6)
    common.table(
        f"{document['network']}: latency in s at the sinks, {document['policy']}, {end} s simulated",
        ["sink", *columns],
        [
            *([name, *(row["latency"][c] for c in columns)] for name, row in document["sinks"].items()),
            ["all", *(latency[c] for c in columns)],
        ],
    )
    common.table(
        "operators",
        ["operator", "served", "wait (s)", "busy"],
        [[name, row["served"], row["wait"], row["busy"]] for name, row in document["operators"].items()],
    )
    common.table("hosts", ["host", "busy"], [[name, row["busy"]] for name, row in document["hosts"].items()])
    parts = ("arrived", "delivered", "dropped", "consumed", "queued", "lost")
    common.table(
        "streams" + ("" if document["balanced"] else ": NOT BALANCED"),
        ["stream", *parts],
        [
            *([name, *(row[part] for part in parts)] for name, row in document["streams"].items()),
            ["all", *(document[part] for part in parts)],
        ],
    )
    if document["moves"]:
        keys = ("time", "operator", "from", "to")
        common.table("moves", keys, [[move[key] for key in keys] for move in document["moves"]])
    if "plan" in document:
        common.show_plan(document["plan"])
    if "repeated" in document:
        found = document["repeated"]
        common.table(
            f"latency in s over {len(found['runs'])} runs, 95 % confidence",
            ["statistic", "mean", "low", "high"],
            [[name, row["mean"], row["low"], row["high"]] for name, row in found["latency"].items()],
        )
    common.say(f"{document['events']} events in {document['seconds']:.3g} s")
