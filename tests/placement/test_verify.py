"""The verifier, on a chain of three filters with loads that can be added up by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import attrs
import pytest

from penstock.cluster import Cluster, Host, Link, Placement
from penstock.placement import Problem
from penstock.placement.verify import faults

_spec = importlib.util.spec_from_file_location("placement_problems", Path(__file__).with_name("problems.py"))
problems = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(problems)
filters = problems.filters

FIRST, SECOND, THIRD = "o1.1", "o1.2", "o1.3"
SPREAD = {FIRST: "h1", SECOND: "h2", THIRD: "h2"}


@pytest.fixture
def problem() -> Problem:
    """Loads of 0.8, 0.4 and 0.2 benchmark cores, rates of 800, 400 and 200 tuples/s, two hosts of one core."""
    return filters(0.8, replicas=1, hosts=2)


def on(problem: Problem, *hosts: Host, link: Link | None = None) -> Problem:
    """Return the problem on other hosts."""
    return attrs.evolve(problem, cluster=Cluster.of(hosts, Link() if link is None else link))


def test_a_right_placement_has_no_faults(problem: Problem):
    """Nothing is said of a placement that keeps every rule."""
    assert faults(problem, SPREAD) == ()


def test_each_misplaced_operator_is_named(problem: Problem):
    """An operator without a host, one that is none and a host that is none are named, and nothing else is looked at."""
    assert faults(problem, {FIRST: "h1", SECOND: "h9", "o9": "h1"}) == (
        f"operator {THIRD!r} has no host",
        "'o9' is no operator that is to be placed",
        f"operator {SECOND!r} is on 'h9', which is no host of the cluster",
    )


def test_a_pin_is_kept(problem: Problem):
    """An operator away from its pin is told, one on it is not."""
    pinned = attrs.evolve(problem, pins={FIRST: "h1", SECOND: "h1"})
    assert faults(pinned, SPREAD) == (f"operator {SECOND!r} is pinned to 'h1', got 'h2'",)


def test_copies_on_one_host_are_told_where_they_must_be_apart():
    """Two copies of one operator on one host are a fault only where copies must be apart."""
    twice = filters(0.2, replicas=2, hosts=2)
    placement = {name: "h1" if name in (FIRST, f"{FIRST}#2") or "#" not in name else "h2" for name in twice.names}
    assert faults(twice, placement, apart=True) == (f"the copies {FIRST!r} and '{FIRST}#2' are both on 'h1'",)
    assert faults(twice, placement) == ()


def test_a_host_over_its_quota_says_by_how_much(problem: Problem):
    """A host carries too much from just above its quota on, and the difference is told."""
    everything = dict.fromkeys(problem.names, "h1")
    assert faults(problem, everything) == (
        "host 'h1' carries 1.4 of 1 benchmark cores (capacity times quota): short by 0.4",
    )
    assert faults(problem, everything, quotas=False) == ()
    assert faults(on(problem, Host(name="h1", capacity=1.4), Host(name="h2")), everything) == ()
    assert faults(on(problem, Host(name="h1", capacity=2.0, quota=0.5), Host(name="h2")), everything) == (
        "host 'h1' carries 1.4 of 1 benchmark cores (capacity times quota): short by 0.4",
    )


def test_a_link_over_its_bandwidth_says_by_how_much(problem: Problem):
    """400 tuples/s cross from the first operator to the second: too many for 300, just right for 400."""
    hosts = Host(name="h1"), Host(name="h2")
    narrow, wide = (on(problem, *hosts, link=Link(0.0, bandwidth)) for bandwidth in (300.0, 400.0))
    assert faults(narrow, SPREAD) == ("link h1->h2 carries 400 of 300 tuples/s: short by 100",)
    assert faults(narrow, SPREAD, links=False) == ()
    assert faults(wide, SPREAD) == ()


def test_what_must_not_become_worse_is_compared_with_before(problem: Problem):
    """A worse balance than before is told where the objective must not get worse; an equal or better one is not."""
    before = attrs.evolve(problem, previous=Placement(SPREAD))
    worse = {FIRST: "h1", SECOND: "h1", THIRD: "h2"}
    assert faults(before, worse, quotas=False, no_worse="balance") == ("balance rises from 0.8 to 1.2",)
    assert faults(before, worse, quotas=False) == ()
    assert faults(before, SPREAD, no_worse="balance") == ()
    assert faults(attrs.evolve(problem, previous=Placement(worse)), SPREAD, no_worse="balance") == ()
    assert faults(problem, worse, quotas=False, no_worse="balance") == ()
