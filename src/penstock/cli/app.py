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
    dashboard,
    demo,
    estimate,
    hosts,
    inspect,
    load,
    place,
    progress,
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

OF_DASHBOARD = ("fastapi", "pydantic", "starlette", "uvicorn")
"""Packages that ``pip install 'penstock[dashboard]'`` brings."""

COMMANDS: dict[str, Callable[..., None]] = {
    "inspect": inspect.command,
    "advise": advise.command,
    "dashboard": dashboard.command,
    "demo": demo.command,
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
    "control": control.command,
    "status": controlled.status,
    "move": controlled.move,
    "drain": controlled.drain,
    "stop": controlled.stop,
    "history": controlled.history,
    "reproduce": reproduce.command,
}
"""In the order of a newcomer's questions: what have I got, what would happen, run it, keep it running."""

SHORT: dict[str, str] = {
    "inspect": "What your Spark jobs cost, from their event logs.",
    "advise": "What to change about them, and what it gains.",
    "dashboard": "Watch a run, a controller or logs on one page.",
    "demo": "Everything once, on this machine.",
    "load": "Rate and load of every operator.",
    "place": "Which operator runs on which host.",
    "estimate": "How long rows will take.",
    "compare": "Rank placements by latency.",
    "admit": "Whether one more query fits.",
    "provision": "How many hosts are enough.",
    "shed": "What to drop when there is too much.",
    "simulate": "Run in virtual time.",
    "calibrate": "Measure what operators cost on your Spark.",
    "run": "Run on Spark, and compare with the prediction.",
    "control": "Keep a running network healthy.",
    "status": "How a controlled network stands.",
    "move": "Move an operator while it runs.",
    "drain": "Empty a host while it runs.",
    "stop": "Stop a controller and what it runs.",
    "history": "What a controller decided, and why.",
    "reproduce": "Repeat the papers' experiments.",
}
"""What the list of commands says of each, on one line of a narrow terminal."""

GROUPS: dict[str, typer.Typer] = {"hosts": hosts.app}
"""Commands with commands of their own."""

# Options that take several values after one name, which click cannot parse by itself.
_SEVERAL = ("--placements",)
QUIET = "--quiet"

app = typer.Typer(
    name="penstock",
    help="A load manager for Apache Spark Structured Streaming: measure, predict, place, shed, run.",
    epilog="You have Spark jobs: penstock inspect LOGS. You have none: penstock demo.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command in COMMANDS.items():
    app.command(_name, short_help=SHORT[_name])(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name, short_help="Start, list and stop Spark hosts.")


@app.callback(invoke_without_command=True)
def _top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show no progress; may also stand behind the command.")
    ] = False,
) -> None:
    progress.quiet = quiet
    if version:
        typer.echo(penstock.__version__)
        raise typer.Exit


def arguments(given: list[str]) -> list[str]:
    """Return the arguments with ``--placements A B`` as ``--placements A --placements B``, and ``--quiet`` in front."""
    # --quiet belongs to all commands: wherever it stands, it is taken for the one in front of them.
    if QUIET in given:
        given = [QUIET, *(word for word in given if word != QUIET)]
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
        package = (error.name or "").partition(".")[0]
        for extra, packages in (("spark", OF_SPARK), ("dashboard", OF_DASHBOARD)):
            if package in packages:
                what = "Spark" if extra == "spark" else "the dashboard's packages"
                missing = InputError(
                    f"this needs {what}, and {package} is not installed", hint=f"pip install 'penstock[{extra}]'"
                )
                fail(missing, as_json="--json" in sys.argv)
        raise
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
