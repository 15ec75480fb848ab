"""Small questions to a host whose executors may die."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException

from penstock.errors import EngineError
from penstock.spark.run import asking

LOST = "Lost task 1.0 in stage 126.0 (executor 11): ExecutorLostFailure (executor 11 exited)\n\nJVM stacktrace:\nlong"


def failing(times: int, text: str) -> tuple[Callable[[], int], list[int]]:
    """Return a question that is answered after some failures, and a list with an entry for each time it was asked."""
    count: list[int] = []

    def question() -> int:
        count.append(1)
        if len(count) <= times:
            raise PySparkException(text)
        return 7

    return question, count


@pytest.mark.parametrize("times", [0, 1, asking.TIMES - 1])
def test_a_question_is_asked_again_where_an_executor_died(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor that dies beside a question costs a pause, and not the run."""
    monkeypatch.setattr(asking, "PAUSE", 0.0)
    question, count = failing(times, LOST)
    assert asking.asked(question) == 7
    assert len(count) == times + 1


def test_what_kills_every_executor_is_said_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where executors die each time, the error says so without a trace."""
    monkeypatch.setattr(asking, "PAUSE", 0.0)
    question, count = failing(99, LOST)
    with pytest.raises(EngineError, match=r"^executors die, 4 times in turn: Lost task 1.0 [^\n]*exited\)$"):
        asking.asked(question)
    assert len(count) == asking.TIMES


def test_other_errors_are_not_asked_away() -> None:
    """What is wrong with a question itself is said at once."""
    question, count = failing(99, "no such column")
    with pytest.raises(PySparkException, match="no such column"):
        asking.asked(question)
    assert len(count) == 1
