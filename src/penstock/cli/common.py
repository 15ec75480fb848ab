"""What the commands share: printing for people and programs."""

from __future__ import annotations

import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from penstock.cli.progress import progress as progress
from penstock.errors import Enough, Infeasible, PenstockError, printable
from penstock.files import Document, to_json
from penstock.units import digits

if TYPE_CHECKING:
    from penstock.cluster import Cluster

MEASURING = ("calibrate", "control", "run")
"""Commands that find out what a network leaves open, and so assume nothing."""

_UNBOUNDED, _WORD = 1_000_000, 24
"""Columns of a console that are enough for every table, and of a word, above which it may be folded."""

_command = ""
_notes: dict[str, None] = {}
"""The command at work, and what it is to say beside its answer: each once, in order."""


def begin(command: str) -> None:
    """Forget the notes of an earlier command."""
    global _command
    _command = command
    _notes.clear()


def measuring() -> bool:
    """Return whether the command at work measures what others assume."""
    return _command in MEASURING


def _heeded(*numbers: signal.Signals) -> list[signal.Signals]:
    """Return the signals to listen to: all but SIGHUP where it is ignored, as under nohup."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [n for n in numbers if n != signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]


@contextmanager
def ending_when_asked() -> Iterator[None]:
    """Let SIGTERM or a terminal that closes end the block as Ctrl-C does, so that what it has begun is cleaned up."""

    def leave(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    before = {each: signal.signal(each, leave) for each in _heeded(signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, each in before.items():
            signal.signal(number, each)


@contextmanager
def ending_in_order() -> Iterator[list[int]]:
    """Let the first Ctrl-C, SIGTERM or SIGHUP ask a run to end, and the next one end it at once; give the first.

    Where nothing runs that could end in order, the first one ends the block.
    """
    asked: list[int] = []

    def ask(number: int, _frame: object) -> None:
        restore()
        if number == signal.SIGHUP:
            # Of one terminal that closes both its shell and the system tell.
            signal.signal(number, signal.SIG_IGN)
        asked.append(number)
        raise Enough

    def restore() -> None:
        for number, each in before.items():
            signal.signal(number, each)

    before = {each: signal.signal(each, ask) for each in _heeded(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield asked
    except Enough:
        say("interrupted")
        sys.exit(128 + asked[0])
    finally:
        restore()


def leave_if_asked(asked: list[int]) -> None:
    """Leave by the exit code of the signal that has asked a run to end in order, if there was one."""
    if asked:
        say("interrupted: the report is of what was done until then, and the same command goes on with it")
        sys.exit(128 + asked[0])


def note(text: str) -> None:
    """Keep a line for people until there is an answer: a refusal stays one message."""
    _notes[text] = None


def note_rows(cluster: Cluster) -> None:
    """Keep the note of a simulation without micro-batches, where those of the cluster are known."""
    if cluster.spark.given and cluster.spark.mode == "micro-batch":
        note(
            "note: rows are served one by one; the micro-batches of this cluster, with their trigger and the overheads "
            f"of the statistics, count with --trigger {cluster.spark.trigger:g}"
        )


def say_notes() -> None:
    """Print the lines that were kept."""
    for text in _notes:
        say(text)
    _notes.clear()


def fail(error: PenstockError, *, as_json: bool) -> NoReturn:
    """Print one message and leave with the error's exit code."""
    if isinstance(error, Infeasible):
        say_notes()
        if as_json:
            sys.stdout.write(to_json({"feasible": False, "reason": error.reason, **error.document}))
    # What Spark says has many lines, with tabs.
    for line in f"penstock: {'no: ' if isinstance(error, Infeasible) else ''}{error}".expandtabs().splitlines():
        say(line)
    sys.exit(error.exit_code)


def say(text: str) -> None:
    """Print a line for people."""
    sys.stderr.write(printable(text.rstrip("\n")) + "\n")


def write(text: str, indent: str = "", following: str = "") -> None:
    """Print a paragraph for people on standard output, as wide as the terminal is where that can be read."""
    width = min(max(shutil.get_terminal_size((100, 24)).columns, 60), 120)
    filled = textwrap.fill(printable(text), width, initial_indent=indent, subsequent_indent=following)
    sys.stdout.write(filled + "\n")


def say_unread(document: Document) -> None:
    """Say, by a run's report, which messages and files it could not read or passed over, and what waits."""
    from penstock.running.report import unread

    for text in unread(*(document.get(key, {}) for key in ("gone", "skipped", "unfound", "unremoved", "held"))):
        say(text)


def answer(document: Document) -> None:
    """Print the one JSON document of ``--json``."""
    say_notes()
    sys.stdout.write(to_json(document))


def show_plan(found: Document) -> None:
    """Print what a plan table made of a run."""
    beyond = f", {found['outside']} beyond its region" if found["outside"] else ""
    table(
        f"keep fractions at the end, after {found['looks']} looks into the plan table{beyond}",
        ["stream", "keep"],
        list(found["keep"].items()) or [("(nothing is dropped)", "")],
    )
    if found.get("refused"):
        say(f"the plan asked to drop on {', '.join(found['refused'])}, where no window can be dropped whole")


def show_hosts(rows: Mapping[str, Mapping[str, float]]) -> None:
    """Print the load of hosts."""
    table(
        "hosts: load as a share of capacity",
        ["host", "mean", "std", "max"],
        [[name, row["mean"], row["std"], row["max"]] for name, row in rows.items()],
    )


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table for people on standard output: numbers as of `number`, what is not known left blank."""
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text as Line

    say_notes()
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    body = [[_cell(cell) for cell in row] for row in rows]
    foldable = 0
    for index, column in enumerate(columns):
        cells = [row[index] for row in body]
        numeric = all(map(_numeric, cells))
        foldable += 0 if numeric else max(_longest_word([column, *cells]) - _WORD, 0)
        shown.add_column(
            Line(column),
            justify="right" if numeric and index > 0 else "left",
            overflow="fold",
            no_wrap=numeric,
            # Digits that are cut off or broken are other numbers.
            min_width=max(map(cell_len, [column, *cells])) if numeric else None,
        )
    for row in body:
        # As it is: users' names may look like rich's markup.
        shown.add_row(*map(Line, row))
    console, heading = Console(highlight=False), Line(printable(title), style="italic")
    needed = console.measure(shown, options=console.options.update(width=_UNBOUNDED))
    # A file or pipe has no width; on a terminal texts fold, and what is too wide still is printed whole.
    wide = (
        max(console.width, needed.minimum - foldable) if sys.stdout.isatty() else max(needed.maximum, cell_len(title))
    )
    # Both, or a terminal that calls itself dumb has 80 columns.
    console.width, console.height = wide, console.height
    console.print(heading, shown, soft_wrap=False)


def number(value: float, digits: int = 4) -> str:
    """Return a number for people: so many digits, or all in front of the point where these are more."""
    return f"{value:.0f}" if 10**digits - 0.5 <= abs(value) < 1e9 else f"{value:.{digits}g}"


def _cell(value: object) -> str:
    if value is None or value != value:
        return ""
    return number(value) if isinstance(value, float) else printable(str(value))


def _longest_word(cells: Sequence[str]) -> int:
    from rich.cells import cell_len

    return max((cell_len(word) for cell in cells for word in cell.split()), default=0)


def _numeric(cell: str) -> bool:
    try:
        float(cell or 0)
    except ValueError:
        return False
    return True


def microseconds(row: Document) -> str:
    """Return an operator's cost for people (µs), or that it is below what calibration can tell from nothing.

    It is blank where it is not known.
    """
    cost, least = row.get("cost"), row.get("resolution") or 0.0
    if cost is None:
        return ""
    cost = max(cost) if isinstance(cost, list | tuple) else cost
    return f"< {digits(1e6 * least, 2)}" if cost < least else f"{1e6 * cost:.4g}"


def between(pair: Sequence[float]) -> str:
    """Return an interval for people, with three digits, or whole."""
    return " to ".join(number(value, 3) for value in pair)


def worst(value: float | None, document: Document) -> str:
    """Return a worst latency for people, with its interval, or that it has none though that was to decide."""
    if value is None:
        return "unknown"
    unknown = "its error is not known" if document["sure"] else ""
    within = between(document["interval"]["worst"]) if "interval" in document else unknown
    return f"{value:.4g} s{f' ({within})' if within else ''}"
