"""``penstock control`` and the commands that reach a controller at work."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer

from penstock.cli import common, options
from penstock.cli.engines import ENGINES, Wanted, first_placement
from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock.cluster import Cluster, Host
    from penstock.control.scenario import Happening
    from penstock.load import Statistics
    from penstock.network import Network
    from penstock.workload import Rates

DirectoryArgument = Annotated[
    str | None, typer.Argument(metavar="[DIR]", help="The controller's folder; default: the only one in .penstock.")
]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")]


def command(
    network: options.NetworkArgument,
    rates: Annotated[
        str | None,
        typer.Option("--rates", metavar="FILE|INLINE", help="Rates file, or clicks=100,bids=50; not needed on Spark."),
    ] = None,
    cluster_file: options.ClusterOption = None,
    hosts: options.HostsOption = None,
    placement: Annotated[
        str | None, typer.Option("--placement", metavar="FILE|INLINE", help="Placement to begin with.")
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option("--algorithm", metavar="A", help="Placement algorithm; default: correlation.")
    ] = None,
    statistics: options.StatisticsOption = None,
    engine: Annotated[
        str, typer.Option("--engine", metavar="E", help="What runs the network: simulation or spark.")
    ] = "simulation",
    policy: Annotated[
        str, typer.Option("--policy", metavar="P1,P2", help="Policies, the most important first.")
    ] = "replicate,shed,rebalance",
    act: Annotated[bool, typer.Option("--act", help="Apply decisions; without it they are only recorded.")] = False,
    seconds: Annotated[float | None, typer.Option("--for", metavar="S", help="Stop after this time (s).")] = None,
    scenario: Annotated[
        str | None, typer.Option("--scenario", metavar="FILE", help="File of events that happen during the run.")
    ] = None,
    history: Annotated[
        str | None, typer.Option("--history", metavar="FILE", help="Also write the decisions here, as JSON lines.")
    ] = None,
    directory: Annotated[
        str | None,
        typer.Option("--directory", metavar="DIR", help="The controller's folder; default .penstock/<network name>."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget the controller that was killed here.")] = False,
    latency: Annotated[float, typer.Option("--latency", metavar="L", help="Latency bound (s).")] = 5.0,
    every: Annotated[float, typer.Option("--every", metavar="S", help="Time between decisions (s).")] = 1.0,
    moves: Annotated[int, typer.Option("--moves", metavar="K", help="Most operators that may move at a time.")] = 4,
    spare: Annotated[int, typer.Option("--spare", metavar="N", help="How many hosts like the first may be added.")] = 0,
    prices: Annotated[
        str | None,
        typer.Option(
            "--prices", metavar="P", help="Prices of lost rows, late rows, hosts and moves, e.g. value=1e-4,late=5e-5."
        ),
    ] = None,
    duration: options.DurationOption = 60.0,
    period: options.PeriodOption = 1.0,
    trigger: Annotated[
        float | None, typer.Option("--trigger", metavar="S", help="Simulation: micro-batches with this trigger (s).")
    ] = None,
    overhead: Annotated[
        float | None, typer.Option("--overhead", metavar="S", help="Simulation: fixed time of a micro-batch (s).")
    ] = None,
    move_time: Annotated[
        float | None,
        typer.Option(
            "--move-time", metavar="S", help="How long a moving operator pauses (s); default 0.5, on Spark 3."
        ),
    ] = None,
    apart: Annotated[
        str | None,
        typer.Option(
            "--apart", metavar="OP,…|all", help="Spark: operators that can move alone; default: those with state."
        ),
    ] = None,
    pace: Annotated[
        float | None,
        typer.Option(
            "--pace", metavar="X", help="Simulation: virtual seconds per second; default: as fast as possible."
        ),
    ] = None,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Keep a running network healthy: observe, decide, act, and record why.

    Example: penstock control network.toml --hosts 3 --rates clicks=100,buys=20 --policy shed,rebalance --act
    """
    from penstock.cli import reading
    from penstock.control.controller import Controller
    from penstock.control.folder import Folder
    from penstock.control.loop import Control
    from penstock.control.policies import policies
    from penstock.control.situation import Goals
    from penstock.load import load_model
    from penstock.workload import Rates

    _check(engine, moves, spare, {"--every": every, "--latency": latency, "--for": seconds, "--pace": pace})
    graph, known = reading.get_network(network, statistics)
    cluster = reading.get_cluster(cluster_file, hosts, graph)
    happenings = scenario_of(scenario, graph, cluster, known, engine)
    given = control_rates(rates, graph, [each.event for each in happenings], duration, period)
    where = directory or cluster.spark.directory or f".penstock/{graph.name}"
    own = None if given is None else Rates.of(given.period, {name: given.of_source(name) for name in graph.sources})
    simulated = engine == "simulation"
    placed = first_placement(
        placement, algorithm, own, seed, None if simulated else where, network=graph, cluster=cluster
    )
    pause = (3.0 if engine == "spark" else 0.5) if move_time is None else move_time
    goals = Goals(
        bound=latency, moves=moves, pause=pause, spare=spares(cluster, spare), prices=read_prices(prices)
    )  # fmt: skip
    control = Control(policies=policies(policy), goals=goals, every=every, act=act, seed=seed, journaled=simulated)
    if own is not None and simulated:
        load_model(graph, own)  # names a missing cost
    span = seconds if seconds is not None or not simulated or given is None else given.duration
    wanted = Wanted(
        network=graph, statistics=known, cluster=cluster, placement=placed, rates=given if simulated else own,
        seconds=span, directory=where, seed=seed, trigger=trigger, overhead=overhead, move_time=pause, pace=pace,
        apart=apart_of(apart, graph),
    )  # fmt: skip
    folder, began = Folder(where), time.perf_counter()
    if fresh and not folder.alive:
        folder.forget()
    identity = {
        "network": digest_of(graph), "engine": engine, "policy": policy, "act": act, "every": every, "seed": seed,
        "rates": None if given is None else digest_of(given), "goals": attrs.asdict(goals), "scenario": scenario,
        **({"placement": dict(placed), "for": span, "options": [trigger, overhead, pause]} if simulated else {}),
    }  # fmt: skip
    with folder.held(), common.progress() as tell, ENGINES[engine](wanted, tell) as running:
        controller = Controller(
            engine=running, control=control, folder=folder, scenario=happenings, identity=identity, tell=tell,
            until=span if simulated or span is None else running.now + span,
        )  # fmt: skip
        report = controller.run()
    if history is not None:
        write_lines(history, folder.history())
    document = {
        "network": graph.name, "engine": engine, "policy": policy, "seed": seed, **report, "directory": where,
        "seconds": time.perf_counter() - began,
    }  # fmt: skip
    if json:
        common.answer(document)
        return
    show(document, folder.history())


def _check(engine: str, moves: int, spare: int, times: dict[str, float | None]) -> None:
    for at, value in times.items():
        if value is not None and not 0 < value < 1e9:
            raise InputError(f"expected a time > 0 s, got {value:g}", at=at)
    if engine not in ENGINES:
        raise InputError(f"expected {' or '.join(ENGINES)}, got {engine!r}", at="--engine")
    if moves < 1 or spare < 0:
        raise InputError(f"expected at least 1 and 0, got {moves} and {spare}", at="--moves, --spare")


def scenario_of(
    given: str | None, network: Network, cluster: Cluster, known: Statistics, engine: str
) -> tuple[Happening, ...]:
    """Read a scenario, if there is one, and refuse what an engine cannot let happen."""
    from penstock.control.scenario import read_scenario
    from penstock.steering import Admit, NewRates, Slow

    found = () if given is None else read_scenario(given, network, cluster, known)
    for each in found if engine == "spark" else ():
        if isinstance(each.event, Slow | NewRates) or (isinstance(each.event, Admit) and each.event.rates is not None):
            raise InputError(
                f"what is to happen at {each.at:g} s cannot be made to happen on Spark", file=given,
                hint="rates come from the sources there; try it with --engine simulation",
            )  # fmt: skip
    return found


def apart_of(given: str | None, network: Network) -> tuple[str, ...]:
    """Return the operators that run in queries of their own: those named, or all that keep state."""
    from penstock.files import suggest

    if given is None:
        return tuple(name for name, operator in network.operators.items() if operator.stateful)
    if given == "all":
        return tuple(network.operators)
    names = tuple(filter(None, (name.strip() for name in given.split(","))))
    for name in names:
        if name not in network.operators:
            raise InputError(
                f"{name!r} is no operator", at="--apart", hint=suggest(name, network.operators, "operators")
            )
    return names


def control_rates(
    given: str | None, network: Network, events: list[Any], duration: float, period: float
) -> Rates | None:
    """Read the rates of the network's sources, and of those that a scenario attaches where they are given."""
    from penstock.steering import Admit
    from penstock.workload import read_rates

    if given is None:
        return None
    read = read_rates(given, duration, period)
    more = {name for event in events if isinstance(event, Admit) for name in event.network.sources}
    try:
        read.check({*network.sources, *(more & set(read.sources))})
    except InputError as error:
        raise error.located(given) if "=" not in given else error from None
    return read


def spares(cluster: Cluster, count: int) -> tuple[Host, ...]:
    """Return hosts like the first one, with names that are free."""
    first = next(iter(cluster.hosts.values()))
    found: list[Host] = []
    number = len(cluster.hosts)
    while len(found) < count:
        number += 1
        if f"h{number}" not in cluster.hosts:
            found.append(attrs.evolve(first, name=f"h{number}", spark=None))
    return tuple(found)


def read_prices(given: str | None) -> Any:
    """Read ``value=1e-4,late=5e-5,hour=1,move=0.01``; what is not named keeps its price."""
    from penstock.control.situation import Prices
    from penstock.files import suggest
    from penstock.workload.rates import inline_rates

    table = {} if given is None else inline_rates(given, "--prices")
    names = [field.name for field in attrs.fields(Prices)]
    for name in table:
        if name not in names:
            raise InputError(f"{name!r} has no price", at="--prices", hint=suggest(name, names, "prices"))
    return Prices(**table)


def digest_of(value: Network | Rates) -> str:
    """Return a short fingerprint."""
    import hashlib
    import json

    from penstock.workload import Rates

    if isinstance(value, Rates):
        text = f"{value.period} {value.sources} {value.values.tolist()}"
    else:
        from penstock.control.state import network_document

        text = json.dumps(network_document(value), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_lines(path: str, lines: list[dict[str, Any]]) -> None:
    """Write one JSON line a decision."""
    import json

    from penstock.files import atomic

    with atomic(path) as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def show(document: dict[str, Any], lines: list[dict[str, Any]]) -> None:
    """Print what came of a run for people."""
    show_history(lines)
    rows = [
        [name, row["latency"]["count"], row["latency"]["mean"], row["latency"]["p99"], row["latency"]["max"]]
        for name, row in document["sinks"].items()
    ]
    common.table("latency in seconds", ["sink", "rows", "mean", "p99", "worst"], rows)
    verb = "moved" if document["acted"] else "recommended only"
    common.say(
        f"{document['decisions']} decisions, {len(document['moves'])} moves ({verb}); every row accounted for: "
        f"{'yes' if document['balanced'] else 'no'}; history in {document['directory']}/control/history.jsonl"
    )


def show_history(lines: list[dict[str, Any]]) -> None:
    """Print decisions: when, who, what, why, and what came of it."""
    wide = max((len(line["policy"]) for line in lines), default=0)
    for line in lines:
        time, policy = f"{line['time']:.6g} s", line["policy"].ljust(wide)
        rows = [told(line), line["why"], *(f"refused: {why}" for why in line["refused"]), came(line)]
        sys.stdout.write(f"{time:>9}  {policy}  " + f"\n{' ' * (13 + wide)}".join(filter(None, rows)) + "\n")
    if not lines:
        sys.stdout.write("no decisions\n")


def told(line: dict[str, Any], most: int = 3) -> str:
    """Return what a decision changes, for people."""
    decided, parts = line["decided"], []
    moves = [f"{move['operator']}: {move['from']} to {move['to']}" for move in decided.get("moves", ())]
    parts += [*moves[:most], *([f"{len(moves) - most} more"] if len(moves) > most else [])]
    if "keep" in decided:
        keep = [f"keep {share:.2f} of {name}" for name, share in decided["keep"].items()]
        parts += [*keep[:most], *([f"{len(keep) - most} more"] if len(keep) > most else [])] or ["keep all"]
    if decided.get("tables"):
        parts += [f"{', '.join(decided['tables'])} decide alone"]
    parts += [f"{name} every {step:.3g} s" for name, step in decided.get("triggers", {}).items()]
    parts += [
        f"read {'all' if rate is None else f'{rate:.4g}/s'} of {s}" for s, rate in decided.get("limits", {}).items()
    ]
    parts += [f"start {name} on {host}" for name, host in decided.get("attach", {}).items()]
    parts += [f"add {name}" for name in decided.get("add", ())] + [
        f"retire {name}" for name in decided.get("retire", ())
    ]
    text = ", ".join(parts) or "nothing"
    return text if line["acted"] or text == "nothing" else f"({text})"


def came(line: dict[str, Any]) -> str:
    """Return what came of a decision, for people: worst latency expected and measured."""
    after, before = line["came"] or {}, line["seen"]
    if after.get("worst") is None:
        return ""
    was = "" if before["worst"] is None else f"{before['worst']:.3g} to "
    return f"worst latency: {was}{after['worst']:.3g} s"
