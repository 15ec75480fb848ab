"""The archive of Spark's classes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from penstock.errors import HostError
from penstock.spark.archive import write_archive
from penstock.spark.hosts import EmbeddedHost, classes, settings
from penstock.spark.hosts.java import find


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's cache, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "penstock"


def test_an_archive_is_that_of_its_java_its_jars_and_its_options(tmp_path: Path, cache: Path) -> None:
    """Another Java, another jar file, a newer one or other options of the JVM have another archive."""
    jars, java = tmp_path / "jars", tmp_path / "java" / "bin" / "java"
    jars.mkdir()
    (jars / "a.jar").write_text("a")
    java.parent.mkdir(parents=True)

    def archive(*options: str) -> Path:
        return classes.archive(java, jars, options)

    found = [archive("-Xss1m"), archive("-Xss2m")]
    (java.parent.parent / "release").write_text('JAVA_VERSION="21"')
    found.append(archive("-Xss1m"))
    (jars / "b.jar").write_text("b")
    found.append(archive("-Xss1m"))
    os.utime(jars / "b.jar", (1, 1))
    found.append(archive("-Xss1m"))
    assert archive("-Xss1m") == found[-1]
    assert len({*found}) == len(found)
    assert {file.parent for file in found} == {cache}


def test_hosts_take_an_archive_that_is_there(tmp_path: Path, cache: Path) -> None:
    """A host is started with its archive if there is one; one that writes it reads none."""
    java = tmp_path / "java"
    file = settings.archive(java)
    conf = {"spark.driver.memory": "1g"}
    option = f"-XX:SharedArchiveFile={file}"
    assert option not in settings.command(java, conf, tmp_path)
    cache.mkdir(parents=True)
    file.touch()
    assert option in settings.command(java, conf, tmp_path)
    command = settings.command(java, conf, tmp_path, tmp_path / "new")
    assert option not in command
    assert f"-XX:ArchiveClassesAtExit={tmp_path / 'new'}" in command


def test_old_archives_make_room(cache: Path) -> None:
    """The newest stay, and whatever else is there."""
    cache.mkdir(parents=True)
    for age in range(classes.KEPT + 2):
        (cache / f"classes-{age}.jsa").touch()
        os.utime(cache / f"classes-{age}.jsa", (1000 - age, 1000 - age))
    (cache / "runs.jsonl").touch()
    classes.tidy(cache)
    assert {file.name for file in cache.iterdir()} == {
        "runs.jsonl",
        *(f"classes-{age}.jsa" for age in range(classes.KEPT)),
    }


def test_a_cache_that_cannot_be_written_is_named(cache: Path) -> None:
    """Who has no place for an archive is told so, and hosts start without."""
    cache.parent.touch()
    with pytest.raises(HostError, match=f"no classes can be kept in {cache}"):
        write_archive()
    assert classes.reading(settings.archive(find())) == []


def test_a_user_without_a_home_has_no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system knows no home, nothing is kept and nothing fails."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert classes.reading(settings.archive(find())) == []


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(sys.platform != "linux", reason="what a process maps is in /proc")
def test_a_host_maps_the_archive_that_another_wrote(cache: Path) -> None:
    """What is written fits the next host, and nothing else is left in the cache."""
    file = write_archive()
    assert [*cache.iterdir()] == [file] == [settings.archive(find())]
    with EmbeddedHost("h1") as host:
        assert str(file) in Path(f"/proc/{host.pid}/maps").read_text()
        assert host.session().range(3).count() == 3
