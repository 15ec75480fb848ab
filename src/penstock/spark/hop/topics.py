"""Which topics the logs of a run are in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Topics:
    """Where the logs of a run are.

    Attributes
    ----------
    client
        Settings of librdkafka.
    prefix
        Of the topics' names: the run's own.
    partitions
        Of each topic.
    """

    client: Mapping[str, str]
    prefix: str
    partitions: int

    def name(self, writer: str) -> str:
        """Return the topic of an operator's log: another one for every operator, in letters that Kafka takes."""
        plain = re.sub(r"[^A-Za-z0-9.-]", lambda found: f"_{ord(found[0]):x}_", writer)
        return f"{self.prefix}-{plain}"
