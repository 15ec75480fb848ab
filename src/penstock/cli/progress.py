"""How far long work is: a bar in a terminal, and lines at milestones where nobody watches a bar."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.errors import printable

Tell = Callable[[str, float], None]

PATIENCE, APART, SILENCE = 3.0, 1.0, 30.0
"""Seconds before the first line, between two lines at least, and between two lines at most while work goes on."""

quiet = False
"""Whether ``--quiet`` was given; `penstock.cli.app.main` sets it once."""


@contextmanager
def progress(clock: Callable[[], float] = time.monotonic) -> Iterator[Tell]:
    """Show on standard error how far work is; nothing with ``--quiet``."""
    if quiet:
        yield lambda _what, _share: None
    elif sys.stderr.isatty():
        with _bar() as tell:
            yield tell
    else:
        yield Milestones(clock)


@contextmanager
def _bar() -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:<28}", markup=False),
        BarColumn(),
        TaskProgressColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    # Few refreshes: hosts may be pinned to every core of this machine.
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=2) as bar:
        task = bar.add_task("", total=1.0)

        def tell(what: str, share: float) -> None:
            nonlocal task
            known = not math.isnan(share)
            if known != (bar.tasks[0].total is not None):
                # rich takes a total away from no task.
                bar.remove_task(task)
                task = bar.add_task("", total=1.0 if known else None)
            bar.update(task, description=printable(what), completed=share if known else 0.0)

        yield tell


class Milestones:
    """Writes a line when something new is done or a quarter more is, with the time that has passed.

    Work that is over soon writes nothing, and nothing is written twice within a second.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._begin = clock, clock()
        self._told: tuple[str, int] = ("", 0)
        self._last = -1e9

    def __call__(self, what: str, share: float) -> None:
        """Take in what is being done, and how much of all is done (0 to 1; NaN: nobody knows)."""
        passed = self._clock() - self._begin
        known = not math.isnan(share)
        reached, since = (what, int(4 * share) if known else 0), passed - self._last
        if passed < PATIENCE or since < APART or (reached == self._told and since < SILENCE):
            return
        self._told, self._last = reached, passed
        done = f"{share:4.0%}" if known else "    "
        sys.stderr.write(f"{passed:5.0f} s  {done}  {printable(what)}\n")
        sys.stderr.flush()
