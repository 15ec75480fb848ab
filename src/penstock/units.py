"""Units: SI everywhere inside, words at the border."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from penstock.errors import InputError

_SECONDS = {
    "us": 1e-6, "µs": 1e-6, "microsecond": 1e-6,
    "ms": 1e-3, "millisecond": 1e-3,
    "s": 1.0, "sec": 1.0, "second": 1.0,
    "m": 60.0, "min": 60.0, "minute": 60.0,
    "h": 3600.0, "hour": 3600.0,
    "d": 86400.0, "day": 86400.0,
}  # fmt: skip
_SPOKEN = (
    (86400.0, "d", 2), (3600.0, "h", 2), (60.0, "min", 2),
    (1.0, "s", 1), (1e-3, "ms", 1), (1e-6, "µs", 1),
)  # fmt: skip
"""Seconds of the units in which durations are told, and from how many of them on."""
_DURATION = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([a-zµ]+)\s*", re.IGNORECASE)

_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([kmgtp]?)(?:i?b)?\s*", re.IGNORECASE)


def decimal(text: str | float) -> float:
    """Return a number as it is written in files and options everywhere: without Python's ``_`` between digits.

    Raises
    ------
    ValueError
        If the text is no number.

    Examples
    --------
    >>> decimal("1e3")
    1000.0
    """
    if isinstance(text, str) and ("_" in text or not text.isascii()):
        raise ValueError(f"expected a number, got {text!r}")
    return float(text)


def number(
    text: str,
    at: str,
    file: str | None = None,
    line: int | None = None,
    read: Callable[[str], float] = decimal,
) -> float:
    """Return a finite number of at least 0: of a cell of a file, or of a part of an option.

    Parameters
    ----------
    at, file, line
        Where it stands, for messages.
    read
        Returns the number of the text.

    Raises
    ------
    InputError
        Naming the place, what was expected and what came.
    """
    try:
        value = read(text)
    except InputError as error:
        raise InputError(error.problem, at=at, file=file, line=line) from None
    except ValueError:
        raise InputError(f"expected a number, got {text[:40]!r}", at=at, file=file, line=line) from None
    if not math.isfinite(value) or value < 0:
        raise InputError(f"expected a finite number >= 0, got {text}", at=at, file=file, line=line)
    return value


def pairs(text: str, option: str, form: str, example: str, read: Callable[[str], float] = decimal) -> dict[str, float]:
    """Return the numbers that an option gives by name, each name once.

    A name may be that of a stream: it ends at the last ``=``.

    Parameters
    ----------
    form, example
        What messages call a name and its number, and an option that is well written.
    read
        Returns the number behind a name.

    Raises
    ------
    InputError
        Naming the option, what was expected and what came.

    Examples
    --------
    >>> pairs("clicks=100,bids=5e1", "--rates", "source=rate", "clicks=1")
    {'clicks': 100.0, 'bids': 50.0}
    """
    found: dict[str, float] = {}
    for item in text.split(","):
        name, _, value = (part.strip() for part in item.rpartition("="))
        if not (name and value):
            raise InputError(f"expected {form}, got {item!r}", at=option, hint=f"e.g. {example}")
        if name in found:
            raise InputError(f"{form.partition('=')[0]} {name!r} is given twice", at=option)
        found[name] = number(value, f"{option}: {name}", read=read)
    return found


def seconds(text: str | float) -> float:
    """Return a duration in seconds.

    Parameters
    ----------
    text
        A number of seconds, or a number and a unit such as ``"10 seconds"``, ``"500 ms"``, ``"1 minute 30 seconds"``.

    Raises
    ------
    InputError
        If the text is not a finite duration >= 0.

    Examples
    --------
    >>> seconds("1 minute 30 seconds")
    90.0
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise InputError(f"expected a duration such as '10 seconds', got {text!r}")
    if not isinstance(text, str):
        total = float(text)
    else:
        total, end = 0.0, 0
        while match := _DURATION.match(text, end):
            unit = match[2].lower()
            factor = _SECONDS.get(unit, _SECONDS.get(unit.removesuffix("s")))
            if factor is None:
                break
            total, end = total + float(match[1]) * factor, match.end()
        if end == 0 or end != len(text):
            raise InputError(f"expected a duration such as '10 seconds' or '500 ms', got {text!r}")
    if not (math.isfinite(total) and total >= 0):
        raise InputError(f"expected a finite duration >= 0, got {text!r}")
    return total


def spoken(text: str | float) -> float:
    """Return the seconds of an option: a number, whose range the command checks, or a duration with its unit.

    Raises
    ------
    InputError
        If the text is neither.

    Examples
    --------
    >>> spoken("5"), spoken("500 ms")
    (5.0, 0.5)
    """
    try:
        return decimal(text)
    except ValueError:
        return seconds(text)


def factor(text: str | float) -> float:
    """Return a factor: a number, or one with an x behind it.

    Raises
    ------
    InputError
        If the text is no number.

    Examples
    --------
    >>> factor("3x"), factor(1.5)
    (3.0, 1.5)
    """
    try:
        return float(text.strip().rstrip("xX×") if isinstance(text, str) else text)
    except (TypeError, ValueError):
        raise InputError(f"expected a factor such as 3 or 3x, got {text!r}") from None


def size(text: str | float) -> float:
    """Return a number of bytes.

    Parameters
    ----------
    text
        A number, or a number and a unit as Spark and others write it: ``"512m"``, ``"4g"``, ``"1.5 GiB"``; all of
        them are powers of 1024.

    Raises
    ------
    InputError
        If the text is not a finite size > 0.

    Examples
    --------
    >>> size("1.5 KiB")
    1536.0
    """
    found = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if isinstance(text, str):
        total = float(found[1]) * 1024.0 ** " kmgtp".index(found[2].lower() or " ") if found else math.nan
    else:
        total = math.nan if isinstance(text, bool) else float(text)
    if not (math.isfinite(total) and total > 0):
        raise InputError(f"expected a size such as '4g' or '512 MiB', got {text!r}")
    return total


def size_text(count: float) -> str:
    """Return a number of bytes for people.

    Examples
    --------
    >>> size_text(1536), size_text(4 * 2**30)
    ('1.5 KiB', '4 GiB')
    """
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count >= 1024.0**power:
            return f"{count / 1024.0**power:.3g} {unit}"
    return f"{count:.0f} B"


def spark_interval(duration: float) -> str:
    """Return a duration in seconds as an interval that Spark reads, exact to the microsecond."""
    return f"{round(duration * 1e6)} microseconds"


def digits(value: float, count: int) -> str:
    """Return a number for people, with so many digits and no power of ten for large ones.

    Examples
    --------
    >>> digits(0.4912, 2), digits(134.2, 2), digits(999.7, 3), digits(1234.5, 3)
    ('0.49', '130', '1,000', '1,230')
    """
    rounded = float(f"{value:.{count}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:g}"


def human(duration: float) -> str:
    """Return a duration in seconds for people: three digits and a fitting unit, minutes from two of them on.

    Examples
    --------
    >>> human(0.0123), human(0.9997), human(90), human(150), human(9000)
    ('12.3 ms', '1 s', '90 s', '2.5 min', '2.5 h')
    """
    for factor, unit, least in _SPOKEN:
        # As it will be written: 999.7 ms are 1 s.
        if float(f"{abs(duration) / factor:.3g}") >= least:
            return f"{digits(duration / factor, 3)} {unit}"
    return "0 s" if duration == 0 else f"{duration * 1e9:.3g} ns"
