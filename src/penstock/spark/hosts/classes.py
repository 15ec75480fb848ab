"""An archive of the classes that Spark loads: a host's JVM maps it instead of reading and checking them one by one.

The format is the JDK's own (class data sharing), so a JVM that an archive does not fit starts without it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from penstock.files import user_cache

RECORDING = 180.0
"""Seconds that a JVM has to write its archive when it ends."""

KEPT = 4
"""Archives that are kept, the newest: environments that are gone leave theirs behind."""


def archive(java: Path, jars: Path, options: Sequence[str]) -> Path:
    """Return the file of the archive for a Java, Spark's jar files and options of the JVM, there or not.

    It lies in the user's own cache: what it holds is run.
    """
    digest = hashlib.blake2b(digest_size=8)
    home = java.resolve().parent.parent
    for file in (home / "release", *sorted(jars.glob("*.jar"))):
        # A JVM looks at the same: whether a file is still the one of which it has classes.
        seen = file.stat() if file.exists() else None
        digest.update(f"{file} {seen and (seen.st_size, seen.st_mtime_ns)}\n".encode())
    digest.update("\n".join(options).encode())
    return user_cache() / f"classes-{digest.hexdigest()}.jsa"


def tidy(folder: Path) -> None:
    """Remove all archives of a folder but the newest."""
    for file in sorted(folder.glob("classes-*.jsa"), key=lambda file: file.stat().st_mtime)[:-KEPT]:
        file.unlink(missing_ok=True)


def reading(file: Path) -> list[str]:
    """Return the options of a JVM that has an archive, none if it is not there."""
    return [f"-XX:SharedArchiveFile={file}", "-Xshare:auto"] if file.exists() else []


def writing(file: Path) -> list[str]:
    """Return the options of a JVM that writes an archive when it ends, without a word on what cannot be in it."""
    return [f"-XX:ArchiveClassesAtExit={file}", "-Xlog:cds*=off"]
