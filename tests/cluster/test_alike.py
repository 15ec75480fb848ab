"""Which hosts are alike."""

from __future__ import annotations

from penstock.cluster import Host, alike


def test_hosts_of_one_kind_share_the_number_of_the_first():
    """Hosts with the same capacity, quota and cores are alike; one that is told apart is like none."""
    hosts = [Host(name="a"), Host(name="b", capacity=2.0), Host(name="c"), Host(name="d"), Host(name="e", cores=2)]
    assert alike(hosts, ()) == [0, 1, 0, 0, 4]
    assert alike(hosts, {"a"}) == [0, 1, 2, 2, 4]
    assert alike(hosts, {"c", "d"}) == [0, 1, 2, 3, 4]


def test_hosts_that_differ_in_what_was_measured_are_not_alike() -> None:
    """Hosts are told apart by the machine whose cores they share, and by what was measured of them."""
    hosts = [Host(name="a"), Host(name="b", machine="m"), Host(name="c"), Host(name="d"), Host(name="e")]
    assert alike(hosts, ()) == [0, 1, 0, 0, 0]
    assert alike(hosts, (), {"c": 1.5, "d": 1.5}) == [0, 1, 2, 2, 0]
