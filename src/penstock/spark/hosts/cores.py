"""Which CPUs each host may use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def available_cpus() -> list[int]:
    """Return the CPU ids that penstock may use, one of each physical core first; none where they cannot be set."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    seen: dict[str, int] = {}
    ranked = []
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            core = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        except OSError:
            core = str(cpu)
        seen[core] = seen.get(core, -1) + 1
        ranked.append((seen[core], cpu))
    return [cpu for _, cpu in sorted(ranked)]


def cores_here() -> int:
    """Return how many cores penstock may use on this machine."""
    return len(available_cpus()) or os.cpu_count() or 1


def share_cpus(cores: Sequence[int], cpus: Sequence[int]) -> list[list[int]] | None:
    """Give each host as many CPUs of its own as it has cores, the last ones first; None if there are not enough.

    penstock itself is not pinned: the first CPUs, where some are left, are its own.

    Examples
    --------
    >>> share_cpus([1, 2], [0, 1, 2, 3])
    [[3], [1, 2]]
    >>> share_cpus([1, 2], [0, 1]) is None
    True
    """
    if sum(cores) > len(cpus):
        return None
    end, shares = len(cpus), []
    for count in cores:
        shares.append(list(cpus[end - count : end]))
        end -= count
    return shares
