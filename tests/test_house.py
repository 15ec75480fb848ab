"""How large the house's parts are: numbers that may fall and must not grow."""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "penstock"
FILES = {path: path.read_text() for path in sorted(SOURCE.rglob("*.py"))}

LONG, VERY_LONG, MANY, OPEN, MEDIAN = 12, 1, 0, 96, 110
"""Functions of more than 60 lines and of more than 80, those with more than 6 parameters, lines that say ``Any``, and
the lines of the middle file."""


def functions() -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield all functions."""
    for text in FILES.values():
        for part in ast.walk(ast.parse(text)):
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                yield part


def lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many lines a function has."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many parameters a function has, besides the object or class it is of."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    return len(names) + len(given.kwonlyargs) - (names[:1] in (["self"], ["cls"]))


def test_no_file_grows_beyond_500_lines():
    """No file has more than 500 lines."""
    found = {path.relative_to(SOURCE).as_posix(): len(text.splitlines()) for path, text in FILES.items()}
    assert {name: count for name, count in found.items() if count > 500} == {}
    assert statistics.median(found.values()) <= MEDIAN


def test_functions_stay_short():
    """No more functions than now have more than 60 lines, more than 80, or more than 6 parameters."""
    sizes = [lines(function) for function in functions()]
    assert sum(size > 60 for size in sizes) <= LONG
    assert sum(size > 80 for size in sizes) <= VERY_LONG
    assert statistics.median(sizes) <= 8
    assert sum(parameters(function) > 6 for function in functions()) <= MANY


def test_types_say_what_things_are():
    """No more lines than now leave open what a value is."""
    told = [line for text in FILES.values() for line in text.splitlines() if re.search(r"\bAny\b", line)]
    assert sum("import" not in line and not re.search(r'(?:"""|#|^ *)Any ', line) for line in told) <= OPEN
