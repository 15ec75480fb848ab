"""``penstock estimate``."""

from __future__ import annotations

from penstock.cli import common


def command(network: common.NetworkArgument) -> None:
    """Not written yet."""
    common.get_network(network)
