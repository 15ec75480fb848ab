"""Why a query ended, in a line."""

from __future__ import annotations

import re

TRACEBACK, STOPPED = "Traceback (most recent call last):", "Fenced: penstock has stopped "
"""What begins the part of an exception that Python tells, and how penstock's own stops and moves end a query."""

LONGEST = 300
"""Letters of a cause that are kept."""

JAVA = re.compile(r"\n\s+at |\nJVM stacktrace")
"""Where the stack of the JVM begins."""


def cause_of(exception: str | None) -> str | None:
    r"""Return what ended a query: of a Python error the line that says it; None where it was stopped.

    Examples
    --------
    >>> cause_of("Found: Traceback (most recent call last):\n  File x\nKeyError: 'k'\n SQLSTATE: 38000\n\tat a")
    "KeyError: 'k'"
    >>> cause_of("java.lang.OutOfMemoryError: heap\n at somewhere")
    'java.lang.OutOfMemoryError: heap'
    """
    text = (exception or "").strip()
    if not text or STOPPED in text:
        return None
    _, python, told = text.rpartition(TRACEBACK)
    lines = JAVA.split(told, maxsplit=1)[0].splitlines()
    # Spark puts its SQLSTATE behind what Python says, and frames are indented.
    said = [line for line in lines if line.strip() and not line[0].isspace()] if python else []
    cause = " ".join((said[-1] if said else text.splitlines()[0]).split())
    if len(cause) <= LONGEST:
        return cause
    whole, _, rest = cause[: LONGEST - 1].rpartition(" ")
    # A path or plan may be one long word.
    return f"{whole if len(rest) < LONGEST / 2 else cause[: LONGEST - 2]} …"
