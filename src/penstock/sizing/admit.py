"""Admission: whether one more query fits, where its operators go, and what would break."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.cluster import Placement
from penstock.errors import InputError, locating
from penstock.latency.estimate import Estimate
from penstock.latency.models import above_backlog, many_of, model_of, timed
from penstock.load import load_model
from penstock.load.setting import Setting
from penstock.network import Network
from penstock.network.meaning import meant
from penstock.sizing.admission import Admission
from penstock.sizing.bounds import Bounds
from penstock.sizing.candidates import Candidates, Doubt
from penstock.sizing.unknown import Stakes


def merged(network: Network, new: Network) -> Network:
    """Return both networks as one, which is in no file; a source that both have is the same source.

    Raises
    ------
    InputError
        If another name is used in both, or the new one says of a source that it is read otherwise.
    """
    for name in sorted(network.sources.keys() & new.sources.keys()):
        here, there = meant(network.sources[name]), meant(new.sources[name])
        differs = [key for key in ("format", "schema", "options", "time") if there[key] and there[key] != here[key]]
        if differs and network.sources[name].format is not None:
            raise InputError(
                f"{name!r} is read otherwise in {network.file or network.name!r}", file=new.file,
                at=f"sources.{name}.{differs[0]}", hint="leave it as it is there, or rename it",
            )  # fmt: skip
    for table in ("operators", "sinks"):
        for name in getattr(new, table):
            if name in getattr(network, table):
                raise InputError(
                    f"{name!r} is also in {network.file or network.name!r}", file=new.file, at=f"{table}.{name}",
                    hint="rename one",
                )  # fmt: skip
    sources = {**new.sources, **network.sources}
    with locating(new.file):
        return Network.of(
            network.name,
            sources.values(),
            [*network.operators.values(), *new.operators.values()],
            [*network.sinks.values(), *new.sinks.values()],
        )


def admit(
    running: Setting,
    new: Network,
    bound: float,
    *,
    model: str = "mace",
    sinks: Mapping[str, float] | None = None,
    doubt: Doubt | None = None,
) -> Admission:
    """Decide whether the operators of a new query fit beside those that run, which stay where they are.

    With up to two new operators, and with few hosts also with more, every placement is considered; beyond that branch
    and bound goes as far as it is allowed to and then takes the best found. Models that have to follow each placement
    are then asked some hundred times.

    Parameters
    ----------
    running
        What runs, with every cost known, and the rates of its sources and of those of ``new``.
    new
        What is to be added, with every cost known.
    bound
        Latency (s) that no sink may exceed.
    model
        Latency model that decides.
    sinks
        Tighter bounds of single sinks (s).
    doubt
        Gives estimates their intervals, of which the upper ends then have to keep the bounds too.

    Raises
    ------
    Infeasible
        If no host may take an operator within its quota or pin.
    InputError
        If there are no rates, or names clash.
    """
    if running.rates is None:
        raise InputError("admission needs the rates of all sources", at="rates")
    network, placement, rates = running.network, running.placement, running.rates
    cluster, statistics = timed(model, running.cluster, running.statistics)
    for part in (network, new):
        part.check_costs()  # The whole would name one file for both.
    whole = merged(network, new)
    bounds = Bounds(bound, _limits(whole, sinks or {}, bound), sure=doubt is not None)
    loads = load_model(whole, rates)
    decide = model_of(model)

    def estimate(added: Mapping[str, str]) -> Estimate:
        return decide(loads, Placement({**placement, **added}), cluster, statistics)

    many = many_of(model, loads, cluster, statistics)
    # Other models know the latency of every sink.
    stakes = None if many is None else Stakes(many, new, every=bounds.sure)

    def excess(added: Mapping[str, str]) -> float:
        if stakes is None:
            return bounds.excess(estimate(added))
        return stakes.excess(bounds, {**placement, **added})

    search = Candidates(loads, whole, tuple(new.operators), placement, cluster, statistics)
    if model == "mace" and cluster.free_links and not bounds.sinks and doubt is None:
        where, exhaustive = search.by_waits()
        after = estimate(search.named(where))
    else:
        least = bound if above_backlog(model, whole) else None
        where, after, exhaustive = search.by_estimates(excess, estimate, least, bounds.excess, doubt)
    before = None
    if network.operators:
        before = decide(load_model(network, rates.only(network.sources)), placement, cluster, statistics)
    added = search.named(where)
    return Admission(
        bounds=bounds,
        placement=Placement(added),
        before=before,
        after=after,
        exhaustive=exhaustive,
        unknown=() if stakes is None else stakes.among(after.unended, {**placement, **added}),
    )


def _limits(whole: Network, sinks: Mapping[str, float], bound: float) -> dict[str, float]:
    for name in sinks:
        if name not in whole.sinks:
            raise InputError(f"{name!r} is no sink of either network", at="--sink-latency")
    return {name: min(bound, value) for name, value in sinks.items()}
