"""Options that belong together reach a command as one value, and commands stay short."""

from __future__ import annotations

import ast
import inspect
from typing import Annotated, Any, NamedTuple

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli.app import COMMANDS, load_command
from penstock.cli.options import flat, span


class Where(NamedTuple):
    """Two options."""

    host: Annotated[str, typer.Option("--host", help="A host.")]
    port: Annotated[int, typer.Option("--port", help="A port.")] = 8


def test_a_group_is_single_options_to_typer() -> None:
    """The fields of a group are options, what must be given comes first, and the command gets the group's value."""
    taken: list[tuple[Where, bool, str]] = []

    def command(
        where: Where,
        loud: Annotated[bool, typer.Option("--loud")] = False,
        name: Annotated[str, typer.Argument()] = "x",
    ) -> None:
        taken.append((where, loud, name))

    seen = flat(command)
    assert list(inspect.signature(seen).parameters) == ["host", "port", "loud", "name"]
    app = typer.Typer()
    app.command()(seen)
    result = CliRunner().invoke(app, ["--port", "3", "--host", "h1", "--loud", "y"])
    assert result.exit_code == 0, result.output
    assert CliRunner().invoke(app, ["--host", "h2"]).exit_code == 0
    assert taken == [(Where("h1", 3), True, "y"), (Where("h2", 8), False, "x")]
    assert CliRunner().invoke(app, ["--port", "3"]).exit_code == 2


def test_a_command_without_groups_is_left_alone() -> None:
    """A command that takes its options one by one is given to Typer as it is."""

    def command(loud: bool = False) -> None:
        raise AssertionError(loud)

    assert flat(command) is command


@pytest.mark.parametrize("most", [("lines", 60), ("parameters", 6)], ids=lambda most: most[0])
def test_commands_stay_short(root, most) -> None:
    """No function of the command line is longer than 60 lines or takes more than 6 parameters."""
    what, limit = most
    found = {}
    for file in sorted((root / "src/penstock/cli").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                count = len(node.args.args) + len(node.args.kwonlyargs)
                found[f"{file.name}:{node.name}"] = length if what == "lines" else count
    assert len(found) > 100
    assert {name: number for name, number in found.items() if number > limit} == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [("5", 5.0), ("0.5", 0.5), (5.0, 5.0), ("2 minutes", 120.0), ("1 m 30 s", 90.0), ("-1", -1.0)],
)
def test_times_are_seconds_or_have_a_unit(given: str | float, expected: float) -> None:
    """An option of seconds takes a number, whose range the command checks, or a time with its unit."""
    assert span(given) == expected


def test_a_time_that_is_none_is_refused_by_its_option() -> None:
    """What is neither is an error of the option."""
    app = typer.Typer()

    @app.command()
    def command(every: Annotated[float, typer.Option("--every", parser=span)] = 1.0) -> None:
        raise AssertionError(every)

    result = CliRunner().invoke(app, ["--every", "5 x"])
    assert result.exit_code == 2
    assert "--every" in result.output
    assert "'5 x'" in result.output


@pytest.mark.parametrize("name", [name for name in COMMANDS if "seed" in {p.name for p in load_command(name).params}])
def test_seeds_are_not_negative(penstock: Any, name: str) -> None:
    """Every command with a seed refuses a negative one in one message."""
    done = penstock(name, "--seed", "-1")
    assert (done.code, done.err) == (2, "penstock: --seed: expected a seed of at least 0, got -1\n")


NEW = ["none.toml", "new.toml", "--rates", "a=1", "--placement", "f=h1", "--latency", "1"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "none.toml", "--control-period", "-1"], "--control-period: expected --plan with --control-period"),
        (["admit", *NEW, "--directory", "run"], "--directory: expected --apply with --directory"),
        (["advise", "none.json", "--burst-length", "5"], "--burst-length: expected --burst with --burst-length"),
    ],
)
def test_what_would_be_ignored_is_refused(penstock: Any, words: list[str], says: str) -> None:
    """An option that means nothing without another one is refused before any file is read."""
    done = penstock(*words)
    assert (done.code, done.err) == (2, f"penstock: {says}\n")


def test_a_run_ends_in_one_way(penstock: Any) -> None:
    """A run that ends when all is delivered takes no time after which to stop."""
    done = penstock("run", "none.toml", "--once", "--for", "1")
    assert (done.code, done.err.strip()) == (
        2,
        "penstock: --for: does not go with --once, which ends when all is delivered",
    )


def test_standard_input_is_read_once(penstock: Any) -> None:
    """Two inputs that are to come from standard input are refused before either is read."""
    done = penstock("place", "-", "--hosts", "2", "--rates=-")
    assert (done.code, done.out) == (2, "")
    assert "only one input can come from standard input" in done.err
