"""What the commands share: options, reading their files, printing."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NoReturn

import typer

from penstock.cluster import Cluster, Placement, read_cluster, read_placement
from penstock.errors import Infeasible, InputError, PenstockError
from penstock.files import to_json
from penstock.load import LoadModel, Statistics, load_model, read_statistics
from penstock.network import Network, read_network
from penstock.workload import Rates, read_rates

NetworkArgument = Annotated[str, typer.Argument(metavar="NETWORK", help="Network file, or - for standard input.")]
ClusterOption = Annotated[str | None, typer.Option("--cluster", metavar="FILE", help="Cluster file.")]
HostsOption = Annotated[
    int | None, typer.Option("--hosts", metavar="N", help="Hosts h1..hN of capacity 1, free links.")
]
RatesOption = Annotated[str, typer.Option("--rates", metavar="FILE|INLINE", help="Rates file, or clicks=100,bids=50.")]
DurationOption = Annotated[float, typer.Option("--duration", metavar="S", help="Length of inline rates (s).")]
PeriodOption = Annotated[float, typer.Option("--period", metavar="S", help="Period of inline rates (s).")]
PlacementOption = Annotated[
    str, typer.Option("--placement", metavar="FILE|INLINE", help="Placement file, or a=h1,b=h2.")
]
StatisticsOption = Annotated[
    str | None,
    typer.Option("--statistics", metavar="FILE", help="Statistics file, for costs that the network leaves open."),
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of everything random.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def fail(error: PenstockError, *, as_json: bool) -> NoReturn:
    """Print one message and leave with the error's exit code."""
    if isinstance(error, Infeasible):
        if as_json:
            sys.stdout.write(to_json({"feasible": False, "reason": error.reason, **error.document}))
        say(f"penstock: no: {error}")
    else:
        say(f"penstock: {error}")
    sys.exit(error.exit_code)


def say(text: str) -> None:
    """Print a line for people."""
    sys.stderr.write(text.rstrip("\n") + "\n")


def answer(document: dict[str, Any]) -> None:
    """Print the one JSON document of ``--json``."""
    sys.stdout.write(to_json(document))


def get_network(path: str, statistics: str | None = None) -> tuple[Network, Statistics]:
    """Read a network, completed by a statistics file."""
    network = read_network(path)
    if statistics is None:
        return network, Statistics()
    known = read_statistics(statistics, network)
    return known.complete(network), known


def get_cluster(path: str | None, hosts: int | None, network: Network) -> Cluster:
    """Read the cluster, or make N equal hosts; the hosts that the network names must be in it."""
    if (path is None) == (hosts is None):
        raise InputError("expected one of --cluster FILE and --hosts N", at="cluster")
    if path is None:
        if hosts is None or not 1 <= hosts <= 1_000_000:
            raise InputError(f"expected 1 to 1000000 hosts, got {hosts}", at="--hosts")
        cluster = Cluster.uniform(hosts)
    else:
        cluster = read_cluster(path)
    named = [(f"operators.{o.name}.pin", o.pin) for o in network.operators.values()]
    named += [(f"{t}.{e.name}.host", e.host) for t in ("sources", "sinks") for e in getattr(network, t).values()]
    for at, host in named:
        if host is not None and host not in cluster.hosts:
            raise InputError(f"{host!r} is no host of the cluster", at=at)
    return cluster


def get_placement(given: str, network: Network, cluster: Cluster) -> Placement:
    """Read a placement that names every operator, obeys the pins and knows the hosts."""
    placement = read_placement(given)
    try:
        return placement.check(network.operators, cluster.hosts, pins_of(network))
    except InputError as error:
        raise error.located(given) if "=" not in given else error from None


def pins_of(network: Network) -> dict[str, str]:
    """Return the hosts that operators must stay on."""
    return {operator.name: operator.pin for operator in network.operators.values() if operator.pin is not None}


def get_model(network: Network, rates: str, duration: float, period: float) -> LoadModel:
    """Read the rates and compute the load model."""
    return load_model(network, get_rates(network, rates, duration, period))


def get_rates(network: Network, rates: str, duration: float, period: float) -> Rates:
    """Read the rates of exactly the network's sources."""
    read = read_rates(rates, duration, period)
    try:
        return read.check(network.sources)
    except InputError as error:
        raise error.located(rates) if "=" not in rates else error from None


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table for people on standard output; numbers get four digits."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    body = [
        ["" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in rows
    ]
    for index, column in enumerate(columns):
        numeric = index > 0 and all(_numeric(row[index]) for row in body)
        shown.add_column(column, justify="right" if numeric else "left", no_wrap=True)
    for row in body:
        shown.add_row(*row)
    Console(highlight=False).print(shown)


def _numeric(cell: str) -> bool:
    try:
        float(cell or 0)
    except ValueError:
        return False
    return True


def host_rows(model: LoadModel, placement: Placement, cluster: Cluster) -> dict[str, dict[str, float]]:
    """Return mean, std and max of each host's load as a share of its capacity."""
    load = model.host_load(placement, cluster)
    rows = {}
    for (name, host), series in zip(cluster.hosts.items(), load, strict=True):
        share = series / host.capacity
        rows[name] = {"mean": float(share.mean()), "std": float(share.std()), "max": float(share.max())}
    return rows
