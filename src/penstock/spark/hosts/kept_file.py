"""The file of hosts that outlive penstock: written, read, and its hosts ended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs
import msgspec

from penstock.errors import InputError, no_locks
from penstock.own import private, write_private
from penstock.spark.hosts.kept import Kept


def read_kept(file: str | os.PathLike[str]) -> dict[str, Kept]:
    """Return the hosts that a file names; none if there is no file.

    Raises
    ------
    InputError
        If the file is not one of hosts, or others may write it.
    """
    path = Path(file)
    try:
        status = path.stat()
        document = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read: {why}", file=str(path)) from None
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise InputError("belongs to, or can be read by, another user", file=str(path), hint=f"chmod 600 {path}")
    try:
        return {name: msgspec.convert({**row, "name": name}, Kept) for name, row in document["hosts"].items()}
    except (TypeError, KeyError, AttributeError, msgspec.ValidationError):
        raise InputError("expected the hosts that penstock hosts start wrote", file=str(path)) from None


@contextlib.contextmanager
def changing(file: str | os.PathLike[str]) -> Iterator[dict[str, Kept]]:
    """Yield the hosts that a file names, and write what the caller makes of them, also if it fails; others wait.

    Raises
    ------
    InputError
        If the file is not one of hosts, or cannot be written.
    """
    path = Path(file)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open(f"{path}.lock", "a", opener=private)  # noqa: SIM115
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            raise no_locks(error, path, "--file") from None
        hosts = read_kept(path)
        try:
            yield hosts
        finally:
            _write(path, hosts)


def _write(path: Path, hosts: Mapping[str, Kept]) -> None:
    """Write the file, whole; without hosts it goes."""
    if not hosts:
        path.unlink(missing_ok=True)
        return
    rows = {name: {k: v for k, v in attrs.asdict(host).items() if k != "name"} for name, host in sorted(hosts.items())}
    write_private(path, json.dumps({"hosts": rows}, indent=1))


def end(file: str | os.PathLike[str], names: Iterable[str] | None = None) -> list[str]:
    """End hosts of a file (default: all), and forget them; return those that ran.

    Raises
    ------
    InputError
        If the file names no such host.
    """
    # Where there is nothing to end nothing is made.
    with changing(file) if Path(file).exists() else contextlib.nullcontext(dict[str, Kept]()) as known:
        wanted = list(known) if names is None else list(dict.fromkeys(names))
        for name in wanted:
            if name not in known:
                raise InputError(f"names no host {name!r}", file=str(file), hint="penstock hosts list shows them")
        return [name for name in wanted if known.pop(name).end()]
