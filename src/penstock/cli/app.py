"""The ``penstock`` command: one row per command, one file per row, loaded when it is called."""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import io
import os
import pkgutil
import re
import sys
import textwrap
import warnings
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import typer
import typer.core
import typer.main

import penstock
from penstock.cli import progress
from penstock.cli.common import begin, fail, say
from penstock.cli.options import flat
from penstock.cli.streams import Unwritten, guarded
from penstock.errors import InputError, PenstockError
from penstock.extras import missing
from penstock.files import suggest


class Row(NamedTuple):
    """A command: its function, or its own group of commands, below `penstock.cli`, and one line for the list."""

    where: str
    says: str


COMMANDS = {
    "inspect": Row("inspect:command", "What your Spark jobs cost, from their event logs."),
    "advise": Row("advise:command", "What to change about them, and what it gains."),
    "dashboard": Row("dashboard:command", "Watch a run, a controller or logs on one page."),
    "demo": Row("demo:command", "Everything once, on this machine."),
    "load": Row("load:command", "Rate and load of every operator."),
    "place": Row("place:command", "Which operator runs on which host."),
    "estimate": Row("estimate:command", "How long rows will take."),
    "compare": Row("compare:command", "Rank placements by latency."),
    "admit": Row("admit:command", "Whether one more query fits."),
    "provision": Row("provision:command", "How many hosts are enough."),
    "shed": Row("shed:command", "What to drop when there is too much."),
    "simulate": Row("simulate:command", "Run in virtual time."),
    "calibrate": Row("calibrate:command", "Measure what operators cost on your Spark."),
    "run": Row("run:command", "Run on Spark, and compare with the prediction."),
    "control": Row("control:command", "Keep a running network healthy."),
    "status": Row("controlled:status", "Show a controlled network."),
    "move": Row("controlled:move", "Move an operator while it runs."),
    "drain": Row("controlled:drain", "Empty a host while it runs."),
    "stop": Row("controlled:stop", "Stop a controller and what it runs."),
    "history": Row("controlled:history", "What a controller decided, and why."),
    "reproduce": Row("reproduce:command", "Repeat the papers' experiments."),
}
"""In the order of a newcomer's questions: what have I got, what would happen, run it, keep it running."""

GROUPS = {"hosts": Row("hosts:app", "Start, list and stop Spark hosts.")}
"""Commands with commands of their own."""


class Command(typer.core.TyperCommand):
    """Breaks no word of its help, so that the example runs as it is printed."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the paragraphs of the help; Typer's own way cuts paths at hyphens."""
        for paragraph in inspect.cleandoc(self.help or "").split("\n\n"):
            formatter.write_paragraph()
            words = textwrap.TextWrapper(formatter.width, "  ", "  ", break_long_words=False, break_on_hyphens=False)
            formatter.write(words.fill(" ".join(paragraph.split())) + "\n")


@functools.cache
def load_command(name: str) -> typer.core.TyperCommand | typer.core.TyperGroup:
    """Import the file of a command, and return what parses its options."""
    made = pkgutil.resolve_name(f"penstock.cli.{(COMMANDS | GROUPS)[name].where}")
    if not isinstance(made, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(name, cls=Command)(flat(made))
        made = alone
    command = typer.main.get_command(made)
    command.name = name
    return command  # type: ignore[return-value]


_UsageError: type[Any] = typer.BadParameter.__base__ or Exception
"""What Typer raises where a command line does not parse: of click, or of its own copy of it."""
_HELP: type[Any] | tuple[()] = getattr(sys.modules[_UsageError.__module__], "NoArgsIsHelpError", ())


@contextlib.contextmanager
def _in_one_message() -> Iterator[None]:
    """Say what is wrong with a command line as we say what is wrong with a file."""
    try:
        yield
    except _HELP:
        raise
    except _UsageError as error:
        problem, near = error.format_message().partition(" (Possible options")[0], getattr(error, "possibilities", None)
        value = re.match(r"Invalid value for (.+?): ", problem)
        at, problem = value and value[1].replace("'", ""), problem[value.end() if value else 0 :].strip().rstrip(".")
        hint = suggest(error.option_name, near) if near else f"see {error.ctx.command_path} -h" if error.ctx else None
        raise InputError(problem[:1].lower() + problem[1:], at=at, hint=hint) from None
    except BrokenPipeError as error:
        # Such as Spark's: Typer would take it for a reader of the answer who has left, and end without a word.
        raise ConnectionError(str(error)) from error


class LazyGroup(typer.core.TyperGroup):
    """Lists the commands from the tables above, and imports the one that is called: starting takes a third."""

    def make_context(self, *given: Any, **more: Any) -> Any:
        """Parse what stands in front of the command."""
        with _in_one_message():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        """Parse the rest, and call the command."""
        with _in_one_message():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, loaded."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and load_command(str(listed.name)), rest

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options in front of the command."""
        # Typer leaves its own flags at None, and imports pydantic (0.1 s) to check what is no truth value.
        for option in self.get_params(ctx):
            option.default = option.default or False
        return super().parse_args(ctx, args)


# Options that take several values after one name, which click cannot parse by itself.
_SEVERAL = ("--placements",)
QUIET = "--quiet"

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says of a full disk, without a file."""

app = typer.Typer(
    name="penstock",
    cls=LazyGroup,
    help="A load manager for Apache Spark Structured Streaming: measure, predict, place, shed, run.",
    epilog="You have Spark jobs: penstock inspect LOGS. You have none: penstock demo.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _row in (COMMANDS | GROUPS).items():
    app.command(_name, short_help=_row.says)(lambda: None)


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show no progress; may also stand behind the command.")
    ] = False,
) -> None:
    progress.quiet = quiet
    begin(context.invoked_subcommand or "")
    if version:
        typer.echo(penstock.__version__)
        raise typer.Exit


def arguments(given: list[str]) -> list[str]:
    """Return the arguments with ``--placements A B`` as ``--placements A --placements B``, and ``--quiet`` in front.

    Raises
    ------
    InputError
        If two inputs are to come from standard input, which can be read once.
    """
    if sum(word == "-" or word.endswith("=-") for word in given) > 1:
        raise InputError("only one input can come from standard input", at="-", hint="write the others to files")
    # --quiet belongs to all commands: wherever it stands, it is taken for the one in front of them.
    if QUIET in given:
        given = [QUIET, *(word for word in given if word != QUIET)]
    done: list[str] = []
    option: str | None = None
    fresh = False
    for word in given:
        if word.startswith("-") and word != "-":
            if option and fresh:
                break  # without a value: Typer says so where it is the last word
            option = None
        if word in _SEVERAL:
            option, fresh = word, True
            continue
        if option:
            done.append(option)
            fresh = False
        done.append(word)
    return [*done, option] if option and fresh else done


def main() -> None:
    """Run the command line and leave by the exit code of the contract."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Whoever called us has closed it, and wants nothing of it.
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for the rest of the process
        elif isinstance(stream, io.TextIOWrapper) and "utf" not in stream.encoding.lower():
            # Users' names may have letters that the locale cannot write.
            stream.reconfigure(errors="backslashreplace")
    warnings.formatwarning = _told
    with guarded():
        try:
            try:
                _run()
            finally:
                # What cannot be written any more is told here, and not by Python when it ends.
                sys.stdout.flush()
        except Unwritten as error:
            _write_no_more()
            if isinstance(error.__cause__, BrokenPipeError):
                # The reader of our output has left (e.g. head): nothing more to say.
                sys.exit(0)
            fail(InputError(f"the answer cannot be written: {error}"), as_json=False)


def _told(message: Warning | str, *_: object, **__: object) -> str:
    """Return a warning as people read it: where Python code gave it tells them nothing."""
    return f"{message}\n"


def _run() -> None:
    try:
        app(arguments(sys.argv[1:]))
    except PenstockError as error:
        fail(error, as_json="--json" in sys.argv)
    except ImportError as error:
        fail(missing(error), as_json="--json" in sys.argv)
    except MemoryError:
        short = InputError("the memory of this machine is not enough for the answer", hint="take longer periods")
        fail(short, as_json="--json" in sys.argv)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)
    except OSError as error:
        # Such as a home where the shell's completion cannot be installed, or a disk that is full.
        if error.filename is None and error.errno not in FULL:
            raise
        fail(InputError(error.strerror or str(error), file=error.filename), as_json="--json" in sys.argv)


def _write_no_more() -> None:
    """Let what is still to be written to standard output go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    main()
