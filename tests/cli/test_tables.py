"""Tables for people are whole: in a pipe, on a narrow terminal, with long texts."""

from __future__ import annotations

import re
import sys

import pytest

from penstock.cli import common

COLUMNS = ["rank", "given", "placement", *(f"number {k}" for k in range(8))]
GIVEN = ",".join(f"operator{k}=h1" for k in range(40))
TEXT = ", ".join(f"operator_number_{k}=h{k % 3}" for k in range(40))
NUMBERS = [1.234 * 10**k for k in range(8)]


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines of a table with a long text and many numbers."""
    common.table("a title", COLUMNS, [["1", GIVEN, TEXT, *NUMBERS]])
    return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()


def test_a_pipe_gets_a_row_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Where there is no width nothing is cut off or folded."""
    row = next(line for line in shown(capsys) if TEXT in line and GIVEN in line)
    assert all(f"{number:.4g}" in row.split() for number in NUMBERS)


@pytest.mark.parametrize("term", ["xterm", "dumb"])
@pytest.mark.parametrize("width", [20, 80, 150])
def test_a_terminal_gets_every_digit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, term: str, width: int
) -> None:
    """Texts fold, numbers and their headings stay whole, and what is too wide still is printed wider."""
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = shown(capsys)
    assert "…" not in "".join(lines)
    row = next(line for line in lines if "1.234" in line).split()
    assert all(f"{number:.4g}" in row for number in NUMBERS)
    assert all(any(column in line for line in lines) for column in COLUMNS)
    assert all(any(word in line for line in lines) for word in TEXT.split())
    if width == 150:
        assert max(map(len, lines)) <= 150
