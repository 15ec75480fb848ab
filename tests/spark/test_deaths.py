"""What is said when a host dies."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import EngineError, InputError
from penstock.spark.run.deaths import telling_deaths


def host(pid: int | None, alive: bool, log: Path | None = None) -> Any:
    return SimpleNamespace(pid=pid, alive=lambda: alive, log=log)


def test_a_failure_because_of_a_dead_host_is_its_death() -> None:
    """Whatever fails while a host on this machine is dead is told as that host's death, without the failure's trace."""
    hosts = {"h1": host(1, True), "h2": host(2, False)}
    with pytest.raises(EngineError, match="host 'h2' has died") as told, telling_deaths(hosts):
        raise ConnectionError("refused")
    assert told.value.__suppress_context__


def test_a_host_without_memory_is_told_as_such(tmp_path: Path) -> None:
    """What it would die of again is told with the setting that helps."""
    (tmp_path / "server.log").write_text("Terminating due to java.lang.OutOfMemoryError: Java heap space\n")
    hosts = {"h1": host(1, False, tmp_path / "server.log")}
    with pytest.raises(EngineError, match=r"'h1' has run out of memory.*spark\.driver\.memory"), telling_deaths(hosts):
        raise ConnectionError("refused")


@pytest.mark.parametrize("error", [InputError("wrong"), ConnectionError("refused")])
def test_other_failures_stay_what_they_are(error: Exception) -> None:
    """While no host on this machine is dead, and for penstock's own errors, a failure is told as it is."""
    dead = isinstance(error, InputError)
    with pytest.raises(type(error)), telling_deaths({"h1": host(1, not dead), "far": host(None, False)}, patience=0.1):
        raise error
