"""Hosts that die: how that is noticed, and told."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from penstock.errors import EngineError, PenstockError
from penstock.spark.hosts.failures import starved
from penstock.spark.silent import PATIENCE, Silent, within

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.hosts.base import SparkHost


def died(name: str, host: SparkHost) -> EngineError:
    """Return the error for a host that has ended. What was too much for its memory would come again."""
    if host.log is not None and starved(host.log):
        more = "give it more (spark.driver.memory in [spark] conf) and run the same command again to go on"
        return EngineError(f"host {name!r} has run out of memory in the middle of a batch: {more}")
    return EngineError(f"host {name!r} has died; run the same command again to go on")


def silent(name: str) -> EngineError:
    """Return the error for a host that runs, as far as one can see, and does not answer."""
    return EngineError(f"host {name!r} does not answer; once it does, run the same command again to go on")


def mute(sessions: Mapping[str, SparkSession]) -> list[str]:
    """Return those of some hosts that do not answer a small question in time."""
    found = []
    for name, session in sorted(sessions.items()):
        try:
            within(PATIENCE, partial(session.conf.get, "spark.sql.session.timeZone"))
        except Silent:
            found.append(name)
        except Exception:  # noqa: S112 - that is an answer
            continue
    return found


def dead(hosts: Mapping[str, SparkHost]) -> list[str]:
    """Return those of some hosts that are on this machine and have died."""
    return [name for name, host in sorted(hosts.items()) if host.pid is not None and not host.alive()]


@contextlib.contextmanager
def telling_deaths(hosts: Mapping[str, SparkHost], patience: float = 1.0) -> Iterator[None]:
    """Say of whatever fails because a host on this machine has died that it has died.

    A connection may be refused some time before the process is seen to be gone: for ``patience`` seconds one looks.
    """
    try:
        yield
    except PenstockError:
        raise
    except Exception:
        deadline = time.monotonic() + patience
        while True:
            if gone := dead(hosts):
                raise died(gone[0], hosts[gone[0]]) from None
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
