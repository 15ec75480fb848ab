"""Tables for people are whole: in a pipe, on a narrow terminal, with long texts."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import common
from penstock.errors import EngineError

COLUMNS = ["rank", "given", "placement", *(f"number {k}" for k in range(8))]
GIVEN = ",".join(f"operator{k}=h1" for k in range(40))
TEXT = ", ".join(f"operator_number_{k}=h{k % 3}" for k in range(40))
NUMBERS = [1.234 * 10**k for k in range(8)]
SHOWN = ["1.234", "12.34", "123.4", "1234", "12340", "123400", "1234000", "12340000"]
ODD = "red\x1b[2K\nblue"


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines of a table with a long text and many numbers."""
    common.table("a title", COLUMNS, [["1", GIVEN, TEXT, *NUMBERS]])
    return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()


def test_a_pipe_gets_a_row_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Where there is no width nothing is cut off or folded."""
    row = next(line for line in shown(capsys) if TEXT in line and GIVEN in line)
    assert all(number in row.split() for number in SHOWN)


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
    assert all(number in row for number in SHOWN)
    assert all(any(column in line for line in lines) for column in COLUMNS)
    assert all(any(word in line for line in lines) for word in TEXT.split())
    if width == 150:
        assert max(map(len, lines)) <= 150


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (300_360.4, 4, "300360"), (9999.7, 4, "10000"), (9999.4, 4, "9999"), (-12345.6, 4, "-12346"),
        (0.0123456, 4, "0.01235"), (20_364.2, 3, "20364"), (1.5e12, 4, "1.5e+12"), (float("inf"), 4, "inf"),
    ],
)  # fmt: skip
def test_numbers_keep_what_is_in_front_of_the_point(value: float, digits: int, shown: str) -> None:
    """Seconds of long estimates stay whole: a number loses no digit in front of its point while people can read it."""
    assert common.number(value, digits) == shown


def test_names_do_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters and line ends in users' names are written out in titles, cells, paragraphs and lines."""
    common.table(ODD, ["query"], [[ODD]])
    common.write(ODD, " ", " " * 4)
    common.say(f"warning: {ODD}")
    told = capsys.readouterr()
    shown = "red\\x1b[2K\\nblue"
    assert re.sub(r"\x1b\[[0-9;]*m", "", told.out).count(shown) == 3
    assert "\x1b[2K" not in told.out + told.err
    assert told.err == f"warning: {shown}\n"


def test_refusals_of_many_lines_stay_so(capsys: pytest.CaptureFixture[str]) -> None:
    """What Spark says over many lines is printed on as many, without what would command the terminal."""
    with pytest.raises(SystemExit):
        common.fail(EngineError("died:\n\tat org.Some\x1b[2K"), as_json=False)
    assert capsys.readouterr().err == "penstock: died:\n        at org.Some\\x1b[2K\n"


def test_recorded_names_do_not_command_the_terminal(penstock: Any, tmp_path: Path) -> None:
    """Penstock inspect writes out what control characters the name of a recorded query holds, in findings too."""
    path = tmp_path / "progress.json"
    with path.open("w") as file:
        for number in range(40):
            source = {"description": "RateStreamV2[rowsPerSecond=1000]", "numInputRows": 1000}
            file.write(json.dumps({
                "id": "q", "runId": "r", "name": ODD, "batchId": number, "sources": [source],
                "timestamp": f"2026-01-01T00:{number:02d}:00.000Z",
                "durationMs": {"addBatch": 59_500, "triggerExecution": 59_600},
            }) + "\n")  # fmt: skip
    done = penstock("inspect", path)
    assert done.code == 0
    assert "findings" in done.out
    assert "\x1b[2K" not in done.out + done.err
    assert done.out.count("red\\x1b[2K\\nblue") > 3
