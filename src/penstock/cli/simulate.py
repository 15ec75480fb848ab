"""``penstock simulate``: the placed network in virtual time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import attrs
import typer

from penstock.cli import common, options
from penstock.errors import InputError
from penstock.files import atomic

if TYPE_CHECKING:
    from penstock.cluster import Cluster
    from penstock.latency.batches import BatchHosts
    from penstock.simulation import Job, MicroBatch, Options, Shed, SimulationResult, Steering

T = TypeVar("T")


def command(
    network: options.NetworkArgument,
    placement: options.PlacementOption,
    rates: Annotated[
        str | None, typer.Option("--rates", metavar="FILE|INLINE", help="Rates file, or clicks=100,bids=50.")
    ] = None,
    arrivals: Annotated[
        str | None, typer.Option("--arrivals", metavar="FILE", help="Single rows instead of rates: time,source[,work].")
    ] = None,
    cluster_file: options.ClusterOption = None,
    hosts: options.HostsOption = None,
    statistics: options.StatisticsOption = None,
    policy: Annotated[
        str, typer.Option("--policy", help="What a host serves next: fcfs, round-robin or stimulus.")
    ] = "fcfs",
    duration: Annotated[
        float | None,
        typer.Option("--duration", metavar="S", help="End of the run (s); default: with the input, or 60."),
    ] = None,
    period: options.PeriodOption = 1.0,
    warmup: Annotated[
        float,
        typer.Option("--warmup", metavar="S", help="Leave this much time at the start out of latency and wait (s)."),
    ] = 0.0,
    queue: Annotated[
        int | None, typer.Option("--queue", metavar="N", help="Most rows that may wait at an operator's input.")
    ] = None,
    keep: options.KeepOption = None,
    plan: options.PlanOption = None,
    control_period: Annotated[
        float, typer.Option("--control-period", metavar="S", help="How often to look up --plan (s).")
    ] = 1.0,
    fail: Annotated[
        list[str] | None, typer.Option("--fail", metavar="HOST@S", help="A host fails; may be repeated.")
    ] = None,
    recover: Annotated[
        list[str] | None, typer.Option("--recover", metavar="HOST@S", help="A host recovers; may be repeated.")
    ] = None,
    move: Annotated[
        list[str] | None, typer.Option("--move", metavar="OP:HOST@S", help="An operator moves; may be repeated.")
    ] = None,
    move_time: Annotated[
        float, typer.Option("--move-time", metavar="S", help="How long a moving operator pauses (s).")
    ] = 0.0,
    move_time_per_tuple: Annotated[
        float,
        typer.Option("--move-time-per-tuple", metavar="S", help="Additional pause for each row in its queue (s)."),
    ] = 0.0,
    rebalance: Annotated[
        str | None,
        typer.Option(
            "--rebalance", metavar="ALGORITHM", help="Move operators by what is observed, e.g. correlation-exchange."
        ),
    ] = None,
    every: Annotated[
        float | None, typer.Option("--every", metavar="S", help="How often --rebalance decides (s); default 1.")
    ] = None,
    window: Annotated[
        int | None, typer.Option("--window", metavar="K", help="How many samples a decision reads; default 10.")
    ] = None,
    sample: Annotated[
        float | None, typer.Option("--sample", metavar="S", help="Length of a sample (s); default: as --every.")
    ] = None,
    initial: Annotated[
        str | None,
        typer.Option("--initial", metavar="ALGORITHM", help="Distribute all operators once, after the warm-up."),
    ] = None,
    theta: Annotated[
        float | None, typer.Option("--theta", metavar="T", help="Share of the operators, lightest first, that stay.")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights", metavar="W", help="Weights of the potential objective, as load=1,correlation=1,network=1."
        ),
    ] = None,
    drain: Annotated[bool, typer.Option("--drain", help="Continue after the input until the system is empty.")] = False,
    trace: Annotated[
        str | None,
        typer.Option("--trace", metavar="OUT.csv", help="Write every row at the sinks: sink,stimulus,egress."),
    ] = None,
    trigger: Annotated[
        float | None, typer.Option("--trigger", metavar="S", help="Hosts work in micro-batches with this trigger (s).")
    ] = None,
    overhead: Annotated[
        float | None,
        typer.Option(
            "--overhead", metavar="S", help="Fixed time of a micro-batch (s); default: from the statistics, or 0."
        ),
    ] = None,
    progressive: Annotated[
        bool, typer.Option("--progressive", help="A micro-batch puts rows out evenly, not at its end.")
    ] = False,
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", help="Independent runs, with seeds SEED, SEED + 1, …")
    ] = 1,
    on_spark: Annotated[bool, typer.Option("--on-spark", help="Do the runs in a Spark job.")] = False,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="OUT.png", help="Draw latency, rows and hosts over time.")
    ] = None,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Run the placed network in virtual time: latency, queues, and what became of every row.

    Example: penstock simulate network.toml --hosts 2 --rates clicks=100,buys=20 --placement views=h1,matched=h2
    """
    from penstock.cli import reading
    from penstock.latency.batches import BatchHosts
    from penstock.simulation import Job, Options, read_arrivals

    graph, known = reading.get_network(network, statistics)
    cluster = reading.get_cluster(cluster_file, hosts, graph)
    placed = reading.get_placement(placement, graph, cluster)
    if (rates is None) == (arrivals is None):
        raise InputError("expected one of --rates and --arrivals", at="--rates")
    given: Any = (
        read_arrivals(str(arrivals))
        if rates is None
        else reading.get_rates(graph, rates, 60.0 if duration is None else duration, period)
    )
    pace = BatchHosts.of(known, cluster)
    batches, cluster = _batched(trigger, overhead, progressive, pace, cluster)
    options = Options(
        policy=policy,
        duration=duration,
        warmup=warmup,
        queue=queue,
        keep=reading.get_keep(keep, graph, copies=True),
        drain=drain,
        move_time=move_time,
        move_time_per_tuple=move_time_per_tuple,
        shed=_shed(plan, control_period),
        steer=_steering(rebalance, initial, warmup, weights, every=every, window=window, sample=sample, theta=theta),
        microbatch=batches,
        **_events(fail, recover, move),
    )
    if repeat < 1:
        raise InputError(f"expected at least one run, got {repeat}", at="--repeat")
    if repeat > 1 and (trace is not None or plot is not None):
        raise InputError("expected a single run with --trace or --plot", at="--repeat")
    began = time.perf_counter()
    job = Job(graph, cluster, placed, given, options)
    try:
        if repeat > 1 or on_spark:
            results = _several(job, range(seed, seed + repeat), on_spark)
        else:
            results = [_once(job, seed, trace, plot)]
    except InputError as error:
        files_of = {"arrivals": arrivals, "rates": rates, "placement": placement, "keep": keep, "plan": plan}
        source = files_of.get(str(error.at))
        raise error.located(source) if source and "=" not in source else error from None
    seconds = time.perf_counter() - began
    document = {"network": graph.name, "policy": policy, "seed": seed, **results[0].document(), "seconds": seconds}
    if batches is not None and rates is not None:
        document |= _interval(attrs.evolve(pace, trigger=batches.trigger, progressive=progressive), job, seed)
    if options.steer is not None:
        document["statistics"] = _told(options.steer, placed, cluster, results[0])
    if repeat > 1:
        document["repeated"] = _together(results, seed)
    if json:
        common.answer(document)
        return
    _print(document)


def _once(job: Job, seed: int, trace: str | None, plot: str | None) -> SimulationResult:
    """Run once; write the rows of the sinks, and draw the run, where that is asked for."""
    from penstock.simulation import simulate
    from penstock.simulation.plot import plot as draw

    with ExitStack() as files:
        sink = None if trace is None else _tracer(files.enter_context(atomic(trace)), sorted(job.network.sinks))
        show = files.enter_context(_progress(job.arrivals, job.options))
        step = None if plot is None else _span(job.arrivals, job.options) / 200
        parts = (job.network, job.cluster, job.placement, job.arrivals, job.options)
        keep: Any = True if plot is not None else sink or False
        result = simulate(*parts, seed=seed, trace=keep, sample=step, progress=show)
        if plot is not None:
            if sink is not None and result.trace is not None:
                sink(result.trace)
            draw(plot, result)
    return result


def _told(
    steer: Steering, placement: Mapping[str, str], cluster: Cluster, result: SimulationResult
) -> dict[str, dict[str, float]]:
    """Return what hosts send for each decision of a policy, and in the mean per second, once all has moved."""
    from penstock.control.rebalance import Rebalance

    if not isinstance(steer, Rebalance):
        return {}
    after = {**placement, **{move.operator: move.end for move in result.moves}}
    sent = steer.statistics_bytes(after, cluster.hosts)
    return {host: {"bytes": count, "rate": count / steer.every} for host, count in sent.items()}


def _together(results: list[SimulationResult], seed: int) -> dict[str, Any]:
    """Return what several runs say together, and each of them in short."""
    from penstock.simulation import summary

    return {
        "latency": summary(results),
        "runs": [
            {"seed": seed + k, "latency": dict(one.latency), **one.totals, "balanced": one.balanced}
            for k, one in enumerate(results)
        ],
    }


def _several(job: Job, seeds: range, on_spark: bool) -> list[SimulationResult]:
    """Run once per seed, on all cores or on Spark; the first run's document, then what all say together."""
    from penstock.simulation import repeat

    if not on_spark:
        return list(repeat(job, seeds))
    from penstock.spark.fanout import fan_out
    from penstock.spark.hosts import EmbeddedHost

    with EmbeddedHost("simulations", cores=min(len(seeds), os.cpu_count() or 1)) as host:
        return fan_out(host.session(), job, seeds)


def _span(arrivals: Any, options: Options) -> float:
    end = options.duration or (arrivals.duration if hasattr(arrivals, "duration") else float(arrivals.times[-1]))
    return float(end) or 1.0


@contextmanager
def _progress(arrivals: Any, options: Options) -> Iterator[Callable[[float], None]]:
    """Show how far virtual time has come."""
    end = _span(arrivals, options)
    with common.progress() as tell:
        yield lambda reached: tell("simulating", min(reached / end, 1.0))


def _events(fail: list[str] | None, recover: list[str] | None, move: list[str] | None) -> dict[str, Any]:
    from penstock.simulation import Failure, Move, Recovery

    def moved(what: str, at: float) -> Move:
        operator, colon, host = what.rpartition(":")
        if not (colon and operator and host):
            raise InputError(f"expected OPERATOR:HOST@SECONDS, got {what!r}", at="--move", hint="e.g. views:h2@30")
        return Move(operator, host, at)

    return {
        "failures": _timed(fail, "--fail", Failure),
        "recoveries": _timed(recover, "--recover", Recovery),
        "moves": _timed(move, "--move", moved),
    }


def _timed(given: list[str] | None, option: str, make: Callable[[str, float], T]) -> tuple[T, ...]:
    made = []
    for item in (part.strip() for text in given or () for part in text.split(",")):
        what, at, when = item.rpartition("@")
        try:
            number = float(when)
        except ValueError:
            number = -1.0 if not when.strip() else float("nan")
        if not (what and at) or number != number:
            raise InputError(f"expected …@SECONDS, got {item!r}", at=option, hint="e.g. h1@10")
        made.append(make(what.strip(), number))
    return tuple(made)


def _shed(plan: str | None, period: float) -> Shed | None:
    if plan is None:
        return None
    from penstock.shedding import read_table
    from penstock.simulation import Shed

    return Shed(table=read_table(plan), period=period)


def _steering(
    algorithm: str | None, initial: str | None, warmup: float, weights: str | None, **given: float | None
) -> Steering | None:
    """Return who moves operators, if anybody does; what is not given is left to the policy's defaults."""
    said: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if algorithm is None and initial is None:
        for key in (*said, *(["weights"] if weights is not None else [])):
            raise InputError(f"expected --rebalance with --{key}", at=f"--{key}")
        return None
    from penstock.control.rebalance import Rebalance

    if weights is not None:
        from penstock.placement import Weights

        said["parameters"] = {"weights": Weights.parse(weights)}
    return Rebalance(algorithm=algorithm, initial=initial, warmup=warmup, **said)


def _batched(
    trigger: float | None, overhead: float | None, progressive: bool, hosts: BatchHosts, cluster: Cluster
) -> tuple[MicroBatch | None, Cluster]:
    """Return the micro-batches asked for, and the cluster at the pace that its hosts have in them."""
    from penstock.simulation import MicroBatch

    if trigger is None:
        if overhead is not None or progressive:
            raise InputError("expected --trigger with --overhead and --progressive", at="--trigger")
        return None, cluster
    fixed = hosts.overhead if overhead is None else overhead
    return MicroBatch(trigger=trigger, overhead=fixed, progressive=progressive), hosts.paced(cluster)


def _interval(hosts: BatchHosts, job: Job, seed: int) -> dict[str, Any]:
    """Return what the model of batches says the latency may be where the statistics are off by their errors."""
    import numpy as np

    from penstock.control.chain import interval
    from penstock.load import load_model
    from penstock.workload import Rates

    priced = all(operator.cost is not None for operator in job.network.operators.values())
    replicas = any("#" in name for name in job.placement)
    if not isinstance(job.arrivals, Rates) or job.options.shed is not None or replicas or not priced:
        return {}
    placed = hosts.placed(load_model(job.network, job.arrivals), job.placement, job.options.keep)
    return interval(placed, placed.run(), np.random.default_rng(seed)).document()


def _tracer(file: Any, sinks: list[str]) -> Callable[[Any], None]:
    file.write("sink,stimulus,egress\n")

    def write(rows: Any) -> None:
        for stimulus, egress, sink in rows.tolist():
            file.write(f"{sinks[sink]},{stimulus:.12f},{egress:.12f}\n")

    return write


def _print(document: dict[str, Any]) -> None:
    latency = document["latency"]
    columns = ("mean", "p50", "p99", "max", "count")
    common.table(
        f"{document['network']}: latency in s at the sinks, {document['policy']}, {document['end']:.6g} s simulated",
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
