"""What-if questions."""

from __future__ import annotations

import time

import attrs
import numpy as np
import pytest
from folders import setting

from penstock.cluster import Placement
from penstock.errors import Infeasible, InputError
from penstock.latency.batches import microbatch_estimate
from penstock.load import Statistics, load_model
from penstock.load.statistics import HostStatistics
from penstock.monitor import Question, what_if
from penstock.monitor.expected import OVERLOAD_ONLY
from penstock.network import Network, Operator, Sink, Source
from penstock.workload import Rates

USUAL = {"clicks": 100.0}


def test_the_answer_is_that_of_estimate() -> None:
    """Latency and loads are those of the micro-batch model under the rates that were asked about."""
    here = setting()
    found = what_if(here, Question(rates={"clicks": 150.0}, duration=60), USUAL)
    network = here.statistics.complete(here.network)
    model = load_model(network, Rates.constant({"clicks": 150.0}))
    estimate = microbatch_estimate(model, here.placement, here.cluster, here.statistics)
    assert found["latency"]["worst"] == pytest.approx(estimate.total.worst)
    assert found["latency"]["p50"] == pytest.approx(estimate.total.p50)
    assert found["hosts"]["h1"]["work"] == pytest.approx(0.15)
    assert found["hosts"]["h2"]["work"] == pytest.approx(150 * 0.5 * 0.004)
    assert found["hosts"]["h2"]["busy"] == pytest.approx(0.3 + 0.1 / 2)
    assert found["fits"]
    assert found["moved"] == []
    low, high = found["interval"]["worst"]
    assert low <= found["latency"]["worst"] <= high


def test_what_is_not_known_is_no_zero() -> None:
    """An answer has no latency where no window ends within the time that is asked about, and says why."""
    window = Operator(name="minutes", kind="aggregate", inputs=("clicks",), window=60.0, cost=(1e-4,))
    network = Network.of("n", [Source(name="clicks")], [window], [Sink(name="out", input="minutes")])
    here = attrs.evolve(setting(), network=network, placement=Placement({"minutes": "h1"}))
    short, long = (what_if(here, Question(duration=duration), USUAL) for duration in (30.0, 300.0))
    assert short["latency"]["worst"] is short["sinks"]["out"]["worst"] is short["interval"] is None
    assert short["notes"][0].startswith("No window before out ends within the rates of 30 s")
    assert long["latency"]["worst"] == long["sinks"]["out"]["worst"] > 0
    assert long["notes"] == []


def test_drops_make_it_fit() -> None:
    """Where the rates are too high it does not fit; told to drop, it keeps the best share that fits."""
    here = setting()
    full = what_if(here, Question(rates={"clicks": 2000.0}), USUAL)
    assert not full["fits"]
    assert full["latency"]["worst"] > 20
    shed = what_if(here, Question(rates={"clicks": 2000.0}, shed=True), USUAL)
    assert shed["fits"]
    assert shed["latency"]["worst"] < 6
    # h2 needs 4 ms a row, and a batch of it 0.1 s in 2: 0.95 / 0.004 rows a second can come out.
    assert shed["score"] == pytest.approx(0.95 / 0.004, rel=1e-6)
    assert shed["full"] == pytest.approx(1000)
    assert np.prod([*shed["keep"].values()]) == pytest.approx(0.95 / 4)


def test_drops_count_where_mace_answers() -> None:
    """What is dropped waits nowhere, also where hosts work row by row: told to drop, nothing is late."""
    here = attrs.evolve(setting(), statistics=attrs.evolve(setting().statistics, hosts={}))
    asked = Question(rates={"clicks": 2000.0})
    full = what_if(here, asked, USUAL, batches=False)
    assert full["model"] == "mace"
    assert full["latency"]["worst"] > 20
    for question in (attrs.evolve(asked, shed=True), attrs.evolve(asked, keep={"clicks->views": 0.0})):
        found = what_if(here, question, USUAL, batches=False)
        assert found["fits"]
        assert found["latency"]["worst"] == pytest.approx(0, abs=1e-6)


def test_short_triggers_do_not_drop_everything() -> None:
    """Where the overhead outlasts the trigger, half of a host's time is left for rows, at its factor and its quota."""
    here = setting()
    hosts = {name: attrs.evolve(row, factor=1.25) for name, row in here.statistics.hosts.items()}
    cluster = attrs.evolve(
        here.cluster,
        hosts={name: attrs.evolve(host, quota=0.8) for name, host in here.cluster.hosts.items()},
        spark=attrs.evolve(here.cluster.spark, trigger=0.05),
    )
    here = attrs.evolve(here, cluster=cluster, statistics=attrs.evolve(here.statistics, hosts=hosts))
    found = what_if(here, Question(rates={"clicks": 2000.0}, shed=True), USUAL)
    assert found["score"] == pytest.approx(0.8 * 0.5 / 1.25 / 0.004, rel=1e-6)


def test_only_drops_that_a_run_makes_are_told() -> None:
    """Nothing is dropped in front of windows that would not be whole; where too much comes there, the answer is no."""
    windows = {"short": 2.0, "long": 3.0}
    operators = [
        Operator(name="views", kind="map", inputs=("clicks",), cost=(0.001,)),
        *(
            Operator(name=name, kind="aggregate", inputs=("views",), cost=(0.004,), window=length, selectivity=(0.1,))
            for name, length in windows.items()
        ),
    ]
    network = Network.of(
        "n", [Source(name="clicks")], operators, [Sink(name=f"to_{each}", input=each) for each in windows]
    )
    here = attrs.evolve(
        setting(),
        network=network,
        statistics=Statistics(),
        placement=Placement({"views": "h1", "short": "h2", "long": "h2"}),
    )
    found = what_if(here, Question(rates={"clicks": 400.0}, shed=True), USUAL, batches=False)
    assert found["fits"]
    assert set(found["keep"]) <= {"views->short", "views->long"}
    assert found["hosts"]["h1"]["work"] == pytest.approx(0.4)
    assert found["hosts"]["h2"]["work"] == pytest.approx(1.0)
    with pytest.raises(Infeasible, match="cannot be dropped"):
        what_if(here, Question(rates={"clicks": 2000.0}, shed=True), USUAL, batches=False)


def test_an_algorithm_can_be_asked_for_where_not_everything_fits() -> None:
    """Under overload an algorithm's placement is answered with what it has to drop; without drops it is refused."""
    here = setting()
    asked = Question(algorithm="largest-first", rates={"clicks": 2000.0})
    with pytest.raises(Infeasible):
        what_if(here, asked, USUAL)
    found = what_if(here, attrs.evolve(asked, shed=True), USUAL)
    assert found["fits"]
    assert 0 < found["score"] < found["full"]


def test_other_placements_can_be_asked_for() -> None:
    """An operator can be moved, and all others be placed by an algorithm; what would move is told."""
    here = setting()
    moved = what_if(here, Question(placement={"scored": "h1"}), USUAL)
    assert moved["moved"] == ["scored"]
    assert moved["hosts"]["h2"]["work"] == 0
    placed = what_if(here, Question(algorithm="largest-first", rates={"clicks": 200.0}), USUAL)
    assert set(placed["placement"].values()) == {"h1", "h2"}
    both = what_if(here, Question(placement={"views": "h2"}, algorithm="connected"), USUAL)
    assert both["placement"]["views"] == "h2"
    known = attrs.evolve(here.statistics, hosts={"h1": HostStatistics(factor=50.0)})
    slow = attrs.evolve(here, statistics=known)
    placed = what_if(slow, Question(algorithm="largest-first", rates={"clicks": 20.0}), USUAL)
    assert set(placed["placement"].values()) == {"h2"}


@pytest.mark.parametrize("duration", [0.01, 0.5, 1.5, 3600])
def test_short_times_can_be_asked_about(duration: float) -> None:
    """Every duration that is named as allowed is answered."""
    assert what_if(setting(), Question(duration=duration), USUAL)["latency"]["worst"] > 0


@pytest.mark.parametrize(
    ("question", "says"),
    [
        (Question(rates={"click": 1.0}), "did you mean 'clicks'"),
        (Question(rates={"clicks": -1.0}), "expected a rate >= 0"),
        (Question(rates={"clicks": float("nan")}), "expected a rate >= 0"),
        (Question(duration=0), "expected a duration"),
        (Question(keep={"a->b": 0.5}), "is no stream"),
        (Question(keep={"clicks->views": 1.5}), "expected a fraction"),
        (Question(placement={"scored": "h9"}), "h9"),
        (Question(placement={"nobody": "h1"}), "nobody"),
        (Question(algorithm="economical-replicated"), "cannot be asked for"),
        (Question(keep={"clicks->views": 0.5}, shed=True), "cannot be asked for together"),
    ],
)
def test_impossible_questions_are_refused(question: Question, says: str) -> None:
    """Strangers and impossible numbers are refused in one sentence."""
    with pytest.raises(InputError) as refused:
        what_if(setting(), question, USUAL)
    assert says in str(refused.value)


def test_the_model_says_what_it_leaves_out() -> None:
    """Where Mace answers, 0 s comes with a sentence that only overload counts; micro-batches need no remark."""
    found = what_if(setting(), Question(rates={"clicks": 10.0}), USUAL, batches=False)
    assert found["model"] == "mace"
    assert found["latency"]["worst"] == 0
    assert found["notes"] == [OVERLOAD_ONLY]
    assert "because a host is overloaded" in OVERLOAD_ONLY
    assert what_if(setting(), Question(rates={"clicks": 10.0}), USUAL)["notes"] == []


def test_answers_come_while_somebody_waits() -> None:
    """An answer takes at most 300 ms of a core once the model's kernels are loaded."""
    here, question = setting(), Question(rates={"clicks": 400.0}, shed=True)
    what_if(here, question, USUAL)
    took = []
    for _ in range(3):
        begin = time.process_time()
        what_if(here, question, USUAL)
        took.append(time.process_time() - begin)
    assert min(took) <= 0.3
