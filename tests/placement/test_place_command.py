"""``penstock place`` as the command line has it."""

from __future__ import annotations

import pytest

NETWORK = """
name = "pair"
[sources.a]
[sources.b]
[operators.a1]
kind = "filter"
input = "a"
cost = 0.001
[operators.a2]
kind = "filter"
input = "a1"
cost = 0.001
[operators.b1]
kind = "filter"
input = "b"
cost = 0.001
"""


@pytest.fixture
def network(tmp_path):
    path = tmp_path / "network.toml"
    path.write_text(NETWORK)
    return path


@pytest.mark.parametrize("copies", [-1, 1001])
def test_copies_have_a_limit(penstock, network, copies):
    """A number of copies that nobody can mean is refused at once."""
    words = ["place", network, "--hosts", 2, "--rates", "a=100,b=200", "--algorithm", "resilient", "--json"]
    refused = penstock(*words, "--replicas", copies)
    assert refused.code == 2
    assert f"expected 1 to 1000 copies of each operator, got {copies}" in refused.err


@pytest.mark.parametrize("algorithm", ["correlation", "correlation-two-way", "resilient"])
@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_the_larger_of_two_empty_hosts_comes_first(penstock, network, tmp_path, algorithm, names):
    """Where hosts are equally loaded, what they are called does not decide, but their capacity does."""
    small, large = names
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(f"[hosts.{small}]\ncapacity = 0.25\n[hosts.{large}]\ncapacity = 4.0\n")
    done = penstock(
        "place", network, "--cluster", cluster, "--rates", "a=1,b=400", "--algorithm", algorithm,
        "--overload", "allow", "--json",
    )  # fmt: skip
    assert done.document["feasible"]
    assert done.document["placement"]["b1"] == large


def test_keys(penstock, network):
    """The document has the keys of the contract, and moves compare with the previous placement."""
    outcome = penstock(
        "place", network, "--hosts", 2, "--rates", "a=100,b=200", "--algorithm", "largest-first",
        "--previous", "a1=h1,a2=h1,b1=h1", "--json",
    )  # fmt: skip
    assert outcome.code == 0
    document = outcome.document
    assert document["algorithm"] == "largest-first"
    assert document["placement"] == {"b1": "h1", "a1": "h2", "a2": "h2"}
    assert document["objective"]["name"] == "balance"
    assert document["objective"]["value"] == pytest.approx(0.2)
    assert document["moved"] == ["a1", "a2"]
    assert document["moved_load"] == pytest.approx(0.2)
    assert document["hosts"]["h1"]["mean"] == pytest.approx(0.2)
    assert document["seconds"] >= 0


def test_no_is_exit_1(penstock, network):
    """Too little capacity is exit code 1 with the reason in the document."""
    outcome = penstock("place", network, "--hosts", 1, "--rates", "a=900,b=900", "--json")
    assert outcome.code == 1
    assert outcome.document["feasible"] is False
    assert "short by 1.7" in outcome.document["reason"]


@pytest.mark.parametrize("algorithm", ["exact", "mace-climb", "correlation", "economical"])
def test_overload_allowed(penstock, network, algorithm):
    """Where quotas cannot be kept, --overload allow answers with code 0, feasible false and the hosts that are over."""
    common = ["place", network, "--hosts", 2, "--rates", "a=900,b=900", "--algorithm", algorithm, "--json"]
    refused = penstock(*common)
    assert refused.code == 1
    assert refused.document["feasible"] is False
    outcome = penstock(*common, "--overload", "allow")
    assert outcome.code == 0
    assert outcome.document["feasible"] is False
    assert "short by" in outcome.document["reason"]
    assert set(outcome.document["placement"]) == {"a1", "a2", "b1"}
    kept = penstock("place", network, "--hosts", 3, "--rates", "a=900,b=900", "--overload", "allow", "--json")
    assert kept.document["feasible"] is True


def test_search_options(penstock, network):
    """Budget, time and thresholds are options of the algorithms that have them."""
    common = ["place", network, "--hosts", 2, "--rates", "a=100,b=200", "--json"]
    climbed = penstock(*common, "--algorithm", "mace-climb", "--budget", 500, "--seconds", 5)
    assert climbed.code == 0
    assert penstock(*common, "--algorithm", "correlation-exchange", "--score-threshold", 0.1).code == 0
    assert penstock(*common, "--load-threshold", 0.2, "--improvement-threshold", 0.5).code == 0


@pytest.mark.parametrize(
    "wrong",
    [
        ["--algorithm", "magic"],
        ["--objective", "speed"],
        ["--theta", "2"],
        ["--theta", "0.5"],
        ["--weights", "load=x"],
        ["--replicas", "2"],
        ["--restarts", "0", "--algorithm", "mace-climb"],
        ["--budget", "0", "--algorithm", "mace-climb"],
        ["--seconds", "0", "--algorithm", "mace-climb"],
        ["--score-threshold", "0.1"],
        ["--load-threshold", "-1"],
        ["--overload", "maybe"],
        ["--domains", "9"],
        ["--move-cost", "-1"],
        ["--previous", "a1=h1"],
        ["--seed", "-1"],
    ],
)
def test_bad_options(penstock, network, wrong):
    """A wrong option is exit code 2 with one message and no document."""
    outcome = penstock("place", network, "--hosts", 2, "--rates", "a=1,b=1", *wrong, "--json")
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1


def test_soft_quotas(penstock, network, tmp_path):
    """With --overload soft quotas only guide: nothing is moved to keep them, and the answer says which are passed."""
    cluster = tmp_path / "cluster.toml"
    cluster.write_text("[hosts.h1]\nquota = 0.05\n[hosts.h2]\n")
    common = (
        "place", network, "--cluster", cluster, "--rates", "a=100,b=100", "--algorithm", "potential-greedy",
        "--weights", "load=0,correlation=0,network=0", "--json",
    )  # fmt: skip
    kept = penstock(*common).document
    assert set(kept["placement"].values()) == {"h2"}
    assert penstock(*common, "--overload", "allow").document["placement"] == kept["placement"]
    outcome = penstock(*common, "--overload", "soft")
    assert outcome.code == 0
    assert outcome.document["feasible"] is False
    assert "h1" in outcome.document["reason"]
    assert set(outcome.document["placement"].values()) == {"h1"}


def test_tightened_bound(penstock, network):
    """--tighten knows that an operator is whole: one of 1.5 cores waits for half a second each second."""
    common = (
        "place", network, "--hosts", 3, "--rates", "a=1500,b=100", "--algorithm", "mace-climb", "--overload", "allow",
        "--json",
    )  # fmt: skip
    plain, tight = penstock(*common).document["objective"], penstock(*common, "--tighten", 10).document["objective"]
    assert plain["lower_bound"] == pytest.approx(0.1 * 60 / 3)
    assert tight["lower_bound"] == pytest.approx(30.0)
    assert tight["value"] == plain["value"] >= tight["lower_bound"] - 1e-9
    assert penstock(*common, "--tighten", -1).code == 2


@pytest.mark.parametrize("more", [[], ["--theta", "1"], ["--move-cost", "100"]])
def test_copies_that_come_anew_were_nowhere(penstock, network, more):
    """A previous placement names every operator; its further copies are placed, apart, and do not count as moved."""
    outcome = penstock(
        "place", network, "--hosts", 4, "--rates", "a=1,b=1", "--algorithm", "economical-replicated",
        "--previous", "a1=h3,a2=h1,b1=h2", *more, "--json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    document = outcome.document
    assert set(document["placement"]) == {"a1", "a2", "b1", "a1#2", "a2#2", "b1#2"}
    assert all(document["placement"][name] != document["placement"][f"{name}#2"] for name in ("a1", "a2", "b1"))
    assert not any("#" in name for name in document["moved"])


def test_hosts_are_as_fast_as_their_factors_say(penstock, network, tmp_path):
    """Whoever places takes hosts for as fast as statistics say, so that the value is what `estimate` says of it."""
    statistics = tmp_path / "statistics.json"
    statistics.write_text('{"operators": {}, "hosts": {"h1": {"factor": 3.0}}}')
    given = [network, "--hosts", 2, "--rates", "a=200,b=350", "--statistics", statistics]
    done = penstock("place", *given, "--algorithm", "exact", "--json")
    placed = ",".join(f"{name}={host}" for name, host in done.document["placement"].items())
    told = penstock("estimate", *given, "--placement", placed, "--json").document
    assert done.document["objective"]["value"] == pytest.approx(told["worst"], abs=1e-9)
    loads = {"a1": 0.2, "a2": 0.2, "b1": 0.35}
    for host, slow in (("h1", 3.0), ("h2", 1.0)):
        share = slow * sum(loads[name] for name, there in done.document["placement"].items() if there == host)
        assert done.document["hosts"][host]["mean"] == pytest.approx(share)
    assert "by their factors" in done.err
    assert penstock("compare", *given, "--json").document["ranking"][0]["worst"] == 0
    # By capacities alone all of this fits, and by what hosts can do it does not.
    much = [*given[:3], "--rates", "a=300,b=900", *given[5:]]
    assert "short by" in penstock("place", *much, "--json").document["reason"]


def test_hosts_over_their_quota_are_not_counted(penstock, network):
    """Where some host is over its quota the number of hosts is no number, which the answer says in words."""
    words = ["place", network, "--hosts", 2, "--rates", "a=900,b=900", "--overload", "allow", "--objective", "hosts"]
    done = penstock(*words)
    assert done.code == 0
    assert "inf" not in done.out
    assert "hosts not told, for some host is over its quota (no placement is below 2)" in done.out
