"""Numbers by name, as options give them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import InputError
from penstock.units import pairs

RATES = ["load", "examples/two-chains/network.toml", "--rates"]
PLACED = ["examples/two-chains/network.toml", "--hosts", "1", "--placement", "views=h1,scored=h1,paid=h1,billed=h1"]
OPTIONS: dict[str, list[str]] = {
    "--rates": RATES,
    "--at": ["shed", *PLACED, "--planner", "exact", "--at"],
    "--keep": ["simulate", *PLACED, "--rates", "clicks=1,buys=1", "--keep"],
    "--weights": ["place", *PLACED[:3], "--rates", "clicks=1,buys=1", "--weights"],
    "--prices": ["control", *PLACED, "--rates", "clicks=1,buys=1", "--prices"],
    "--weight": ["advise", "none.json", "--weight"],
    "--cores": ["advise", "none.json", "--cores"],
}


def test_names_may_be_streams() -> None:
    """A name ends at the last sign of equality, so that it may hold arrows and whatever else names have."""
    assert pairs("a->b=0.5, k=v=2", "--keep", "stream=share", "a->b=1") == {"a->b": 0.5, "k=v": 2.0}


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_refuses_alike(penstock: Any, root: object, option: str) -> None:
    """Each option of numbers by name says which one it is, what was expected and what came."""
    for given, says in (
        ("a->b=1,a->b=2", "'a->b' is given twice"),
        ("a->b=1,", "got ''"),
        ("a->b=", "got 'a->b='"),
        ("a->b=1x", "a->b: expected a number, got '1x'"),
        ("a->b=-1", "a->b: expected a finite number >= 0, got -1"),
    ):
        done = penstock(*OPTIONS[option], given)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"penstock: {option}: "), done.err
        assert says in done.err
        assert done.err.count("\n") == 1


def test_a_reader_of_its_own_says_what_it_expects() -> None:
    """What is wrong with a number that another reader reads is said in its words, at the option and the name."""

    def refuse(_: str) -> float:
        raise InputError("expected a duration")

    with pytest.raises(InputError) as caught:
        pairs("a=1", "--sink-latency", "sink=seconds", "a=5", refuse)
    assert (caught.value.at, caught.value.problem) == ("--sink-latency: a", "expected a duration")
