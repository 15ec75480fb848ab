"""A load manager for Apache Spark Structured Streaming."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark.listener import Listener

__version__ = "0.1.0"
__all__ = ["Listener", "__version__"]


def __getattr__(name: str) -> Any:
    """Import what needs pyspark only when it is asked for (PEP 562)."""
    if name == "Listener":
        from penstock.spark.listener import Listener

        return Listener
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
