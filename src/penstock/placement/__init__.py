"""DECIDE: where operators run. One file per family, one row per algorithm."""

from __future__ import annotations

from penstock.placement.base import Algorithm, Problem

__all__ = ["Algorithm", "Problem"]
