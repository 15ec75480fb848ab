"""The one error tree.

    PenstockError                 everything that penstock raises on purpose
    ├── InputError                a file, argument or value is wrong                       exit code 2
    │   └── TooLong               a backlog is too long for a latency model to follow it
    ├── Infeasible                the question was understood and the answer is no         exit code 1
    ├── HostError                 a Spark host cannot be started, reached or trusted       exit code 2
    ├── EngineError               a running deployment failed                              exit code 2
    └── NotReady                  not enough observations yet: ask again later             never leaves the loop

A message says what was expected, what came, and what to do.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager


class Enough(KeyboardInterrupt):
    """Whoever started a run asks it to end: what it has done until then counts."""


class PenstockError(Exception):
    """Base of all errors that penstock raises on purpose."""

    exit_code = 2


class InputError(PenstockError):
    """A file, argument or value that the user gave is wrong.

    Parameters
    ----------
    problem
        What is wrong: what was expected and what came.
    file, line
        Where it stands, if it stands in a file.
    at
        The table and key (``operators.views.cost``), column or option.
    hint
        What to do about it.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: object = None,
        line: int | None = None,
        at: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.problem, self.file, self.line, self.at, self.hint = problem, file, line, at, hint
        super().__init__(problem)

    def __str__(self) -> str:
        where = str(self.file) if self.file is not None else ""
        if self.line is not None:
            where += f":{self.line}"
        parts = [where, *(_line(part) for part in (self.at, self.problem) if part)]
        return ": ".join(part for part in parts if part) + (f" ({_line(self.hint)})" if self.hint else "")

    def located(self, file: object, line: int | None = None) -> InputError:
        """Return the same error, placed in a file."""
        return InputError(self.problem, file=self.file or file, line=self.line or line, at=self.at, hint=self.hint)


class TooLong(InputError):
    """A backlog that a latency model cannot follow to its end, and so is longer than any bound."""


@contextmanager
def locating(file: object) -> Iterator[None]:
    """Place the errors of a block in a file, where they are in none yet."""
    try:
        yield
    except InputError as error:
        raise error.located(file) from None


@contextmanager
def writing(file: object) -> Iterator[None]:
    """Say of which file it is that a block cannot write it: of a full disk the system names none."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=file) from None


def no_locks(error: OSError, file: object, option: str = "--directory") -> InputError:
    """Return the error of a file that cannot be locked, other than since somebody else has locked it."""
    why = f"this file system has no locks: {error.strerror}"
    return InputError(why, file=file, hint=f"name a {option} elsewhere")


BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change in which order others are shown."""


def commands(character: str) -> bool:
    """Whether a character tells a terminal what to do, or lets text look like another; joiners of letters do not."""
    # Hardly any is.
    return not character.isprintable() and (
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in BIDI
    )


def printable(text: str) -> str:
    r"""Return a text on one line as a terminal may show it: characters that would command it are written out.

    Examples
    --------
    >>> printable("a\x1b[2K")
    'a\\x1b[2K'
    """
    return "".join(repr(char)[1:-1] if commands(char) else char for char in text)


def _line(text: str, length: int = 300) -> str:
    """Return a text on one line that is not endless."""
    shown = printable(text[: length + 1])
    return shown if len(text) <= length else shown[: length - 1] + "…"


class Infeasible(PenstockError):
    """The question was understood, and the answer is no.

    Parameters
    ----------
    reason
        Which host, link or bound falls short, and by how much.
    document
        What a ``--json`` caller gets besides ``feasible: false`` and ``reason``.
    """

    exit_code = 1

    def __init__(self, reason: str, **document: object) -> None:
        self.reason = reason
        self.document = document
        super().__init__(reason)


class HostError(PenstockError):
    """A Spark host cannot be started, reached or trusted."""


class EngineError(PenstockError):
    """A running deployment failed."""


class NotReady(PenstockError):
    """Not enough observations yet; a normal answer inside the control loop."""
