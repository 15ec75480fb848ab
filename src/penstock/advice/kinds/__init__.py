"""The kinds of advice: each is a function that proposes changes, in a file of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from penstock.advice.kinds.defer import defer
from penstock.advice.kinds.hosts import hosts
from penstock.advice.kinds.rate_limit import rate_limit
from penstock.advice.kinds.separate import separate
from penstock.advice.kinds.shuffle import shuffle
from penstock.advice.kinds.source import source
from penstock.advice.kinds.together import together
from penstock.advice.kinds.trigger import trigger
from penstock.advice.values import Aims, Deployment, Proposal

Kind = Callable[[Deployment, Aims], Iterator[Proposal]]

KINDS: Mapping[str, Kind] = {
    "rate-limit": rate_limit,
    "trigger": trigger,
    "separate": separate,
    "together": together,
    "hosts": hosts,
    "shuffle": shuffle,
    "source": source,
    "defer": defer,
}
"""Each kind under its name in the contract; of equally good advice, the kind that comes first here comes first."""
