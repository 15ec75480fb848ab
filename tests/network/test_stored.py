"""Networks as plain documents: every field comes back, whatever its value."""

from __future__ import annotations

import json
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.files import to_json
from penstock.network import Network, Operator, Sink, Source, network_document, read_network_document
from penstock.network.model import Growth

numbers = st.floats(0, allow_nan=False, allow_infinity=False)
words = st.none() | st.text(max_size=5)
options = st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)
pairs = st.none() | st.tuples(numbers, numbers)
shares = st.floats(0, 1).map(lambda share: {"t": share, "u": 1 - share})


def having(cls: type, /, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return values of a class; no field may be left out, so that a new one is tested as well."""
    assert set(fields) == {field.name for field in attrs.fields(cls)}
    return st.builds(cls, **fields)


sources = [
    having(
        Source, name=st.just(name), schema=words, format=words, options=options, time=words, lateness=numbers,
        arrivals=st.sampled_from(["even", "poisson"]), host=words,
    )
    for name in ("r", "s")
]  # fmt: skip
services = st.sampled_from(["constant", "exponential", "gamma:2.5", "two-point:3:0.25"])
counts = st.tuples(st.integers(1), st.integers(1))


def drawn(kind: str, **windows: st.SearchStrategy[Any]) -> st.SearchStrategy[Operator]:
    """Return operators of a kind that has two inputs."""
    return having(
        Operator, name=st.just("o"), kind=st.just(kind), inputs=st.just(("r", "s")), cost=pairs, selectivity=pairs,
        service=services, emit=st.sampled_from(["exact", "chance"]), where=words, select=words,
        by=st.lists(st.text(max_size=3), max_size=2).map(tuple), on=words, function=words,
        burn=st.sampled_from(["cpu", "sleep"]), pin=words, route=st.none() | shares, state=st.none() | numbers,
        growth=st.none() | having(Growth, exponent=numbers, at=numbers), folder=words, **windows,
    )  # fmt: skip


operators = st.one_of(
    drawn("join", window=st.none(), slide=st.none(), within=numbers, counts=st.none()),
    drawn("join", window=st.none(), slide=st.none(), within=st.none(), counts=counts),
    drawn("union", window=st.floats(1, 9), slide=st.none() | st.floats(0.1, 1), within=st.none(), counts=st.none()),
)
sinks = [
    having(Sink, name=st.just(n), input=st.just("o"), weight=numbers, format=words, options=options, host=words)
    for n in ("t", "u")
]
networks = st.builds(
    lambda name, inputs, operator, ends: Network.of(name, inputs, [operator], ends),
    st.text(max_size=5),
    st.tuples(*sources),
    operators,
    st.tuples(*sinks),
)


def parts(network: Network) -> tuple[object, ...]:
    """Return what makes two networks the same."""
    folders = [operator.folder for operator in network.operators.values()]
    return network.name, dict(network.sources), dict(network.operators), dict(network.sinks), folders


@settings(max_examples=200, deadline=None)
@given(network=networks)
def test_every_field_comes_back(network: Network) -> None:
    """A network that was written to a file and read again has the same name, sources, operators and sinks."""
    again = read_network_document(json.loads(to_json(network_document(network))), "n.toml")
    assert parts(again) == parts(network)
    assert again.file == "n.toml"
