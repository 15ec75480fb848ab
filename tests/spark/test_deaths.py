"""What is said when a host dies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import EngineError, InputError
from penstock.spark.run.deaths import telling_deaths


def host(pid: int | None, alive: bool) -> Any:
    return SimpleNamespace(pid=pid, alive=lambda: alive)


def test_a_failure_because_of_a_dead_host_is_its_death() -> None:
    """Whatever fails while a host on this machine is dead is told as that host's death, without the failure's trace."""
    hosts = {"h1": host(1, True), "h2": host(2, False)}
    with pytest.raises(EngineError, match="host 'h2' has died") as told, telling_deaths(hosts):
        raise ConnectionError("refused")
    assert told.value.__suppress_context__


@pytest.mark.parametrize("error", [InputError("wrong"), ConnectionError("refused")])
def test_other_failures_stay_what_they_are(error: Exception) -> None:
    """While no host on this machine is dead, and for penstock's own errors, a failure is told as it is."""
    dead = isinstance(error, InputError)
    with pytest.raises(type(error)), telling_deaths({"h1": host(1, not dead), "far": host(None, False)}, patience=0.1):
        raise error
