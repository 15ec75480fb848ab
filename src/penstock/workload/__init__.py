"""HOW it arrives: rates of sources over time."""

from penstock.workload.rates import Rates, read_rates
from penstock.workload.shapes import fluctuating, on_off, stable

__all__ = ["Rates", "fluctuating", "on_off", "read_rates", "stable"]
