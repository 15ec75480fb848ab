"""How much of their cores hosts use, where a batch's length does not tell it: in real-time mode."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.spark.hosts.base import SparkHost


LEAST = 1.0
"""Seconds between two looks at a host, at least: its processes are many, and to ask them takes some 10 ms."""


class Usage:
    """The processor time of hosts.

    Parameters
    ----------
    hosts
        By name; others may come later.
    """

    def __init__(self, hosts: Mapping[str, SparkHost]) -> None:
        self._hosts = hosts
        self._known: dict[str, tuple[float, float]] = {}
        self._share: dict[str, float | None] = {}

    def look(self, now: float, names: Collection[str]) -> dict[str, float | None]:
        """Return how many cores some hosts have used of late; None: not known."""
        for name in names:
            since, before = self._known.get(name, (0.0, 0.0))
            if since <= now < since + LEAST:
                continue
            used = self._hosts[name].cpu_seconds() if name in self._hosts else None
            self._share[name] = (
                None if used is None or not 0 < since < now else max(0.0, (used - before) / (now - since))
            )
            self._known[name] = now, used or 0.0
        return {name: self._share[name] for name in names}
