"""Cluster files and placements."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path

import pytest

from penstock.cluster import (
    Cluster,
    Host,
    Link,
    Placement,
    SparkSettings,
    copies_of,
    hosts_by_operator,
    read_cluster,
    read_placement,
)
from penstock.errors import InputError

GOOD = """\
[hosts.h2]
capacity = 2.0
quota = 0.5
cores = 2
[hosts.h1]
spark = "sc://node1:15002"
token_env = "TOKEN"
[links]
delay = 0.1
bandwidth = inf
[links."h1->h2"]
bandwidth = 100
[spark]
trigger = "1 s"
conf = { "spark.a" = true }
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "cluster.toml"
    path.write_text(text)
    return path


def test_reads_every_key(tmp_path: Path) -> None:
    """Hosts are ordered by name, links inherit the default, settings are text as Spark wants it."""
    cluster = read_cluster(written(tmp_path, GOOD))
    assert list(cluster.hosts) == ["h1", "h2"]
    assert cluster.hosts["h2"].usable == 1.0
    assert (cluster.link("h1", "h2").delay, cluster.link("h1", "h2").bandwidth) == (0.1, 100)
    assert (cluster.link("h2", "h1").delay, cluster.link("h2", "h1").bandwidth) == (0.1, math.inf)
    assert cluster.link("h1", "h1").delay == 0
    assert (cluster.spark.trigger, cluster.spark.conf["spark.a"]) == (1.0, "true")
    assert not cluster.free_links
    assert pickle.loads(pickle.dumps(cluster)).hosts == cluster.hosts  # noqa: S301


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("capacity = 2.0", "capacity = 0", 2, ["hosts.h2.capacity"]),
        ("capacity = 2.0", "capacity = nan", 2, ["nan"]),
        ("capacity = 2.0", "capacity = inf", 2, ["finite"]),
        ("capacity = 2.0", "capacities = 2", 2, ["did you mean 'capacity'?"]),
        ("quota = 0.5", "quota = 1.5", 3, ["<= 1"]),
        ("quota = 0.5", "quota = 0", 3, ["> 0"]),
        ("cores = 2", "cores = 0", 4, [">= 1"]),
        ("cores = 2", "cores = 100001", 4, ["a whole number <= 100000, got 100001"]),
        ("cores = 2", f"cores = {10**30}", 4, ["a whole number <= 100000"]),
        ("cores = 2", "cores = 1.5", 4, ["a whole number, got 1.5"]),
        ('"sc://node1:15002"', '"http://node1"', 6, ["sc://"]),
        ('"sc://node1:15002"', '"sc://"', 6, ["sc://node1:15002"]),
        ('"sc://node1:15002"', '"sc://node1:15002/;token=abc"', 6, ["token_env"]),
        ("delay = 0.1", "delay = -0.1", 9, ["links.delay"]),
        ("delay = 0.1", "delay = inf", 9, ["finite"]),
        ("bandwidth = 100", "bandwidth = 0", 12, ["> 0"]),
        ('"h1->h2"', '"h1->h9"', 11, ["'h9' is no host"]),
        ('"h1->h2"', '"h1-h2"', 11, ["a link such as"]),
        ('trigger = "1 s"', 'trigger = "soon"', 14, ["duration"]),
        ('trigger = "1 s"', 'checkpoint = "2 s"', 14, ["5 seconds at least", "2"]),
        ("[spark]", '[spark.kafka]\nbootstap = "k:9092"\n[spark]', 14, ["kafka.bootstap", "did you mean 'bootstrap'?"]),
        ("[spark]", '[spark]\nkafka = { security = "SSL" }', 14, ["spark.kafka.security: unknown key", "known keys:"]),
        ("[spark]", '[spark]\nkafka = { "security.protocol" = "SSL" }', 14, ["spark.kafka: expected the address"]),
        (
            "[spark]",
            '[spark]\nkafka = { bootstrap = "k:1", bootstrap_env = "K" }',
            14,
            ["bootstrap_env: bootstrap says"],
        ),
        ("[spark]", '[spark]\nkafka = { bootstrap = "k:1", username_env = "U" }', 14, ["both username_env and"]),
        ("[spark]", '[spark]\nkafka = { bootstrap = "k:1", partitions = 0 }', 14, ["partitions: expected", "got '0'"]),
        ("[spark]", '[spark]\nkafka = { bootstrap = "k:1", replication = 1.5 }', 14, ["replication: expected a whole"]),
        ("[hosts.h1]\nspark", "[machines.m]\ncores = 0\n[hosts.h1]\nspark", 6, ["machines.m.cores: expected a whole"]),
        ('spark = "sc://node1:15002"\n', "", 6, ["hosts.h1.token_env: only an endpoint has a token"]),
        ('"TOKEN"', '""', 7, ["hosts.h1.token_env: expected the name of a variable", "leave it out"]),
        ('trigger = "1 s"', 'directory = " "', 14, ["spark.directory: ", "empty path"]),
        ("sc://node1:15002", "sc://node1:port", 6, ["an endpoint such as 'sc://node1:15002'", "'sc://node1:port'"]),
        ("[spark]", "[sparks]", 13, ["did you mean 'spark'?"]),
        ("[hosts.h1]", '[hosts."h 1"]', 5, ["a name of letters"]),
        ("[hosts.h1]", '[hosts."../h1"]', 5, ["a name of letters", "begin it with"]),
        ("[hosts.h1]", '[hosts.".."]', 5, ["a name of letters", "begin it with"]),
        ("[hosts.h1]", '[hosts."h/1"]', 5, ["a name of letters"]),
    ],
)
def test_refuses_with_place(tmp_path: Path, old: str, new: str, line: int, words: list[str]) -> None:
    """Each mistake is one message that names file, line and key."""
    assert old in GOOD
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        read_cluster(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: "), message
    assert "abc" not in message  # a token is in no message
    for word in words:
        assert word in message


@pytest.mark.parametrize("endpoint", ["sc://node1", "sc://10.0.0.1:15002", "sc://[::1]:15002/;user_id=me", "sc://a/"])
def test_endpoints(tmp_path: Path, endpoint: str) -> None:
    """An endpoint may have a port and parameters, as Spark has them."""
    assert read_cluster(written(tmp_path, f'[hosts.h1]\nspark = "{endpoint}"\n')).hosts["h1"].spark == endpoint


@pytest.mark.parametrize(
    "wrong",
    [{"capacity": -1.0}, {"capacity": math.nan}, {"quota": 1.5}, {"cores": 0}, {"price": -1.0}, {"memory": 0.0}],
)
def test_hosts_made_in_python_are_checked(wrong: dict[str, float]) -> None:
    """A host of a capacity below 0 would never be late."""
    with pytest.raises(InputError, match=rf"^hosts\.h1\.{next(iter(wrong))}: a host cannot have"):
        Cluster.of([Host(name="h1", **wrong)])  # type: ignore[arg-type]


def test_hosts_are_named_as_machines_are(tmp_path: Path) -> None:
    """Names may have dots, digits, hyphens and letters of any language."""
    names = ["node-1.example.com", "10.0.0.7", "größe_2"]
    cluster = read_cluster(written(tmp_path, "".join(f'[hosts."{name}"]\n' for name in names)))
    assert sorted(cluster.hosts) == sorted(names)


def test_a_cluster_needs_a_host(tmp_path: Path) -> None:
    """An empty file, and one without hosts, are refused."""
    for text in ("", "[hosts]\n", "hosts = 3\n", "[links]\ndelay = 1\n"):
        with pytest.raises(InputError, match="expected at least one host"):
            read_cluster(written(tmp_path, text))


def test_placement_in_a_file_and_inline(tmp_path: Path) -> None:
    """A placement reads the same from a file, with other keys beside it, and inline."""
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"algorithm": "x", "placement": {"b": "h2", "a": "h1"}}))
    placement = read_placement(path)
    assert placement == read_placement("a=h1, b=h2") == Placement({"a": "h1", "b": "h2"})
    assert list(placement) == ["a", "b"]
    assert placement.on("h1") == ("a",)
    assert placement.moved({"a": "h2", "b": "h2"}) == ("a",)


@pytest.mark.parametrize("text", ["a=h1,a=h2", "a=h1,b", "=h1", "a=", "a=h1,,b=h2"])
def test_bad_inline_placements(text: str) -> None:
    """What is not operator=host, or given twice, is refused."""
    with pytest.raises(InputError, match="--placement"):
        read_placement(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "null",
        "{",
        "{}",
        '{"placement": 3}',
        '{"placement": {"a": 1}}',
        '{"placement": {"a":"1","a":"2"}}',
    ],
)
def test_bad_placement_files(tmp_path: Path, text: str) -> None:
    """What is no placement file is refused with the name of the file."""
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"p\.json"):
        read_placement(path)


def test_a_placement_names_every_operator_and_no_stranger() -> None:
    """Unknown operators, unknown hosts, missing operators, wrong replica marks and broken pins are refused by name."""
    hosts = ["h1", "h2"]
    Placement({"a": "h1", "a#2": "h2"}).check(["a"], hosts, {"a": "h1"})
    for table, words in (
        ({"a": "h1", "x": "h1"}, "'x' is no operator"),
        ({"a": "h9"}, "'h9' is no host"),
        ({}, "operator 'a' has no host"),
        ({"a": "h1", "a#1": "h2"}, "'a#1' is no operator"),
        ({"a": "h1", "a#x": "h2"}, "'a#x' is no operator"),
        ({"a": "h1", "a#02": "h2"}, "'a#02' is no operator"),
        ({"a": "h1", "a#²": "h2"}, "'a#²' is no operator"),
        ({"a": "h1", "a#" + 5000 * "9": "h2"}, "is no operator"),
    ):
        with pytest.raises(InputError, match=words):
            Placement(table).check(["a"], hosts)
    with pytest.raises(InputError, match="pinned to 'h2'"):
        Placement({"a": "h1"}).check(["a"], hosts, {"a": "h2"})


def test_other_hosts_leave_the_rest_of_a_cluster() -> None:
    """A cluster with fewer hosts keeps its machines, its settings and the links between those that stay."""
    links = {("h1", "h2"): Link(0.1), ("h1", "h3"): Link(0.2)}
    whole = Cluster.of([Host(name=f"h{k}") for k in (1, 2, 3)], Link(0.3), links, SparkSettings(trigger=2.0))
    whole = whole.crowded(whole.hosts, 2)
    part = whole.having(host for name, host in whole.hosts.items() if name != "h3")
    assert [*part.hosts] == ["h1", "h2"]
    assert dict(part.links) == {("h1", "h2"): Link(0.1)}
    assert (part.default_link, part.spark, part.machines) == (whole.default_link, whole.spark, {"this machine": 2})


def test_uniform_cluster() -> None:
    """N hosts made inline are h1 … hN of capacity 1 with free links."""
    cluster = Cluster.uniform(12)
    assert set(cluster.hosts) == {f"h{k}" for k in range(1, 13)}
    assert cluster.free_links


def test_copies_are_in_the_order_of_their_numbers():
    """An operator's copies, and the hosts of them, come by number, not by name."""
    placement = Placement({"a": "h3", "a#2": "h1", "a#10": "h2", "ab": "h1"})
    assert copies_of(placement) == {"a": ["a", "a#2", "a#10"], "ab": ["ab"]}
    assert hosts_by_operator(placement) == {"a": ["h3", "h1", "h2"], "ab": ["h1"]}


@pytest.mark.parametrize(
    ("conf", "why"),
    [
        ('"sparkx" = 1', "begins with 'spark.', got 'sparkx'"),
        ('"spark.master" = "local[4]"', "spark.master is set by penstock itself"),
        ('"spark.sql.session.timeZone" = "Europe/Berlin"', "all SQL runs in UTC"),
    ],
)
def test_settings_that_no_host_takes_are_refused_with_their_line(tmp_path: Path, conf: str, why: str) -> None:
    """What a run would refuse every command does, unless Spark runs elsewhere, where it is not ours to start."""
    text = f"[hosts.h1]\n[spark]\nconf = {{ {conf} }}\n"
    with pytest.raises(InputError, match=r"cluster\.toml:3: spark\.conf: ") as told:
        read_cluster(written(tmp_path, text))
    assert why in str(told.value)
    assert read_cluster(written(tmp_path, text.replace("h1]", 'h1]\nspark = "sc://n1:15002"'))).spark.conf
