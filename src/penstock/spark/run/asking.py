"""Small questions to a host, which change nothing there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import PySparkException

from penstock.errors import EngineError
from penstock.spark.run.reports import LOST, short

Answer = TypeVar("Answer")

TIMES, PAUSE = 4, 1.0
"""How often a question is asked, and the seconds in which a cluster may start another executor."""


def asked(question: Callable[[], Answer]) -> Answer:
    """Return the answer to a question; asked again where an executor has died of it, or beside it.

    Clusters may be set to give up with the first task that fails, as the run's own queries are then begun again.

    Raises
    ------
    EngineError
        If executors die each time.
    """
    times = 0
    while True:
        try:
            return question()
        except PySparkException as error:
            if LOST not in str(error):
                raise
            times += 1
            if times == TIMES:
                raise EngineError(f"executors die, {TIMES} times in turn: {short(error)}") from None
        time.sleep(PAUSE)
