"""What an experiment gives: curves in the paper's axes, and claims that a machine has checked."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class Claim:
    """One statement of a paper, and whether it was found to hold.

    Attributes
    ----------
    paper, figure
        Where it is stated.
    name
        What is stated.
    expected, measured
        In words and numbers.
    holds
        Whether the measurement agrees.
    note
        Why it does not hold, or what was not known and how it was chosen.
    """

    paper: str
    figure: str
    name: str
    expected: str
    measured: str
    holds: bool
    note: str = ""


@attrs.frozen(kw_only=True)
class Curve:
    """One line of a plot."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@attrs.frozen(kw_only=True)
class Panel:
    """One pair of axes.

    Attributes
    ----------
    x, y
        What the axes show, with units.
    log
        Whether the vertical axis is logarithmic.
    """

    x: str
    y: str
    curves: tuple[Curve, ...]
    log: bool = False


@attrs.frozen(kw_only=True)
class Figure:
    """One reproduced figure or table.

    Attributes
    ----------
    paper, name
        The paper's short name and its figure: ``economical``, ``Fig. 7``.
    title
        What it shows.
    parameters
        As run, with what the paper leaves open said.
    """

    paper: str
    name: str
    title: str
    parameters: Mapping[str, str]
    panels: tuple[Panel, ...]
    claims: tuple[Claim, ...]


def listed(values: tuple[float, ...] | list[float]) -> str:
    """Return numbers with three digits, for a claim."""
    return ", ".join(f"{value:.3g}" for value in values)
