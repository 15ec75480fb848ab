"""A load manager for Apache Spark Structured Streaming."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.api import estimate, inspect, load_network, place, shed, simulate
    from penstock.spark.listener import Listener

__version__ = "0.2.0"
__all__ = ["Listener", "__version__", "estimate", "inspect", "load_network", "place", "shed", "simulate"]

_HOME = {
    "Listener": "penstock.spark.listener",
    **dict.fromkeys(("inspect",), "penstock.api.logs"),
    **dict.fromkeys(("estimate", "load_network", "place", "shed", "simulate"), "penstock.api.networks"),
}


def __getattr__(name: str) -> Any:
    """Import what a name needs only when it is asked for, so that ``import penstock`` is light (PEP 562)."""
    if name in _HOME:
        try:
            return getattr(import_module(_HOME[name]), name)
        except ImportError as error:
            from penstock.extras import missing

            raise type(error)(str(missing(error)), name=error.name) from None
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
