"""The Nexmark events: ratios, determinism, the schedule and its inverse."""

import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.workload import nexmark
from penstock.workload.nexmark import COLUMNS, SCHEMA, Nexmark, Schedule

MANY = Nexmark(Schedule.of([1000.0] * 20, 1.0), seed=3, epoch=1_700_000_000_000_000)


def table(first: int, last: int, stream: Nexmark = MANY) -> list[dict[str, object]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in stream.rows(first, last)]


def test_kinds_come_in_the_ratio_1_3_46() -> None:
    """Every 50 events hold one person, three auctions and 46 bids, in this order."""
    kinds = [row["kind"] for row in table(0, 100)]
    assert kinds == (["person"] + ["auction"] * 3 + ["bid"] * 46) * 2


def test_an_event_is_a_function_of_its_number() -> None:
    """An event computed alone equals the same event computed among others, in rows, columns and batches."""
    rows = MANY.rows(0, 2000)
    assert [MANY.event(n) for n in range(0, 2000, 37)] == rows[::37]
    assert MANY.rows(977, 1203) == rows[977:1203]
    assert [tuple(row.values()) for row in MANY.batch(0, 2000).to_pylist()] == rows
    columns = MANY.columns(0, 2000)
    assert columns["bidder"].tolist() == [row[COLUMNS.index("bidder")] for row in rows]


def test_seeds_differ_and_repeat() -> None:
    """The same seed gives the same events, another seed gives others."""
    again = Nexmark(MANY.schedule, seed=3, epoch=MANY.epoch)
    other = Nexmark(MANY.schedule, seed=4, epoch=MANY.epoch)
    assert again.rows(0, 500) == MANY.rows(0, 500)
    assert other.rows(0, 500) != MANY.rows(0, 500)


def test_columns_of_a_kind_are_set_and_others_are_null() -> None:
    """Each kind has exactly the columns that the schema's description names."""
    always = {"event", "kind", "at"}
    own = {
        "person": {"id", "name", "city", "state"},
        "auction": {"id", "price", "seller", "name", "category", "reserve", "expires"},
        "bid": {"auction", "bidder", "price"},
    }
    for row in table(0, 500):
        assert {name for name, value in row.items() if value is not None} == always | own[str(row["kind"])]
    assert [part.split()[0] for part in SCHEMA.split(",")] == list(COLUMNS)


def test_ids_count_up_and_references_point_to_them() -> None:
    """People and auctions are numbered without gaps, and what bids and auctions name exists or comes soon."""
    rows = table(0, 20000)
    people = [row["id"] for row in rows if row["kind"] == "person"]
    auctions = [row["id"] for row in rows if row["kind"] == "auction"]
    assert people == list(range(1000, 1400))
    assert auctions == list(range(1000, 2200))
    seen = {"person": 999, "auction": 999}
    for row in rows:
        if row["kind"] != "bid":
            seen[str(row["kind"])] = int(str(row["id"]))
        else:
            assert 1000 <= int(str(row["auction"])) <= seen["auction"] + 10
            assert 1000 <= int(str(row["bidder"])) <= seen["person"] + 10
        if row["kind"] == "auction":
            assert 1000 <= int(str(row["seller"])) <= seen["person"] + 10


def test_hot_shares_are_the_generators() -> None:
    """Half of the bids are on hot auctions, 3/4 of them by hot bidders, and 3/4 of the auctions are by hot sellers."""
    rows = table(10000, 20000)
    bids = [row for row in rows if row["kind"] == "bid"]
    auctions = [row for row in rows if row["kind"] == "auction"]
    hot = sum(int(str(row["auction"])) % 100 == 0 for row in bids) / len(bids)
    regular = sum(int(str(row["bidder"])) % 100 == 1 for row in bids) / len(bids)
    seller = sum(int(str(row["seller"])) % 100 == 0 for row in auctions) / len(auctions)
    assert hot == pytest.approx(0.5, abs=0.03)
    assert regular == pytest.approx(0.75, abs=0.03)
    assert seller == pytest.approx(0.75, abs=0.05)


def test_prices_and_categories_are_spread() -> None:
    """Prices spread evenly over six powers of ten, categories over five numbers, and a reserve exceeds its price."""
    rows = table(0, 20000)
    prices = np.log10([float(str(row["price"])) for row in rows if row["kind"] == "bid"])
    assert prices.min() >= 2
    assert prices.max() <= 8
    assert np.histogram(prices, bins=6, range=(2, 8))[0] / prices.size == pytest.approx(np.full(6, 1 / 6), abs=0.01)
    auctions = [row for row in rows if row["kind"] == "auction"]
    assert sorted(Counter(row["category"] for row in auctions)) == [10, 11, 12, 13, 14]
    assert all(row["reserve"] > row["price"] and row["expires"] > row["at"] for row in auctions)  # type: ignore[operator]


def test_event_time_is_the_scheduled_time() -> None:
    """An event's time is the epoch plus its scheduled time, and its stimulus."""
    rows = table(0, 300)
    assert [int(row["at"].timestamp() * 1e6 + 0.5) for row in rows] == [MANY.stimulus(n) for n in range(300)]  # type: ignore[attr-defined]
    assert MANY.stimulus(250) == MANY.epoch + 250_000


@given(
    rates=st.lists(
        st.one_of(st.just(0.0), st.floats(1e-3, 5e3), st.integers(1, 3000).map(float)), min_size=1, max_size=6
    ),
    period=st.sampled_from([0.001, 0.1, 1 / 3, 1.0, 2.5]),
    start=st.sampled_from([0.0, 7.0]),
    share=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20),
)
@settings(max_examples=200, deadline=None)
def test_schedule_is_its_own_inverse(rates: list[float], period: float, start: float, share: list[float]) -> None:
    """count_by(time_of(n)) <= n < count_by(a microsecond later), times rise, and periods hold rate times width."""
    schedule = Schedule.of(rates, period, start)
    for edge, count in zip(schedule.edges, schedule.counts, strict=True):
        assert schedule.count_by(edge / 1e6) == pytest.approx(count, abs=1 + 1e-6)
    if not schedule.total:
        return
    numbers = sorted({int(x * schedule.total) for x in share} | {0, schedule.total - 1})
    micros = schedule.micros_of(numbers)
    assert (np.diff(micros) >= 0).all()
    for n, u in zip(numbers, micros.tolist(), strict=True):
        assert schedule.count_by(schedule.time_of(n)) <= n < schedule.count_by((u + 1) / 1e6)


def test_schedule_by_hand() -> None:
    """Rates 2, 0, 4 for a second each hold six events: at 0, 0.5, then 2, 2.25, 2.5, 2.75 s."""
    schedule = Schedule.of([2.0, 0.0, 4.0], 1.0)
    assert [schedule.time_of(n) for n in range(schedule.total)] == [0.0, 0.5, 2.0, 2.25, 2.5, 2.75]
    assert [schedule.count_by(t) for t in (-1.0, 0.0, 0.1, 0.5, 0.6, 1.0, 2.0, 2.1, 3.0, 99.0)] == [
        0, 0, 1, 1, 2, 2, 2, 3, 6, 6,
    ]  # fmt: skip
    with pytest.raises(IndexError, match=r"0\.\.5"):
        schedule.time_of(6)


@pytest.mark.parametrize(
    ("rates", "period"), [([], 1.0), ([-1.0], 1.0), ([float("nan")], 1.0), ([1.0], 0.0), ([1e18], 1.0)]
)
def test_schedule_refuses_what_it_cannot_keep(rates: list[float], period: float) -> None:
    """Bad rates and periods are refused with one message."""
    with pytest.raises(InputError, match="expected"):
        Schedule.of(rates, period)


def test_ships_by_value_to_a_process_without_penstock() -> None:
    """A stream pickled by value works where penstock is not installed, and gives the same events."""
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    cloudpickle.register_pickle_by_value(nexmark)
    try:
        shipped = cloudpickle.dumps(MANY)
    finally:
        cloudpickle.unregister_pickle_by_value(nexmark)
    code = (
        "import sys, pickle; sys.modules['penstock'] = None; "
        "stream = pickle.loads(sys.stdin.buffer.read()); sys.stdout.buffer.write(pickle.dumps(stream.rows(40, 90)))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=shipped, capture_output=True, check=True)
    assert pickle.loads(done.stdout) == MANY.rows(40, 90)  # noqa: S301
