"""Bad input: whatever is in a file, a command answers or refuses with one message and code 2; it never breaks."""

from __future__ import annotations

import copy
import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import InputError

MORE = int(os.environ.get("PENSTOCK_EXAMPLES", "1"))
"""So many times as many spoilt files; each run has others."""

NETWORK = """\
name = "n"
[defaults]
service = "exponential"
[sources.s]
format = "rate"
options = { rowsPerSecond = 5 }
time = "timestamp"
lateness = "1 s"
[sources.r]
[operators.f]
kind = "filter"
input = "s"
cost = 0.001
selectivity = 0.5
pin = "h1"
[operators.u]
kind = "union"
inputs = ["f", "r"]
[operators.j]
kind = "join"
inputs = ["u", "s"]
window = [2, 3]
cost = [0.001, 0.002]
selectivity = 0.01
[operators.a]
kind = "aggregate"
input = "j"
window = "10 seconds"
cost = 0.001
[sinks.t]
input = "a"
weight = 2.0
"""
CLUSTER = """\
[hosts.h1]
capacity = 1.0
quota = 0.9
[hosts.h2]
cores = 2
[links]
delay = 0.0
[links."h1->h2"]
delay = 0.01
bandwidth = 1000.0
[spark]
trigger = "1 s"
"""
RATES = "time,s,r\n0,10,5\n1,20,5\n2,10,0\n"
PLACEMENT = '{"placement": {"f": "h1", "u": "h1", "j": "h2", "a": "h2"}}'
STATISTICS = (
    '{"operators": {"u": {"cost": [0.001, 0.002], "error": 0.1, "tuples": 5}}, '
    '"hosts": {"h1": {"overhead": 0.1}}, "measured": {"pass": "alone"}}'
)
KEEP = '{"keep": {"s->f": 0.5, "j->a": 0.25}}'
FILES = {
    "network.toml": NETWORK,
    "cluster.toml": CLUSTER,
    "rates.csv": RATES,
    "placement.json": PLACEMENT,
    "statistics.json": STATISTICS,
    "keep.json": KEEP,
}
COMMANDS = {
    "estimate": ["network.toml", "cluster.toml", "rates.csv", "placement.json", "statistics.json"],
    "load": ["network.toml", "cluster.toml", "rates.csv", "placement.json", "statistics.json"],
    "place": ["network.toml", "cluster.toml", "rates.csv", "statistics.json"],
    "simulate": ["network.toml", "cluster.toml", "rates.csv", "placement.json", "statistics.json", "keep.json"],
}

# What Spark can run, of the same names: tests put a refusal in the place of the hosts' start.
RUNNABLE = (
    NETWORK.replace("window = [2, 3]", 'on = "u.value = s.value"\nwithin = "5 s"')
    .replace("cost = 0.001\nselectivity = 0.5", 'where = "value > 1"\ncost = 0.001\nselectivity = 0.5')
    .replace("[sources.r]", '[sources.r]\nformat = "rate"\ntime = "timestamp"')
)
ENGINES = {
    "calibrate": ["network.toml", "cluster.toml"],
    "run": ["network.toml", "cluster.toml", "placement.json", "statistics.json", "keep.json"],
}

# NaN, infinities, wrong types, wrong signs, too large, too long
VALUES: list[Any] = [
    float("nan"), float("inf"), -1, -0.5, 0, 1.5, 2**70, 10**400, 1e308, True,
    "", "x", "h1->h9", "a->b", "\x07\u202e", "y" * 5000, [], [1], [[1]], ["f", "f"], {}, {"a": 1}, {"": {}},
]  # fmt: skip


def ask(penstock: Any, folder: Path, command: str) -> Any:
    options = {"network.toml": "", "cluster.toml": "--cluster", "rates.csv": "--rates", "placement.json": "--placement"}
    options |= {"statistics.json": "--statistics", "keep.json": "--keep"}
    listed = (COMMANDS | ENGINES)[command]
    words = [word for name in listed for word in (options[name], str(folder / name)) if word]
    outputs = {
        "run": ["--directory", str(folder / "run")],
        "calibrate": ["--sample", str(folder / "samples"), "--out", str(folder / "out.json")],
    }
    words += outputs.get(command, [])
    return penstock(command, *words, "--json")


def write(folder: Path, **changed: str | bytes) -> None:
    for name, text in FILES.items():
        given = changed.get(name.partition(".")[0], text)
        (folder / name).write_bytes(given if isinstance(given, bytes) else given.encode("utf-8", "surrogatepass"))
    (folder / "samples").mkdir(exist_ok=True)
    for source in "rs":
        (folder / f"samples/{source}.json").touch()


def check(outcome: Any, folder: Path, *, refused: bool | None = None) -> None:
    """Either a document, or an answer of no, or one line that names a file."""
    assert outcome.code in (0, 1, 2), outcome
    assert "Traceback" not in outcome.err
    if refused is not None:
        assert outcome.code == (2 if refused else 0), outcome
    if outcome.code == 0:
        assert isinstance(outcome.document, dict)
        return
    if outcome.code == 1:
        assert outcome.document["feasible"] is False
        return
    assert outcome.out == ""
    assert outcome.err.startswith("penstock: ")
    assert outcome.err.count("\n") == 1, outcome.err
    assert any(str(folder / name) in outcome.err for name in FILES), outcome.err
    assert len(outcome.err) < 1000, len(outcome.err)


def toml(value: Any, top: bool = True) -> str:
    """Write a document as TOML; deeper tables are written inline."""
    if isinstance(value, dict):
        pairs = [f"{json.dumps(key)} = {toml(item, top=False)}" for key, item in value.items()]
        return "\n".join(pairs) + "\n" if top else "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item, top=False) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, str) else repr(value)


def paths(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document, as the keys that lead there."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, item in items for path in ((*before, key), *paths(item, (*before, key)))]


@st.composite
def mutated(draw: Any, document: Any) -> Any:
    """A document with one to three changes: a value replaced, a key removed, renamed, or a table copied."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        places = paths(changed)
        if not places:
            break
        *way, last = draw(st.sampled_from(places))
        parent = changed
        for key in way:
            parent = parent[key]
        match draw(st.sampled_from(["replace", "replace", "remove", "rename", "copy"])):
            case "replace":
                parent[last] = copy.deepcopy(draw(st.sampled_from(VALUES)))
            case "remove":
                del parent[last]
            case _ if isinstance(parent, list):
                parent.append(parent[last])
            case "rename":
                parent[draw(st.sampled_from(["f", "t", "h1", "kind", "window", "x y", "a#2", "", "routes"]))] = (
                    parent.pop(last)
                )
            case "copy":
                parent[draw(st.sampled_from(["f", "h3", "delay", "cost", "host"]))] = copy.deepcopy(parent[last])
    return changed


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_files_are_good(penstock: Any, tmp_path: Path, command: str) -> None:
    """The files that the other tests spoil are good as they are."""
    write(tmp_path)
    check(ask(penstock, tmp_path, command), tmp_path, refused=False)


@pytest.mark.parametrize("name", ["network", "cluster"])
@given(data=st.data())
@settings(max_examples=50 * MORE)
def test_spoilt_toml(penstock: Any, tmp_path: Path, name: str, data: Any) -> None:
    """A network or cluster file with wrong, missing, renamed or copied parts is answered or refused, never a trace."""
    document = tomllib.loads(FILES[f"{name}.toml"])
    write(tmp_path, **{name: toml(data.draw(mutated(document)))})
    check(ask(penstock, tmp_path, data.draw(st.sampled_from(["load", "place", "estimate"]))), tmp_path)


@pytest.mark.parametrize("name", ["placement", "statistics", "keep"])
@given(data=st.data())
@settings(max_examples=25 * MORE)
def test_spoilt_json(penstock: Any, tmp_path: Path, name: str, data: Any) -> None:
    """A placement, statistics or keep file with wrong parts is answered or refused, never a trace."""
    document = json.loads(FILES[f"{name}.json"])
    write(tmp_path, **{name: json.dumps(data.draw(mutated(document)))})
    check(ask(penstock, tmp_path, "simulate"), tmp_path)


@given(data=st.data(), name=st.sampled_from(sorted(FILES)))
@settings(max_examples=70 * MORE)
def test_spoilt_bytes(penstock: Any, tmp_path: Path, name: str, data: Any) -> None:
    """A file of any kind that is cut off, has bytes changed, or lines twice is answered or refused, never a trace."""
    raw = bytearray(FILES[name].encode())
    at = data.draw(st.integers(0, len(raw) - 1))
    match data.draw(st.sampled_from(["cut", "insert", "change", "twice", "binary"])):
        case "cut":
            del raw[at:]
        case "insert":
            raw[at:at] = data.draw(st.binary(min_size=1, max_size=8))
        case "change":
            raw[at] = data.draw(st.integers(0, 255))
        case "twice":
            lines = raw.splitlines(keepends=True)
            k = data.draw(st.integers(0, len(lines) - 1))
            raw = bytearray(b"".join([*lines[: k + 1], *lines[k:]]))
        case "binary":
            raw = bytearray(data.draw(st.binary(max_size=200)))
    write(tmp_path, **{name.partition(".")[0]: bytes(raw)})
    check(ask(penstock, tmp_path, "simulate" if name == "keep.json" else "load"), tmp_path)


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize(
    "content", [b"", b"\0" * 100, b"\xff\xfe\x00", b"\x89PNG\r\n\x1a\n", b"[" * 100_000, b"{" * 100_000]
)
def test_hopeless_files(penstock: Any, tmp_path: Path, name: str, content: bytes) -> None:
    """Empty, binary and absurdly nested files are refused."""
    write(tmp_path, **{name.partition(".")[0]: content})
    check(ask(penstock, tmp_path, "simulate"), tmp_path, refused=True)


@pytest.mark.parametrize("name", sorted(FILES))
def test_missing_unreadable_and_huge_files(penstock: Any, tmp_path: Path, name: str, monkeypatch: Any) -> None:
    """A missing file, a folder in its place and a file beyond the limit are refused."""
    write(tmp_path)
    (tmp_path / name).unlink()
    check(ask(penstock, tmp_path, "simulate"), tmp_path, refused=True)
    (tmp_path / name).mkdir()
    check(ask(penstock, tmp_path, "simulate"), tmp_path, refused=True)
    (tmp_path / name).rmdir()
    monkeypatch.setattr("penstock.files.MAX_BYTES", 1 << 20)
    with (tmp_path / name).open("wb") as file:
        file.truncate((1 << 20) + 1)
    done = ask(penstock, tmp_path, "simulate")
    check(done, tmp_path, refused=True)
    assert "at most 1 MiB" in done.err


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("network", 'input = "j"', 'input = "a"'),
        ("network", 'inputs = ["f", "r"]', 'inputs = ["f", "a"]'),
        ("network", 'pin = "h1"', 'pin = "h7"'),
        ("network", "[sinks.t]", "[sinks.s]"),
        ("network", "[operators.f]", "[operators.s]"),
        ("network", "[sources.r]", "[sources.r]\n[sources.r]"),
        ("network", "rowsPerSecond = 5", "rowsPerSecond = []"),
        ("network", "rowsPerSecond = 5", f"rowsPerSecond = {'5' * 5000}"),
        ("network", "[defaults]", "[defaults]\ncosts = 1"),
        ("network", "[defaults]", '[defaults]\ncost = "much"'),
        ("network", 'time = "timestamp"', 'time = "timestamp"\nhost = "h9"'),
        ("cluster", "quota = 0.9", "quota = 1.1"),
        ("cluster", "capacity = 1.0", "capacity = -1"),
        ("cluster", '"h1->h2"', '"h1->h3"'),
        ("cluster", '"h1->h2"', '"h1->h1"'),
        ("cluster", '[links."h1->h2"]', '[links."h1 -> h2"]\ndelay = 2\n[links."h1->h2"]'),
        ("cluster", "[links]", "[link]"),
        ("rates", "time,s,r", "time,s,q"),
        ("rates", "time,s,r", "time,s,s"),
        ("rates", "2,10,0", "3,10,0"),
        ("rates", "2,10,0", "2,10"),
        ("rates", "2,10,0", "2,10,-0.1"),
        ("rates", "2,10,0", "2,10,nan"),
        ("rates", "2,10,0", "2,10,1e300"),
        ("placement", '"a": "h2"', '"b": "h2"'),
        ("placement", ', "a": "h2"', ""),
        ("placement", '"a": "h2"', '"a": "h3"'),
        ("placement", '"a": "h2"', '"a": "h2", "a": "h1"'),
        ("placement", '"f": "h1"', '"f": "h2"'),
        ("statistics", '"u"', '"v"'),
        ("statistics", "[0.001, 0.002]", "[0.001, 0.002, 0.003]"),
        ("statistics", '{"u"', '{"f": {"cost": [0.001, 0.002]}, "u"'),
        ("statistics", "0.1}", f"{'1' * 5000}}}"),
        ("statistics", "0.1}", "NaN}"),
        ("statistics", '"error": 0.1', '"error": Infinity'),
        ("statistics", '"overhead": 0.1', '"overhead": Infinity'),
        ("keep", "0.5", "1.5"),
        ("keep", "0.5", "-0.5"),
        ("keep", "0.5", "NaN"),
        ("keep", "s->f", "s->a"),
        ("keep", "s->f", "f"),
    ],
)
def test_mistakes_of_people(penstock: Any, tmp_path: Path, name: str, old: str, new: str) -> None:
    """Circles, strangers, names used twice, wrong numbers: each is refused by a message that names its file."""
    (file,) = [file for file in FILES if file.startswith(name)]
    assert old in FILES[file]
    write(tmp_path, **{name: FILES[file].replace(old, new, 1)})
    done = ask(penstock, tmp_path, "simulate")
    check(done, tmp_path, refused=True)
    assert str(tmp_path / file) in done.err


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("placement", ', "a": "h2"', ""),
        ("rates", "s,r", "s,q"),
        ("keep", "s->f", "s->a"),
    ],
)
def test_the_file_is_named_in_a_folder_with_an_equals_sign(
    penstock: Any, tmp_path: Path, name: str, old: str, new: str
) -> None:
    """A message names its file also where the path could be taken for values that are written out."""
    folder = tmp_path / "date=2026-01-31"
    folder.mkdir()
    (file,) = [file for file in FILES if file.startswith(name)]
    assert old in FILES[file]
    write(folder, **{name: FILES[file].replace(old, new, 1)})
    done = ask(penstock, folder, "simulate")
    check(done, folder, refused=True)
    assert str(folder / file) in done.err


def test_drops_that_no_window_allows_name_the_file(penstock: Any, tmp_path: Path) -> None:
    """A keep fraction that windows of different lengths forbid is refused by a message that names the keep file."""
    another = '[operators.b]\nkind = "aggregate"\ninput = "j"\nwindow = "7 s"\ncost = 0.001\n'
    placed = PLACEMENT.replace('"a": "h2"', '"a": "h2", "b": "h2"')
    write(tmp_path, network=NETWORK + another, placement=placed)
    done = ask(penstock, tmp_path, "simulate")
    assert done.code == 2, done
    assert f"{tmp_path / 'keep.json'}: keep.s->f: " in done.err


@pytest.fixture
def hosts_refuse(monkeypatch: Any) -> None:
    """Let the start of hosts be refused with a message of its own."""

    def start_hosts(*_: Any, **__: Any) -> Any:
        raise InputError("would have started", file="hosts/network.toml")

    for name in ("begin_hosts", "start_hosts"):
        monkeypatch.setattr(f"penstock.spark.hosts.{name}", start_hosts)


@pytest.mark.parametrize("command", sorted(ENGINES))
@pytest.mark.usefixtures("hosts_refuse")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50 * MORE)
@given(data=st.data())
def test_spoilt_files_start_nothing(penstock: Any, tmp_path: Path, command: str, data: Any) -> None:
    """What runs on Spark refuses a spoilt file before any host is started, and leaves nothing behind."""
    name = data.draw(st.sampled_from(ENGINES[command]))
    form = toml if name.endswith("toml") else json.dumps
    read = tomllib.loads if name.endswith("toml") else json.loads
    changed = form(data.draw(mutated(read(RUNNABLE if name == "network.toml" else FILES[name]))))
    write(tmp_path, **{"network": RUNNABLE, name.partition(".")[0]: changed})
    before = sorted(path.name for path in tmp_path.iterdir())
    outcome = ask(penstock, tmp_path, command)
    assert outcome.code == 2, outcome
    # The progress bar of a start leaves a line of its own.
    assert outcome.err.strip().count("\n") == 0, outcome.err
    assert "Traceback" not in outcome.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", sorted(ENGINES))
@pytest.mark.usefixtures("hosts_refuse")
def test_good_files_would_start(penstock: Any, tmp_path: Path, command: str) -> None:
    """The files that the test above spoils are good as they are."""
    write(tmp_path, network=RUNNABLE)
    assert "would have started" in ask(penstock, tmp_path, command).err
