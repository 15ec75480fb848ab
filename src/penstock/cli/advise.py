"""``penstock advise``: what to change about existing Spark jobs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.cli import common, options
from penstock.errors import InputError
from penstock.units import pairs

if TYPE_CHECKING:
    from penstock.advice import Advice, Burst, Consultation, Deployment, Report
    from penstock.advice.values import Interval
    from penstock.inspection import Inspection


class LogOptions(NamedTuple):
    """Existing queries."""

    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH...", help="Event logs, folders of them, progress as JSON, logs of drivers, or -."),
    ] = None
    since: Annotated[
        str | None, typer.Option("--since", metavar="T", help="Skip batches before this time; as inspect.")
    ] = None
    until: Annotated[
        str | None, typer.Option("--until", metavar="T", help="Skip batches from this time on; as inspect.")
    ] = None
    cores: Annotated[
        list[str] | None,
        typer.Option(
            "--cores", metavar="NAME=N,...", help="Cores of an application's driver, where progress does not tell them."
        ),
    ] = None


def _factor(text: str | float) -> float:
    """Return the factor of an option: a number, or one with an x behind it as in ``3x``."""
    from penstock.units import factor

    try:
        return factor(text)
    except InputError as error:
        raise typer.BadParameter(str(error)) from None


def _pictures(option: typer.CallbackParam, path: str | None) -> str | None:
    """Check the folder for pictures: it is not named like one of them."""
    from penstock.pictures.save import UNDATED

    target = Path(path or "")
    if target.suffix.lstrip(".") in UNDATED and not target.exists():
        hint = f"there are several pictures, as PNG and SVG: --plot {target.with_suffix('')}"
        raise InputError(f"expected a folder, got {target.name!r}", at="--plot", hint=hint)
    return options.folder(option, path)


class NetworkOptions(NamedTuple):
    """A network to advise on instead."""

    network: Annotated[
        str | None, typer.Option("--network", metavar="NETWORK", help="Advise on a network file instead of logs.")
    ] = None
    cluster: options.ClusterOption = None
    hosts: options.HostsOption = None
    rates: Annotated[
        str | None, typer.Option("--rates", metavar="FILE|INLINE", help="With --network: rates of its sources.")
    ] = None
    placement: Annotated[
        str | None, typer.Option("--placement", metavar="FILE|INLINE", help="With --network: where its operators run.")
    ] = None
    statistics: options.StatisticsOption = None
    duration: options.DurationOption = 60.0
    period: options.PeriodOption = 1.0


class AimOptions(NamedTuple):
    """What to advise for."""

    latency: Annotated[
        float | None,
        typer.Option("--latency", metavar="S", parser=options.span, help="Latency bound for every row (s)."),
    ] = None
    weight: Annotated[
        list[str] | None,
        typer.Option("--weight", metavar="Q=W,...", help="How much a second of latency matters, by query; default 1."),
    ] = None
    burst: Annotated[
        float,
        typer.Option("--burst", metavar="F", parser=_factor, help="Prepare for a burst of F times the mean rates."),
    ] = 1.0
    burst_length: Annotated[
        float, typer.Option("--burst-length", metavar="S", parser=options.span, help="Length of the burst (s).")
    ] = 60.0
    forecast: Annotated[
        float | None,
        typer.Option(
            "--forecast",
            metavar="S",
            parser=options.span,
            help="Also advise for the rates forecast this far ahead, e.g. 1d.",
        ),
    ] = None


def command(
    logs: LogOptions,
    files: NetworkOptions,
    aims: AimOptions,
    answer: options.AnswerOptions,
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot", metavar="DIR", callback=_pictures, help="Draw queries and advice into this folder (PNG and SVG)."
        ),
    ] = None,
) -> None:
    """Recommend changes to your streaming queries: settings, drivers and cores, each with its expected effect.

    Example: penstock advise examples/event-log/spark-4.3.zstd --latency 30 --burst 3
    """
    import numpy as np

    from penstock.advice import Aims, Burst, consult, deployed

    bound = Aims(latency=aims.latency)
    if bool(logs.paths) == (files.network is not None):
        raise InputError("expected logs or --network NETWORK, and not both", at="advise")
    _must_fit(logs, files)
    lasting = aims.burst_length != AimOptions._field_defaults["burst_length"]
    options.goes_with("--burst-length", lasting, "--burst", aims.burst != 1)
    weights = _pairs(aims.weight, "--weight", "query=weight", "clicks=2")
    cores = _pairs(logs.cores, "--cores", "application=cores", "progress.jsonl=16")
    inspection = None
    if files.network is not None:
        deployment = _from_network(files.network, files, weights)
    else:
        inspection = _inspected(logs)
        deployment = deployed(inspection, weights, cores)
    found = consult(
        deployment,
        bound,
        Burst(factor=aims.burst, length=aims.burst_length),
        np.random.default_rng(answer.seed),
        aims.forecast,
    )
    document = found.document()
    if plot is not None:
        from penstock.advice.pictures import write_pictures

        document["written"] = write_pictures(found.report, plot, inspection)
    if answer.json:
        common.answer(document)
        return
    _show(found)
    for path in document.get("written", ()):
        common.say(f"wrote {path}")


def _must_fit(logs: LogOptions, files: NetworkOptions) -> None:
    """Refuse options of logs with a network, and those of a network with logs."""
    others, group, why = (
        (files, "--network", "the logs tell it") if files.network is None else (logs, "logs", "the files tell it")
    )
    for name, value in others._asdict().items():
        if value and value != others._field_defaults[name]:
            raise InputError(f"goes with {group}; here {why}", at=f"--{name}")


def _pairs(texts: list[str] | None, option: str, form: str, example: str) -> dict[str, float]:
    """Return the numbers that an option gives by name: comma between, or the option several times."""
    return pairs(",".join(texts), option, form, example) if texts else {}


def _inspected(logs: LogOptions) -> Inspection:
    from penstock.inspection import inspect, moment
    from penstock.telemetry import read_telemetry

    told = read_telemetry(logs.paths or [])
    found = inspect(
        told,
        None if logs.since is None else moment(logs.since, told, "--since"),
        None if logs.until is None else moment(logs.until, told, "--until"),
    )
    for line in found.notices():
        common.say(f"penstock: warning: {line}")
    return found


def _from_network(path: str, files: NetworkOptions, weights: dict[str, float]) -> Deployment:
    from penstock.advice import planned
    from penstock.cli import reading

    if files.rates is None:
        raise InputError("expected the rates of the network's sources", at="--rates")
    graph, known = reading.get_network(path, files.statistics)
    cluster = reading.get_cluster(files.cluster, files.hosts, graph)
    model = reading.get_model(graph, files.rates, files.duration, files.period)
    placed = reading.decide_placement(reading.Deployment(graph, known, cluster), files.placement, None, model.rates, 0)
    return planned(model, cluster, placed, known, weights)


def _show(found: Consultation) -> None:
    from penstock.advice.consult import apart
    from penstock.units import human

    report = found.report
    factors = [factor for factor in report.growth if factor > 1]
    unsure = {name: "" if job.certain else " ?" for name, job in report.deployment.jobs.items()}
    common.table(
        "worst latency of the rows, replayed" + _with_burst(found.burst) + _bound(found),
        ["query", "rows/s", "worst", "90 % within", "p50", *(f"at {factor:g}x\nrecorded" for factor in factors)],
        [
            [
                name,
                f"{job.rate:,.3g}" if job.rate < 999.5 else f"{job.rate:,.0f}",
                human(report.latency[name].worst[1]) + unsure[name],
                _span(report.latency[name].worst),
                human(report.latency[name].p50[1]),
                *(human(report.growth[factor][name]["worst"]) + unsure[name] for factor in factors),
            ]
            for name, job in report.deployment.jobs.items()
        ],
    )
    _advice("advice, best first", report)
    if found.later is not None and found.outlook is not None:
        errors = {name: each.error for name, each in found.outlook.forecasts.items()}
        naive = {name: each.naive for name, each in found.outlook.forecasts.items()}
        common.table(
            "forecast: its error on the end of the history, next to that of 'as a day before'",
            ["query", "error", "as a day before", "highest rate"],
            [
                [name, f"{errors[name]:.1%}", f"{naive[name]:.1%}", f"{each.high.max():,.0f}"]
                for name, each in found.outlook.forecasts.items()
            ],
        )
        _advice("advice for the forecast rates", found.later)
    for name in apart(found.agreement):
        batch = found.agreement[name]
        common.say(
            f"note: the median batch of {name} took {human(batch['recorded'])}, in the replay "
            f"{human(batch['replayed'])}: treat its figures with caution"
        )
    for note in report.notes:
        common.say(f"note: {note}")


def _bound(found: Consultation) -> str:
    from penstock.units import human

    bound = found.report.aims.latency
    return "" if bound is None else f"; the bound is {human(bound)}"


def _span(interval: Interval) -> str:
    from penstock.units import human

    return f"{human(interval[0])} to {human(interval[2])}"


def _with_burst(burst: Burst) -> str:
    from penstock.units import human

    return "" if burst.factor == 1 else f" with {human(burst.length)} of {burst.factor:g}x the mean rates"


def _advice(title: str, report: Report) -> None:
    from penstock.units import human

    bound = math.inf if report.aims.latency is None else report.aims.latency
    if not report.advice:
        missed = any(latency.worst[1] > bound for latency in report.latency.values())
        also = f", and the bound of {human(bound)} is missed" if missed else ""
        common.write(f"{title}: none; {report.none}{also}")
        return
    common.write(title)
    misses = [row.after.worst[1] > bound for row in report.advice]
    none_keeps = all(misses) and len(misses) > 1
    for number, (row, missed) in enumerate(zip(report.advice, misses, strict=True), 1):
        lines = _lines(number, row)
        if missed and not none_keeps:
            lines.append((f"still misses the bound of {human(bound)}", " " * 4))
        for text, indent in lines:
            common.write(text, indent, " " * 4)
    if none_keeps:
        common.write(f"no advice alone keeps the bound of {human(bound)}")


def _lines(number: int, row: Advice) -> list[tuple[str, str]]:
    from penstock.units import human

    proposal = row.proposal
    unit = " rows" if proposal.unit == "rows" else ""
    old = "none" if proposal.old is None else _value(proposal.old, proposal.setting)
    new = _value(proposal.new, proposal.setting)
    also = "".join(f", {name} -> {_value(value, name)}" for name, value in proposal.also.items())
    saves = f"; frees {_cores(proposal.saves)}" if proposal.saves > 0 else ""
    lines = [
        (f"{number}. {proposal.kind}  {proposal.query}: {proposal.setting} {old} -> {new}{unit}{also}", " "),
        (f"because {proposal.why}", " " * 4),
        (
            f"worst {human(row.before.worst[1])} ({_span(row.before.worst)}) -> {human(row.after.worst[1])} "
            f"({_span(row.after.worst)}); p99 {human(row.before.p99[1])} -> {human(row.after.p99[1])}{saves}",
            " " * 4,
        ),
    ]
    return [*lines, (f"note: {proposal.remark}", " " * 4)] if proposal.remark else lines


def _cores(count: float) -> str:
    return "one core" if count == 1 else f"{count:.2g} cores"


def _value(value: float | str, setting: str) -> str:
    from penstock.units import digits, human

    if isinstance(value, str):
        return value
    if setting == "trigger":
        return human(value) if value else "none"
    return digits(value, 3) if setting == "cores" else f"{value:,.12g}"
