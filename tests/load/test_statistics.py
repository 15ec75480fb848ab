"""Statistics files: what they fill in, and that they read back."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from penstock.errors import InputError
from penstock.load import OperatorStatistics, Statistics, read_statistics
from penstock.load.statistics import HostStatistics, parse_statistics
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.network.model import Growth

NETWORK = parse_network(
    {
        "name": "n",
        "sources": {"s": {}, "r": {}},
        "operators": {
            "a": {"kind": "filter", "input": "s", "cost": 0.5},
            "j": {"kind": "join", "inputs": ["a", "r"], "within": 1},
        },
    }
)


def written(folder: Path, document: object) -> Path:
    path = folder / "statistics.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_fills_what_the_network_leaves_open(tmp_path: Path) -> None:
    """Measured values fill gaps, one number serves all inputs, and replace given ones only when asked."""
    known = read_statistics(
        written(
            tmp_path,
            {"operators": {"a": {"cost": 0.1, "selectivity": 0.2}, "j": {"cost": [1, 2], "selectivity": 0.3}}},
        ),
        NETWORK,
    )
    filled = known.complete(NETWORK).operators
    assert (filled["a"].cost, filled["a"].selectivity) == ((0.5,), (0.2,))
    assert (filled["j"].cost, filled["j"].selectivity) == ((1.0, 2.0), (0.3, 0.3))
    assert known.complete(NETWORK, override=True).operators["a"].cost == (0.1,)


def test_written_statistics_read_back(tmp_path: Path) -> None:
    """A statistics file that penstock writes reads back as the same statistics."""
    known = Statistics(
        operators={"a": OperatorStatistics(cost=(0.1,), selectivity=(0.5,), error=0.01, tuples=1000)},
        measured={"pass": "alone"},
    )
    known.write(tmp_path / "s.json")
    again = read_statistics(tmp_path / "s.json")
    assert again.operators == known.operators
    assert again.measured == known.measured


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", 'expected {"operators"'),
        ({"operators": 3}, 'expected {"operators"'),
        ({"operators": {"x": {}}}, "operators.x: is no operator"),
        ({"operators": {"a": {"costs": 1}}}, "did you mean 'cost'?"),
        ({"operators": {"a": {"cost": -1}}}, ">= 0"),
        ('{"operators": {"a": {"cost": NaN}}}', "a.cost"),
        ('{"operators": {"a": {"cost": 1e999}}}', "a.cost"),
        ({"operators": {"a": {"cost": []}}}, "a.cost: expected a number for each input, got none"),
        ({"operators": {"a": {"tuples": 1.5}}}, "a.tuples"),
        ({"operators": {}, "hosts": {"h1": {"overhead": -1}}}, "hosts.h1.overhead: expected a number >= 0.0, got -1"),
        ({"operators": {}, "hosts": {"h1": {"idle": -1}}}, "hosts.h1.idle"),
        ({"operators": {}, "hosts": [1]}, "hosts: expected a table, got [1]"),
        ({"operators": {}, "hosts": {"h1": 3}}, "hosts.h1: expected a table, got 3"),
        ({"operators": {}, "hosts": {"h1": {"factor": 0}}}, "> 0"),
        ('{"operators": {"a": {}, "a": {}}}', "given twice"),
        *(
            (
                {"operators": {}, "hosts": {"h1": {key: number}}},
                f"hosts.h1.{key}: expected a number <= {most}, got {number}",
            )
            for key, most, number in (
                ("residual", 100.0, 1e6),
                ("jitter", 100.0, 1e6),
                *((key, 2.0, 50) for key in ("unrest", "wander", "between_runs", "overhead_between_runs")),
            )
        ),
        ({"operators": {"a": {"error": 101}}}, "a.error: expected a number <= 1.0, got 101"),
        ({"operators": {}, "intervals": {"worst": 0}}, "intervals.worst: expected a number > 0.0, got 0"),
        ({"operators": {}, "intervals": {"p99": 1e300}}, "intervals.p99: expected a number <= 10.0, got 1e+300"),
    ],
)
def test_refuses(tmp_path: Path, document: object, words: str) -> None:
    """Each mistake is one message with the file's name."""
    path = written(tmp_path, document)
    with pytest.raises(InputError) as caught:
        read_statistics(path, NETWORK)
    assert str(caught.value).startswith(str(path))
    assert words in str(caught.value)


def test_errors_of_what_could_not_be_told_are_limited() -> None:
    """A regression over batches that are alike may give any errors; they count up to the size of what they are of."""
    row = {"overhead": 0.5, "error": 90.5, "overhead_error": 4000.0, "correlation": -1.0}
    host = parse_statistics({"operators": {}, "hosts": {"h1": row}}).hosts["h1"]
    assert (host.error, host.overhead_error, host.correlation) == (1.0, 15.0, -1.0)
    usual = {**row, "error": 0.2, "overhead_error": 0.4}
    assert parse_statistics({"operators": {}, "hosts": {"h1": usual}}).hosts["h1"] == HostStatistics(**usual)


def test_wrong_number_of_inputs_is_refused(tmp_path: Path) -> None:
    """Two costs for an operator of one input are refused by name."""
    network = parse_network({"name": "n", "sources": {"s": {}}, "operators": {"a": {"kind": "map", "input": "s"}}})
    known = read_statistics(written(tmp_path, {"operators": {"a": {"cost": [1, 2]}}}), network)
    with pytest.raises(InputError, match=r"operators\.a\.cost: expected 1 numbers"):
        known.complete(network)


def test_growth_comes_with_its_selectivity() -> None:
    """How an output grows is taken only together with the selectivity that it was measured with; all else stays."""
    growth = Growth(exponent=1.5, at=10.0)
    known = Statistics(operators={"a": OperatorStatistics(cost=(1.0,), selectivity=(0.5,), growth=growth)})
    bare = {"name": "n", "sources": {"s": {}}, "operators": {"a": {"kind": "aggregate", "input": "s"}}}
    open_ended = parse_network(bare, "n.toml")
    filled = known.complete(open_ended)
    assert filled.operators["a"].growth == growth
    assert (filled.name, filled.file, filled.sources) == ("n", "n.toml", open_ended.sources)
    set_before = parse_network({**bare, "operators": {"a": {"kind": "aggregate", "input": "s", "selectivity": 0.25}}})
    assert known.complete(set_before).operators["a"].growth is None
    assert known.complete(set_before, override=True).operators["a"].growth == growth
    without = Statistics(operators={"a": OperatorStatistics(cost=(1.0,), selectivity=(0.5,))})
    assert without.complete(open_ended).operators["a"].growth is None


def test_the_document_has_all_that_is_known() -> None:
    """What was measured is in the document as a person would write it; a cost that was not is null."""
    growth = Growth(exponent=1.5, at=20.0)
    full = OperatorStatistics(
        cost=(0.1, 0.1), selectivity=(0.25, 0.5), error=0.01, tuples=7, resolution=1e-6, state=512.0, overhead=0.03,
        growth=growth,
    )  # fmt: skip
    hosts = {"h2": HostStatistics(overhead=0.2, idle=0.1), "h1": HostStatistics(speed=3e7)}
    known = Statistics(operators={"j": full, "a": OperatorStatistics()}, hosts=hosts, measured={"when": "today"})
    document = known.document()
    assert list(document["operators"]) == ["a", "j"]
    assert document["operators"]["a"] == {"cost": None, "selectivity": None, "error": 0.0, "tuples": 0}
    assert document["operators"]["j"] == {
        "cost": 0.1, "selectivity": [0.25, 0.5], "error": 0.01, "tuples": 7, "resolution": 1e-6, "state": 512.0,
        "overhead": 0.03, "growth": attrs.asdict(growth),
    }  # fmt: skip
    assert list(document["hosts"]) == ["h1", "h2"]
    assert (document["hosts"]["h2"]["overhead"], document["hosts"]["h2"]["idle"]) == (0.2, 0.1)
    assert None not in document["hosts"]["h1"].values()
    again = parse_statistics(json.loads(json.dumps(document)))
    assert again == attrs.evolve(known, operators={**known.operators, "j": attrs.evolve(full, cost=(0.1,))})


def test_state_fills_what_is_left_open() -> None:
    """Measured state fills a gap, and replaces what the network says only when asked; none leaves it as it is."""
    said = Network.of(
        "n", NETWORK.sources.values(), [attrs.evolve(o, state=9.0) for o in NETWORK.operators.values()], [], None
    )
    known = Statistics(operators={"a": OperatorStatistics(state=5.0), "j": OperatorStatistics(cost=(1.0, 2.0))})
    assert [o.state for o in known.complete(NETWORK).operators.values()] == [5.0, None]
    assert [o.state for o in known.complete(said).operators.values()] == [9.0, 9.0]
    assert [o.state for o in known.complete(said, override=True).operators.values()] == [5.0, 9.0]


@pytest.mark.parametrize(
    ("document", "at", "says"),
    [
        ([], "operators", "expected"),
        ({"operators": 1}, "operators", "expected"),
        ({"operators": {"jj": {}}}, "operators.jj", "is no operator of the network"),
        ({"operators": {}, "host": {"h1": {"overhead": 0.1}}}, "host", "unknown table 'host'"),
        ({"operators": {}, "interval": 1}, "interval", "unknown key 'interval'"),
        ({"operators": {"a": {"costs": 1}}}, "operators.a.costs", "unknown key 'costs'"),
        ({"operators": {}, "hosts": {"h1": {"overheads": 1}}}, "hosts.h1.overheads", "unknown key 'overheads'"),
        ({"operators": {"a": {"cost": float("inf")}}}, "operators.a.cost", "finite"),
        ({"operators": {"a": {"selectivity": [float("inf")]}}}, "operators.a.selectivity", "finite"),
        ({"operators": {"a": {"error": float("inf")}}}, "operators.a.error", "<= 1.0"),
        ({"operators": {"a": {"resolution": float("inf")}}}, "operators.a.resolution", "finite"),
        ({"operators": {"a": {"state": float("inf")}}}, "operators.a.state", "finite"),
        ({"operators": {"a": {"overhead": float("inf")}}}, "operators.a.overhead", "finite"),
        ({"operators": {"a": {"growth": {"exponent": 0.5, "at": 0.0}}}}, "operators.a.growth", ""),
        ({"operators": {}, "hosts": {"h1": {"idle": float("inf")}}}, "hosts.h1.idle", "finite"),
    ],
)
def test_refusals_name_the_key(document: object, at: str, says: str) -> None:
    """Each refusal names the key, and what is near to a name that is not there."""
    with pytest.raises(InputError) as refused:
        parse_statistics(document).check(NETWORK)
    assert str(refused.value.at).startswith(at)
    assert says in refused.value.problem
    near = {"operators.jj": "j", "host": "hosts", "interval": "intervals", "operators.a.costs": "cost"}
    if at in near:
        assert refused.value.hint == f"did you mean {near[at]!r}?"


def test_tuples_may_be_written_with_a_point() -> None:
    """A whole count is read as other programs write it, and a cost that is null is one that was not measured."""
    found = parse_statistics({"operators": {"a": {"cost": None, "selectivity": None, "tuples": 100000.0}}})
    assert found.operators["a"] == OperatorStatistics(tuples=100_000)
