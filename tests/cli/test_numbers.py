"""Options that are numbers are refused in words for people."""

from __future__ import annotations

import inspect
import pkgutil
from pathlib import Path
from typing import Annotated, Any, get_args

import pytest
import typer

from penstock.cli.app import COMMANDS, GROUPS
from penstock.cli.options import flat, number, whole

NETWORK = "examples/two-chains/network.toml"
NUMBERS = (int, float, int | None, float | None)


def functions() -> list[Any]:
    """Return the functions of all commands as Typer sees them."""
    found = [pkgutil.resolve_name(f"penstock.cli.{row.where}") for row in (COMMANDS | GROUPS).values()]
    groups = [each for each in found if isinstance(each, typer.Typer)]
    below = [row.callback for group in groups for row in group.registered_commands]
    return [*(flat(each) for each in found if not isinstance(each, typer.Typer)), *below]


def test_every_number_has_our_words() -> None:
    """No option or argument of any command leaves a number to Typer, whose refusals speak of its validator."""
    seen = 0
    for function in functions():
        for parameter in inspect.signature(function, eval_str=True).parameters.values():
            kind, *said = get_args(parameter.annotation) or (parameter.annotation,)
            if kind in NUMBERS:
                seen += 1
                assert said, parameter.name
                assert said[0].parser is not None, f"{function.__module__}: {parameter.name}"
    assert seen > 50


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["load", NETWORK, "--hosts", "two"], "--hosts: expected a whole number, got 'two'"),
        (["load", NETWORK, "--hosts", "2.5"], "--hosts: expected a whole number, got '2.5'"),
        (["load", NETWORK, "--hosts", ""], "--hosts: expected a whole number, got ''"),
        (["simulate", NETWORK, "--seed", "x"], "--seed: expected a whole number, got 'x'"),
        (["compare", NETWORK, "--top", "all"], "--top: expected a whole number, got 'all'"),
        (["place", NETWORK, "--theta", "1/2"], "--theta: expected a number, got '1/2'"),
        (["shed", NETWORK, "--error", "5%"], "--error: expected a number, got '5%'"),
        (["dashboard", "--port", "http"], "--port: expected a whole number, got 'http'"),
    ],
)
def test_what_is_no_number_is_refused(penstock: Any, root: Path, words: list[str], refusal: str) -> None:
    """An option that wants a number names itself, what it expected and what came."""
    done = penstock(*words, *(["--rates", "clicks=1,buys=1"] if words[0] in ("load", "place", "simulate") else []))
    assert (done.code, done.out) == (2, "")
    assert refusal in done.err
    assert "Input should be" not in done.err


def test_numbers_are_read_as_before() -> None:
    """Whole numbers may have a sign and zeros behind a point; numbers have any form that Python reads."""
    assert [whole(text) for text in ("5", "-3", " 7 ", "2.0", "1_000", 4)] == [5, -3, 7, 2, 1000, 4]
    assert [number(text) for text in ("5", "0.5", "1e-3", 2.5)] == [5.0, 0.5, 0.001, 2.5]
    for text in ("2.5", "1e3", "nan", "9" * 5000, ""):
        with pytest.raises(typer.BadParameter, match="expected a whole number") as refused:
            whole(text)
        assert len(str(refused.value)) < 120


def test_a_command_with_a_number_alone_is_heard() -> None:
    """A command without groups of options gets its number as a number."""
    taken: list[int] = []

    def command(port: Annotated[int, typer.Option("--port")] = 8) -> None:
        taken.append(port)

    app = typer.Typer()
    app.command()(flat(command))
    from typer.testing import CliRunner

    assert CliRunner().invoke(app, ["--port", "3"]).exit_code == 0
    assert CliRunner().invoke(app, []).exit_code == 0
    assert CliRunner().invoke(app, ["--port", "x"]).exit_code == 2
    assert taken == [3, 8]
