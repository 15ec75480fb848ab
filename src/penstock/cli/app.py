"""The ``penstock`` command: one row per command, one file per row."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

import penstock
from penstock.cli import (
    admit,
    advise,
    calibrate,
    compare,
    control,
    controlled,
    demo,
    estimate,
    hosts,
    inspect,
    load,
    place,
    provision,
    reproduce,
    run,
    shed,
    simulate,
)
from penstock.cli.common import fail
from penstock.errors import InputError, PenstockError

OF_SPARK = ("pandas", "psutil", "pyarrow", "pyspark", "sqlglot")
"""Packages that ``pip install 'penstock[spark]'`` brings."""

COMMANDS: dict[str, Callable[..., None]] = {
    "load": load.command,
    "place": place.command,
    "estimate": estimate.command,
    "compare": compare.command,
    "admit": admit.command,
    "provision": provision.command,
    "shed": shed.command,
    "simulate": simulate.command,
    "calibrate": calibrate.command,
    "run": run.command,
    "demo": demo.command,
    "reproduce": reproduce.command,
    "inspect": inspect.command,
    "advise": advise.command,
    "control": control.command,
    "status": controlled.status,
    "move": controlled.move,
    "drain": controlled.drain,
    "stop": controlled.stop,
    "history": controlled.history,
}

GROUPS: dict[str, typer.Typer] = {"hosts": hosts.app}
"""Commands with commands of their own."""

# Options that take several values after one name, which click cannot parse by itself.
_SEVERAL = ("--placements",)

app = typer.Typer(
    name="penstock",
    help="A load manager for Apache Spark Structured Streaming: measure, predict, place, shed, run.",
    epilog="Begin with: penstock demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        typer.echo(penstock.__version__)
        raise typer.Exit


def arguments(given: list[str]) -> list[str]:
    """Return the arguments with ``--placements A B`` written as ``--placements A --placements B``."""
    done: list[str] = []
    option: str | None = None
    fresh = False
    for word in given:
        if word in _SEVERAL:
            option, fresh = word, True
            continue
        if option and word.startswith("-") and word != "-":
            option = None
        if option:
            done.append(option)
            fresh = False
        done.append(word)
    return [*done, option] if option and fresh else done


def main() -> None:
    """Run the command line and leave by the exit code of the contract."""
    try:
        app(arguments(sys.argv[1:]))
    except PenstockError as error:
        fail(error, as_json="--json" in sys.argv)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in OF_SPARK:
            raise
        missing = InputError(
            f"this needs Spark, and {error.name} is not installed", hint="pip install 'penstock[spark]'"
        )
        fail(missing, as_json="--json" in sys.argv)
    except MemoryError:
        short = InputError("the memory of this machine is not enough for the answer", hint="take longer periods")
        fail(short, as_json="--json" in sys.argv)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has left (e.g. head): nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


if __name__ == "__main__":
    main()
