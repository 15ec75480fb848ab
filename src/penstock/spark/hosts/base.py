"""What every host offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


class SparkHost(Protocol):
    """What the engine needs of a host."""

    name: str
    """The host's name in the cluster."""

    @property
    def endpoint(self) -> str:
        """The address, without a token."""

    @property
    def pid(self) -> int | None:
        """Process id of the JVM, None where it runs elsewhere."""

    @property
    def log(self) -> Path | None:
        """What the JVM prints, None where it runs elsewhere."""

    def start(self) -> Self:
        """Start the host or reach it; it answers from now on."""

    def session(self, session_id: str | None = None) -> SparkSession:
        """Return a new ``pyspark.sql.SparkSession``, or the one of that id again."""

    def alive(self) -> bool:
        """Return whether the host can be expected to answer."""

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of the JVM and its Python workers so far in s, None where it cannot be read."""

    def rss(self) -> int | None:
        """Return the resident memory of the JVM and its Python workers in bytes, None where it cannot be read."""

    def leave(self) -> None:
        """Leave queries running when the host is let go, where it goes on itself."""

    def stop(self) -> None:
        """Let the host go, and end it if penstock started it."""
