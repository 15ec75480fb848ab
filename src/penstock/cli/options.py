"""Options that commands share, and commands that take options which belong together as one value."""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import typer

from penstock.cli.common import say_notes
from penstock.errors import InputError
from penstock.files import check_file, check_folder, shortened
from penstock.units import spoken


def span(text: str | float) -> float:
    """Return the seconds of an option: a number, or a time with its unit as in ``'2 minutes'``."""
    try:
        return spoken(text)
    except InputError as error:
        raise typer.BadParameter(str(error)) from None


def whole(text: str | int) -> int:
    """Return the whole number of an option."""
    try:
        return int(text)
    except ValueError:
        if re.fullmatch(r"[-+]?\d{1,18}\.0*", str(text)):
            return int(float(text))
        raise typer.BadParameter(f"expected a whole number, got {shortened(text)}") from None


def number(text: str | float) -> float:
    """Return the number of an option."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"expected a number, got {shortened(text)}") from None


def _seed(seed: int) -> int:
    """Return a seed that is not negative."""
    if seed < 0:
        raise InputError(f"expected a seed of at least 0, got {seed}", at="--seed")
    return seed


def output(option: typer.CallbackParam, path: str | None) -> str | None:
    """Check an option that names a file to write, as a callback of Typer's: that is said before all work."""
    if path is not None:
        check_file(path, option.opts[0])
    return path


def picture(option: typer.CallbackParam, path: str | None) -> str | None:
    """Check an option that names a picture to write, as a callback of Typer's."""
    from penstock.pictures.save import kind_of

    if path is not None:
        kind_of(path, option.opts[0])
    return output(option, path)


def folder(option: typer.CallbackParam, path: str | None) -> str | None:
    """Check an option that names a folder to write into, as a callback of Typer's."""
    if path == "":
        raise InputError("expected a folder, got an empty name", at=option.opts[0])
    if path is not None:
        check_folder(path, option.opts[0])
    return path


def goes_with(option: str, given: object, other: str, there: object) -> None:
    """Refuse an option that means nothing without another one."""
    if given and not there:
        raise InputError(f"expected {other} with {option}", at=option)


NetworkArgument = Annotated[str, typer.Argument(metavar="NETWORK", help="Network file, or - for standard input.")]
ClusterOption = Annotated[str | None, typer.Option("--cluster", metavar="FILE", help="Cluster file.")]
HostsOption = Annotated[
    int | None,
    typer.Option("--hosts", metavar="N", parser=whole, help="N equal hosts, h1 to hN, of capacity 1, with free links."),
]
RatesOption = Annotated[str, typer.Option("--rates", metavar="FILE|INLINE", help="Rates file, or clicks=100,bids=50.")]
DurationOption = Annotated[
    float, typer.Option("--duration", metavar="S", parser=span, help="How long inline rates last (s).")
]
PeriodOption = Annotated[
    float, typer.Option("--period", metavar="S", parser=span, help="Time step of inline rates (s).")
]
PlacementOption = Annotated[
    str, typer.Option("--placement", metavar="FILE|INLINE", help="Placement file, or a=h1,b=h2.")
]
StatisticsOption = Annotated[
    str | None,
    typer.Option("--statistics", metavar="FILE", help="Statistics file; fills in costs that the network leaves out."),
]
PlanOption = Annotated[
    str | None, typer.Option("--plan", metavar="FILE", help="Plan table from shed: drop what it says for the rates.")
]
KeepOption = Annotated[
    str | None,
    typer.Option("--keep", metavar="FILE|INLINE", help="Share of each stream to keep: a file, or clicks->views=0.4."),
]
AlgorithmOption = Annotated[
    str | None, typer.Option("--algorithm", metavar="A", help="Placement algorithm; default: correlation.")
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="mace, pipelined, microbatch or sharing; default: mace, or what fits the cluster's [spark] table.",
    ),
]
CheckOption = Annotated[
    str | None, typer.Option("--check-with", metavar="simulation", help="Also simulate the answer.")
]
SureOption = Annotated[
    bool, typer.Option("--sure", help="Also keep the bound if costs are higher than measured: decide by p95.")
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", callback=_seed, help="Random seed.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


class NetworkOptions(NamedTuple):
    """Which network runs on which hosts, and what is known of them."""

    network: NetworkArgument
    cluster: ClusterOption = None
    hosts: HostsOption = None
    statistics: StatisticsOption = None


DURATION = 60.0
"""How long inline rates last where nobody says (s)."""


class RatesOptions(NamedTuple):
    """How many rows the sources bring."""

    rates: RatesOption
    duration: DurationOption = DURATION
    period: PeriodOption = 1.0


class ModelOptions(NamedTuple):
    """What judges a placement."""

    model: ModelOption = None
    check_with: CheckOption = None

    def check(self) -> bool:
        """Return whether to simulate as well.

        Raises
        ------
        InputError
            If there is no such model, or nothing else to check with.
        """
        from penstock.latency.models import model_of

        if self.model is not None:
            model_of(self.model)
        return checks(self.check_with)


class AnswerOptions(NamedTuple):
    """How to answer."""

    seed: SeedOption = 0
    json: JsonOption = False


def checks(check_with: str | None) -> bool:
    """Return whether ``--check-with`` asks for a simulation.

    Raises
    ------
    InputError
        If it asks for something else.
    """
    if check_with not in (None, "simulation"):
        raise InputError(f"expected simulation, got {check_with!r}", at="--check-with")
    return check_with is not None


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose groups of options are single ones to Typer, and that refuses numbers in our words.

    A group is a parameter whose type is a ``NamedTuple``: its fields, annotated as Typer wants them, are the options.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if hasattr(kind, "_fields")}
    said = {name: _said(hint) for name, hint in hints.items()}
    if not groups and said == hints:
        return command
    options: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            options += _fields(groups[name])
        else:
            options.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=said[name]))

    @functools.wraps(command)
    def call(**values: object) -> None:
        parts = {name: kind(*(values.pop(field) for field in kind._fields)) for name, kind in groups.items()}
        command(**values, **parts)
        say_notes()

    options.sort(key=lambda option: option.default is not inspect.Parameter.empty)  # what must be given comes first
    call.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in options}
    return call


def _fields(group: Any) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=group._field_defaults.get(name, inspect.Parameter.empty),
            annotation=_said(annotation),
        )
        for name, annotation in get_type_hints(group, include_extras=True).items()
    ]


_PARSERS: dict[object, Callable[[str], float]] = {int: whole, int | None: whole, float: number, float | None: number}


def _said(annotation: Any) -> Any:
    """Return the annotation of an option with a parser of ours for a number: Typer's own speaks of its types."""
    kind, *said = get_args(annotation) or (None,)
    if kind not in _PARSERS or not said or said[0].parser is not None:
        return annotation
    option = copy.copy(said[0])
    option.parser = _PARSERS[kind]
    return Annotated[kind, option]
