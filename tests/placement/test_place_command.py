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
