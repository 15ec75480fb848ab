"""What functions of python operators say of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.network import Operator
from penstock.spark.compile.functions import import_function, tells_rows

SHAPE = pa.schema([("n", pa.int64())])


def passes(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def drops(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield batch.select(["n"])


def skips(batches: Iterator[Any]) -> Iterator[Any]:
    yield from (batch for batch in batches if batch.num_rows)


def fails(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield batch.slice(0, 1 // batch.num_rows)


@pytest.mark.parametrize(("function", "told"), [(passes, True), (drops, False), (skips, True), (fails, True)])
def test_a_function_is_refused_only_where_it_is_known_to_hide_its_rows(
    function: Callable[..., Any], told: bool
) -> None:
    """A batch without rows shows whether the rows' column is passed on; what it cannot show, the first rows will."""
    function.schema = "n bigint"  # type: ignore[attr-defined]
    assert tells_rows(function, SHAPE) is told


def test_what_a_function_says_of_itself_counts() -> None:
    """A function with rows = 'kept', without a schema, or with the rows' column in it, is not asked."""

    def silent(batches: Iterator[Any]) -> Iterator[Any]:
        raise AssertionError

    assert tells_rows(silent, SHAPE)
    silent.schema = "n bigint, `_row` bigint"  # type: ignore[attr-defined]
    assert tells_rows(silent, SHAPE)
    silent.schema, silent.rows = "n bigint", "kept"  # type: ignore[attr-defined]
    assert tells_rows(silent, SHAPE)


def test_what_users_code_prints_is_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a module prints when it is imported, and a function when it is asked, goes to standard error."""
    (tmp_path / "loud.py").write_text(
        "print('imported')\ndef passes(batches):\n    print('asked')\n    yield from batches\n"
    )
    function: Any = import_function(
        Operator(name="p", kind="python", inputs=("s",), function="loud:passes", folder=str(tmp_path))
    )
    function.schema = "n bigint"
    assert tells_rows(function, SHAPE)
    assert capsys.readouterr() == ("", "imported\nasked\n")
