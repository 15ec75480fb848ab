"""Network files: what is read, what is refused and with which words."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.network import Network, Operator, Sink, Source, chain, hybrid, read_network, tree
from penstock.network.file import _described, parse_network

GOOD = """\
name = "n"
[defaults]
cost = 0.001
[sources.s]
[sources.r]
[operators.f]
kind = "filter"
input = "s"
selectivity = 0.5
[operators.j]
kind = "join"
inputs = ["f", "r"]
window = [2, 3]
cost = [0.1, 0.2]
[operators.a]
kind = "aggregate"
input = "j"
window = "10 seconds"
slide = "2 s"
by = ["u", "v"]
select = "count(*) as n"
[sinks.t]
input = "a"
weight = 2
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "network.toml"
    path.write_text(text)
    return path


def test_reads_every_key(tmp_path: Path) -> None:
    """A network file becomes frozen values with numbers per input and durations in seconds."""
    network = read_network(written(tmp_path, GOOD))
    assert list(network.operators) == ["f", "j", "a"]
    assert network.operators["f"].cost == (0.001,)
    assert network.operators["f"].selectivity == (0.5,)
    join = network.operators["j"]
    assert (join.cost, join.counts, join.within, join.stateful) == ((0.1, 0.2), (2, 3), None, True)
    aggregate = network.operators["a"]
    assert (aggregate.window, aggregate.slide, aggregate.by) == (10.0, 2.0, ("u", "v"))
    assert network.sinks["t"].weight == 2.0
    assert [stream.name for stream in network.streams] == ["a->t", "f->j", "j->a", "r->j", "s->f"]
    assert [stream.port for stream in network.inputs("j")] == [0, 1]


def test_a_sink_with_a_path_is_parquet() -> None:
    """A sink that names a path and no format writes parquet there, as Spark does, and one without goes into the run."""
    sinks = {"here": {"input": "s", "options": {"path": "out"}}, "run": {"input": "s"}}
    network = parse_network({"name": "n", "sources": {"s": {}}, "operators": {}, "sinks": sinks})
    assert {name: sink.format for name, sink in network.sinks.items()} == {"here": "parquet", "run": None}


def test_formats_are_known_in_any_case() -> None:
    """Spark takes "JSON" for "json": so do we, from files and in Python; the name of a class stays as it is."""
    tables = {"s": {"format": "NexMark"}}, {"t": {"input": "s", "format": "Parquet", "options": {"path": "out"}}}
    network = parse_network({"name": "n", "sources": tables[0], "sinks": tables[1]})
    assert network.sources["s"].scheduled
    assert network.sinks["t"].format == "parquet"
    assert Source(name="s", format="KAFKA").format == Sink(name="t", input="s", format="Kafka").format == "kafka"
    assert Sink(name="t", input="s", format="com.Example.Writer").format == "com.Example.Writer"


def test_options_are_known_in_any_case() -> None:
    """Options are the same in any case of their names, as Spark has them, and one that is there twice is refused."""
    mine = {"SUBSCRIBE": "a,b", "startingoffsets": "latest", "JSON.mode": "FAILFAST", "maxOffsetsPerTrigger": 5}
    tables = {"s": {"format": "kafka", "options": mine}}, {"t": {"input": "s", "options": {"Path": "out"}}}
    found = parse_network({"name": "n", "sources": tables[0], "operators": {}, "sinks": tables[1]})
    names = ["subscribe", "startingOffsets", "json.mode", "maxOffsetsPerTrigger"]
    assert [*found.sources["s"].options] == names
    assert (found.sinks["t"].format, found.sinks["t"].options) == ("parquet", {"path": "out"})
    with pytest.raises(InputError, match=r"sources\.s\.options\.Subscribe: is there twice, also as 'SUBSCRIBE'"):
        parse_network({"name": "n", "sources": {"s": {"options": {**mine, "Subscribe": "c"}}}, "operators": {}})


def test_a_kind_may_be_a_default() -> None:
    """The kind of the defaults is that of operators that name none, and decides which other keys fit them."""
    tables = {"a": {"input": "s", "where": "true"}, "b": {"input": "a", "kind": "map"}}
    document = {"name": "n", "sources": {"s": {}}, "operators": tables, "sinks": {"t": {"input": "b"}}}
    network = parse_network({**document, "defaults": {"kind": "filter"}})
    assert [network.operators[name].kind for name in ("a", "b")] == ["filter", "map"]
    with pytest.raises(InputError, match="'kind' is missing"):
        parse_network(document)


def test_order_in_the_file_does_not_matter(tmp_path: Path) -> None:
    """The same tables in another order give the same operators and streams in the same order."""
    head, *tables = GOOD.split("\n[")
    turned = head + "\n[" + "\n[".join(table.rstrip("\n") for table in reversed(tables)) + "\n"
    first, second = read_network(written(tmp_path, GOOD)), read_network(written(tmp_path, turned))
    assert list(first.operators.items()) == list(second.operators.items())
    assert first.streams == second.streams


def test_a_network_survives_pickling() -> None:
    """A network is a value: a pickled copy has the same parts."""
    network = chain([0.1, 0.2])
    copy = pickle.loads(pickle.dumps(network))  # noqa: S301
    assert dict(copy.operators) == dict(network.operators)
    assert copy.streams == network.streams


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        (
            'kind = "filter"',
            'kind = "filtre"',
            7,
            ["operators.f.kind: expected one of", "got 'filtre'", "did you mean 'filter'?"],
        ),
        ('kind = "filter"', 'kind = "source"', 7, ["operators.f.kind: expected one of", "got 'source'"]),
        ("[operators.f]", "[operator.f]", 6, ["operator: unknown table 'operator'", "did you mean 'operators'?"]),
        ("[sinks.t]", "[sink.t.more]", 22, ["sink: unknown table 'sink'", "did you mean 'sinks'?"]),
        ('name = "n"', 'name = "n"\nnaem = "n"', 2, ["unknown key 'naem'", "did you mean 'name'?"]),
        ("cost = 0.001", "cost = 0.001ms", 3, ["not valid TOML", "'cost = 0.001ms'", "decimal point and no unit"]),
        ("cost = 0.001", "cost = 1e-3 s", 3, ["not valid TOML", "'cost = 1e-3 s'", "decimal point and no unit"]),
        ("cost = 0.001", 'cost = "4 ms"', 3, ["a number of seconds, such as 0.004, or a list, got '4 ms'"]),
        ("cost = [0.1, 0.2]", 'cost = "fast"', 14, ["a number of seconds, such as 0.004", "got 'fast'"]),
        ("selectivity = 0.5", "selectivity = 0,5", 9, ["'selectivity = 0,5'", "decimal point and no unit"]),
        ("selectivity = 0.5", "selektivity = 0.5", 9, ["unknown key 'selektivity'", "did you mean 'selectivity'?"]),
        ("selectivity = 0.5", 'selectivity = "half"', 9, ["operators.f.selectivity", "expected"]),
        ("selectivity = 0.5", "selectivity = -1", 9, [">= 0"]),
        ("selectivity = 0.5", "selectivity = nan", 9, ["nan"]),
        ("selectivity = 0.5", "selectivity = 0.5\nselectivity = 0.6", 10, ["not valid TOML", "once"]),
        ('input = "s"', 'input = "sss"', 8, ["'sss' is no source or operator", "known names: r, s, a"]),
        ('input = "s"', 'inputs = ["s", "r"]', 8, ["a filter has one input, got 2"]),
        ('input = "s"', 'input = "a"', None, ["feed each other in a circle"]),
        ('input = "s"', 'input = "f"', None, ["the operator f reads itself"]),
        ('inputs = ["f", "r"]', 'inputs = ["f", "f"]', 12, ["the same input is given twice"]),
        ("window = [2, 3]", 'window = "2 s"', 13, ["within ="]),
        ("window = [2, 3]", "", 10, ["has no window"]),
        ("cost = [0.1, 0.2]", "cost = [0.1]", 14, ["one per input"]),
        ('slide = "2 s"', 'slide = "2 lightyears"', 19, ["duration such as"]),
        ('slide = "2 s"', 'slide = "20 s"', 19, ["at most the window"]),
        ('slide = "2 s"', "slide = 1e-6", 19, ["at most 1,000,000 windows, got 10,000,000"]),
        ('slide = "2 s"', "slide = 1e-7", 19, ["at least a microsecond, got 1e-07"]),
        ('slide = "2 s"', "slide = 0", 19, ["at least a microsecond, got 0"]),
        ('by = ["u", "v"]', 'by = "u,,v"', 20, ["operators.a.by: expected names of columns, each once, got 'u,,v'"]),
        ('by = ["u", "v"]', 'by = ["u", "U"]', 20, ["each once, got ['u', 'U']"]),
        ('by = ["u", "v"]', 'where = "true"', 20, ["a aggregate has no 'where'", "filter"]),
        ("weight = 2", "weight = inf", 24, ["inf"]),
        ("[sinks.t]", "[sinks.f]", None, ["already used"]),
        ("[sources.r]", '[sources."r s"]', 5, ["letters, digits"]),
        ("[defaults]", "[default]", 2, ["unknown table 'default'", "'defaults'"]),
        ('name = "n"', "", None, ["'name' is missing"]),
        ('name = "n"', 'name = "../../evil"', 1, ["name: expected a name that a folder may have", "'../../evil'"]),
        ('name = "n"', 'name = "a/b"', 1, ["a folder may have", "got 'a/b'"]),
        ('name = "n"', 'name = "a\\u202e"', 1, ["a folder may have", r"got 'a\u202e'"]),
        ('input = "a"\nweight', "weight", 22, ["'input' is missing"]),
        ('input = "a"\nweight', 'input = "t"\nweight', 23, ["is a sink"]),
    ],
)
def test_refuses_with_place_and_remedy(tmp_path: Path, old: str, new: str, line: int | None, words: list[str]) -> None:
    """Each mistake is one message that names file, line, key, what was expected and what to do."""
    assert old in GOOD
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        read_network(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    if line is not None:
        assert message.startswith(f"{path}:{line}: "), message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('by = ["u" "v"]', """'by = ["u" "v"]'"""),
        ("cost = 1.5.2", "'cost = 1.5.2'"),
        ("day = 2024-13-01", "'day = 2024-13-01'"),
        ("mask = 0x1G", "'mask = 0x1G'"),
        ("x = [" + "1, " * 99 + "]]", "1, 1,…"),
    ],
)
def test_what_is_no_toml_is_shown(tmp_path: Path, line: str, shown: str) -> None:
    """A line that is not TOML is shown, shortened; that numbers have no unit is said of none but such numbers."""
    with pytest.raises(InputError) as caught:
        read_network(written(tmp_path, f'name = "n"\n{line}\n'))
    message = str(caught.value)
    assert f"{tmp_path}/network.toml:2: not valid TOML: " in message
    assert shown in message
    assert len(message.partition("not valid TOML: ")[2]) < 140
    assert "decimal point" not in message


@pytest.mark.parametrize("service", ["constant", "exponential", "gamma:2.5", "two-point:3:0.25"])
def test_service_distributions(service: str) -> None:
    """The four ways to draw service times are read, and their misspellings refused."""
    tables = {
        "name": "n",
        "sources": {"s": {}},
        "operators": {"f": {"kind": "map", "input": "s", "cost": 1, "service": service}},
    }
    assert parse_network(tables).operators["f"].service == service
    for wrong in (service + ":1", "gama:2", "gamma:0", "two-point:3:1", "gamma:inf"):
        tables["operators"]["f"]["service"] = wrong  # type: ignore[index]
        with pytest.raises(InputError, match="expected constant, exponential"):
            parse_network(tables)


def test_routes_name_every_reader_and_add_up_to_one() -> None:
    """A route has a share for exactly the readers of the operator, and the shares are a whole."""

    def network(route: dict[str, float]) -> Network:
        return parse_network(
            {
                "name": "n",
                "sources": {"s": {}},
                "operators": {
                    "o": {"kind": "map", "input": "s", "route": route},
                    "a": {"kind": "map", "input": "o"},
                    "b": {"kind": "map", "input": "o"},
                },
            }
        )

    shares = {stream.name: stream.share for stream in network({"a": 0.3, "b": 0.7}).streams}
    assert shares == {"s->o": 1.0, "o->a": 0.3, "o->b": 0.7}
    with pytest.raises(InputError, match="add up to 1"):
        network({"a": 0.3, "b": 0.3})
    with pytest.raises(InputError, match="expected the readers a, b"):
        network({"a": 1.0})


@given(seed=st.integers(0, 10**6), operators=st.integers(1, 60), sources=st.integers(1, 5), filters=st.floats(0, 1))
@settings(max_examples=40)
def test_random_shapes_are_networks(seed: int, operators: int, sources: int, filters: float) -> None:
    """Random networks are acyclic: every operator comes after its inputs, and every operator reaches a sink."""
    network = hybrid(operators, sources, filters, np.random.default_rng(seed))
    seen = set(network.sources)
    for operator in network.operators.values():
        assert set(operator.inputs) <= seen
        seen.add(operator.name)
    reach = {sink.input for sink in network.sinks.values()}
    for operator in reversed(list(network.operators.values())):
        assert operator.name in reach
        reach.update(operator.inputs)


def test_tree_by_hand() -> None:
    """A tree of depth 3 and fan-out 2 has 1 + 2 + 4 operators and four sinks, in one query."""
    network = tree(3, 2)
    assert len(network.operators) == 7
    assert len(network.sinks) == 4
    assert len(network.queries) == 1


def test_an_avro_schema_is_read_with_the_network(tmp_path: Path) -> None:
    """What a named Avro schema holds makes the network, as the file may be another one in the next run."""
    places = {"a": tmp_path / "a.avsc", "missing": tmp_path / "none.avsc"}
    places["a"].write_text('{"type": "record"}')
    tables = "".join(
        f"""
[sources.{name}]
format = "kafka"
schema = "{place}"
options = {{ subscribe = "t", payload = "avro" }}
[operators.f_{name}]
kind = "filter"
input = "{name}"
[sinks.o_{name}]
input = "f_{name}"
"""
        for name, place in places.items()
    )
    (tmp_path / "n.toml").write_text(f'name = "n"{tables}')
    read = read_network(tmp_path / "n.toml")
    assert read.sources["a"].schema == '{"type": "record"}'
    assert read.sources["missing"].schema == str(places["missing"])


PAIR = {"kind": "join", "inputs": ("s", "r")}


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"kind": "filtr"}, "kind"),
        ({"cost": (-0.01,)}, "cost"),
        ({"cost": (0.01, 0.02)}, "cost"),
        ({"cost": 0.01}, "cost"),
        ({"selectivity": (float("nan"),)}, "selectivity"),
        ({"emit": "often"}, "emit"),
        ({"service": "weird"}, "service"),
        ({"service": "two-point:0:1"}, "service"),
        ({"kind": "aggregate", "window": 1.0, "slide": 9.0}, "slide"),
        ({"kind": "aggregate", "window": 0.0}, "window"),
        ({"kind": "aggregate", "window": -1.0}, "window"),
        ({"kind": "aggregate", "window": "1 s"}, "window"),
        ({**PAIR, "within": -0.1}, "within"),
        ({**PAIR, "counts": (0, 0)}, "window"),
        ({**PAIR, "counts": (-3, 2)}, "window"),
        ({**PAIR, "counts": (2,)}, "window"),
        ({"route": {"t": 1.5, "u": -0.5}}, "route"),
    ],
)
def test_operators_made_in_python_are_checked(wrong: dict[str, Any], key: str) -> None:
    """What a file may not say, a network made in Python may not have either."""
    operator = Operator(**{"name": "f", "kind": "filter", "inputs": ("s",), **wrong})
    with pytest.raises(InputError, match=rf"^operators\.f\.{key}: expected"):
        Network.of("n", [Source(name="s"), Source(name="r")], [operator], [Sink(name=n, input="f") for n in "tu"])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"inputs": ("s", "r")}, "inputs: a filter has one input, got 2"),
        ({"kind": "join"}, "inputs: a join has two inputs, got 1"),
        (PAIR, "the join has no window"),
        ({**PAIR, "counts": (2, 2), "within": 1.0}, "the join has both 'within' and 'window'"),
        ({"kind": "aggregate", "slide": 1.0}, "slide: a slide needs a window"),
    ],
)
def test_keys_that_do_not_go_together_are_refused_in_python(wrong: dict[str, Any], told: str) -> None:
    """What is said twice or half is refused as in a file."""
    operator = Operator(**{"name": "f", "kind": "filter", "inputs": ("s",), **wrong})
    with pytest.raises(InputError, match=rf"^operators\.f.*{told}"):
        Network.of("n", [Source(name="s"), Source(name="r")], [operator])


def test_only_files_are_read_for_a_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe or a device that is named as Avro's schema is not waited for, nor a file read that is no schema's size."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_text("x" * 9)
    monkeypatch.setattr("penstock.files.MAX_BYTES", 8)
    for place in ("/dev/zero", str(tmp_path / "pipe"), str(tmp_path / "large"), str(tmp_path)):
        source = Source(name="s", format="kafka", schema=place, options={"payload": "avro"})
        assert _described(source) == source


def test_default_windows_go_to_operators_that_have_none() -> None:
    """A default window is one of time or of tuples, and gives way where an operator has the other one itself."""
    tables = {
        "a": {"kind": "aggregate", "input": "s"},
        "within": {"kind": "join", "inputs": ["s", "t"], "within": "3 seconds"},
        "counted": {"kind": "join", "inputs": ["s", "t"], "window": [2, 3]},
    }
    document = {"name": "n", "sources": {"s": {}, "t": {}}, "operators": tables, "sinks": {}}

    def found(**defaults: object) -> list[object]:
        own = parse_network({**document, "defaults": defaults}).operators
        a, within, counted = (own[name] for name in tables)
        assert (within.window, within.counts, counted.window, counted.within) == (None, None, None, None)
        return [a.window, a.slide, within.within, counted.counts]

    assert found(window="10 seconds", slide="5 seconds", within="1 second") == [10, 5, 3, (2, 3)]
    assert found(window=[5, 5], slide="5 seconds") == [None, None, 3, (2, 3)]
    assert found(slide="5 seconds") == [None, None, 3, (2, 3)]
    bare = {**document, "operators": {"j": {"kind": "join", "inputs": ["s", "t"]}}}
    both = {"window": "10 seconds", "within": "1 second"}
    assert parse_network({**bare, "defaults": both}).operators["j"].within == 1
    assert parse_network({**bare, "defaults": {"window": [5, 5]}}).operators["j"].counts == (5, 5)


def test_whole_numbers_may_be_written_with_a_point() -> None:
    """5.0 is 5 where a whole number is wanted, 5.5 is none, and options of readers stay as they are written."""
    sources = {"a": {"options": {"share": 2.0}}, "b": {}}

    def read(window: list[float]) -> Network:
        tables = {"j": {"kind": "join", "inputs": ["a", "b"], "window": window}}
        return parse_network({"name": "n", "sources": sources, "operators": tables, "sinks": {}})

    found = read([5.0, 6])
    assert found.operators["j"].counts == (5, 6)
    assert found.sources["a"].options == {"share": "2.0"}
    with pytest.raises(InputError, match=r"operators\.j\.window\[0\]: expected a whole number, got 5\.5"):
        read([5.5, 6.0])


def test_only_items_with_a_comment_end_their_line() -> None:
    """A list of items means what it did as one text; behind a comment, and behind no dashes in texts, the line ends."""
    source = {"schema": "user STRING, n INT"}
    written = ["user", "'a--b' AS sep", "`x--y`", "n /* it's */ -- it's counted"]
    operator = {"kind": "map", "input": "clicks", "select": written}
    sinks = {"out": {"input": "m"}}
    document = {"name": "n", "sources": {"clicks": source}, "operators": {"m": operator}, "sinks": sinks}
    (found,) = parse_network(document).operators.values()
    assert found.select == "user, 'a--b' AS sep, `x--y`, n /* it's */ -- it's counted\n"


def test_a_column_that_is_selected_twice_is_refused() -> None:
    """A plain name that stands twice in a list is refused, in any case; what is more is for Spark to judge."""
    table = {"kind": "map", "input": "s", "cost": 1.0}

    def read(*select: str) -> Network:
        operators = {"a": {**table, "select": [*select]}}
        return parse_network(
            {"name": "n", "sources": {"s": {}}, "operators": operators, "sinks": {"z": {"input": "a"}}}
        )

    with pytest.raises(InputError, match="column 'id' is there twice"):
        read("id", "at", "ID")
    assert read("id", "id + 1", "id + 1 as next").operators


@pytest.mark.parametrize("name", ["می\u200cخواهم", "売上\u3000集計", "🧑\u200d💻"])
def test_a_name_may_be_a_word_of_any_script(tmp_path: Path, name: str) -> None:
    """Characters that join letters, or part words, are no commands."""
    text = GOOD.replace('name = "n"', f'name = "{name}"')
    assert read_network(written(tmp_path, text)).name == name
