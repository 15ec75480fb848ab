"""Folders and files by path or URI: local ones by the operating system, others by pyarrow's file systems."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

    from penstock.files import Document

LOCAL = ("", "file")
ALIASES = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "wasbs": "abfss"}
"""Hadoop's names for what pyarrow calls otherwise."""


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI, '' for a path; names may hold colons, as in ``backup:1``."""
    head, mark, rest = uri.partition(":")
    known = mark and head.isalnum() and len(head) > 1 and (rest.startswith("/") or head.lower() == "file")
    return head.lower() if known else ""


def absolute(uri: str) -> str:
    """Return a URI for Spark's readers, whatever its default file system; a path becomes ``file://…``.

    They take it for a pattern, as its writer may have meant it, but for the current folder. Hadoop does not undo
    percent signs, so that none are made.

    Raises
    ------
    ValueError
        If it is a ``file:`` URI that says no whole path.
    """
    if scheme_of(uri) not in LOCAL:
        return uri
    path = _path(uri)
    return "file://" + os.path.normpath(path if os.path.isabs(path) else os.path.join(literally(os.getcwd()), path))


def literally(path: str) -> str:
    """Return the pattern that fits a path and nothing else."""
    return re.sub(r"[]\\[{}*?]", r"\\\g<0>", path)


def place_of(uri: str) -> Place:
    """Return the place that a path or URI names.

    Raises
    ------
    ValueError
        If it is a ``file:`` URI that says no whole path.
    """
    if scheme_of(uri) in LOCAL:
        return Place(os.path.abspath(_path(uri)))
    return RemotePlace(uri.rstrip("/"))


def _path(uri: str) -> str:
    if not scheme_of(uri):
        return uri
    rest = uri.partition(":")[2]
    host, slash, path = rest[2:].partition("/") if rest.startswith("//") else ("", rest[:1], rest[1:])
    if slash != "/" or host.lower() not in ("", "localhost"):
        raise ValueError(f"{uri!r} does not name a file: write file:///… with the whole path, or a path alone")
    return "/" + path.lstrip("/")


class Place:
    """A local file or folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __truediv__(self, name: str) -> Place:
        return Place(os.path.join(self.path, name))

    def __repr__(self) -> str:
        return f"Place({self.path!r})"

    @property
    def name(self) -> str:
        """The last part."""
        return os.path.basename(self.path)

    @property
    def uri(self) -> str:
        """The URI, for Spark's writers, and options of penstock's own."""
        return "file://" + self.path

    @property
    def pattern(self) -> str:
        """The URI for Spark's readers of files, which take it for a pattern."""
        return literally(self.uri)

    def read(self) -> bytes:
        """Return a file's content.

        Raises
        ------
        FileNotFoundError
            If there is none.
        """
        with open(self.path, "rb") as file:
            return file.read()

    def open(self) -> pa.NativeFile:
        """Return a pyarrow file to read from."""
        import pyarrow as pa

        return pa.memory_map(self.path)

    def exists(self) -> bool:
        """Whether there is a file or folder."""
        return os.path.exists(self.path)

    def names(self) -> list[str]:
        """Return the sorted names in a folder; none where there is no folder."""
        try:
            return sorted(os.listdir(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def numbers(self) -> list[int]:
        """Return the sorted numbers by which files in a folder are named; half-written ones are left out."""
        heads = [name.split(".")[0] for name in self.names() if not name.endswith(".tmp")]
        return sorted(int(head) for head in heads if head.isdigit())

    def publish(self, content: bytes | pa.Buffer) -> bool:
        """Make a file appear whole; return False if it is there already (a replayed batch).

        Parameters
        ----------
        content
            Of the file.
        """
        if self.exists():
            return False
        self.replace(content)
        return True

    def replace(self, content: bytes | pa.Buffer, mode: int = 0o666, *, lasting: bool = False) -> None:
        """Make a file appear whole, in place of one that may be there.

        ``mode``: its rights, before the user mask; ``lasting``: it is there also after a power cut.
        """
        temporary = f"{self.path}.{os.getpid()}.{threading.get_native_id()}.tmp"
        opener = partial(os.open, mode=mode)
        try:
            try:
                file = open(temporary, "wb", opener=opener)  # noqa: SIM115
            except FileNotFoundError:
                os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
                file = open(temporary, "wb", opener=opener)  # noqa: SIM115
            with file:
                file.write(content)
                if lasting:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except BaseException as error:
            if os.path.exists(temporary):
                os.remove(temporary)
            if isinstance(error, OSError):
                # Of a full disk the system names none.
                error.filename = self.path
            raise

    def make(self) -> None:
        """Make a folder, closed to other users, if there is none."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)

    def move(self, target: Place) -> None:
        """Rename a file, over one that may be there."""
        try:
            os.replace(self.path, target.path)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(target.path), exist_ok=True)
            os.replace(self.path, target.path)

    def copy(self, target: Place) -> None:
        """Copy a folder with all that is in it, if there is one, but for files that vanish meanwhile."""

        def copied(file: str, to: str) -> None:
            with contextlib.suppress(FileNotFoundError):
                shutil.copy2(file, to)

        if self.exists():
            shutil.copytree(self.path, target.path, copy_function=copied, dirs_exist_ok=True)

    def remove(self) -> None:
        """Remove a file or a folder with all that is in it; there may be none."""
        try:
            os.remove(self.path)
        except (IsADirectoryError, PermissionError):
            shutil.rmtree(self.path, ignore_errors=True)
        except FileNotFoundError:
            pass


class RemotePlace(Place):
    """A file or folder on an object store or another shared file system."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._known: tuple[fs.FileSystem, str] | None = None

    def __getstate__(self) -> Document:
        return {"path": self.path, "_known": None}

    def __truediv__(self, name: str) -> RemotePlace:
        # One client for all that is below: making one may ask the network.
        system, path = self._at()
        child = RemotePlace(f"{self.path}/{name}")
        child._known = system, f"{path}/{name}"
        return child

    @property
    def name(self) -> str:
        """The last part."""
        return self.path.rpartition("/")[2]

    @property
    def uri(self) -> str:
        """The URI, as it was given."""
        return self.path

    def _at(self) -> tuple[fs.FileSystem, str]:
        """Return the file system, and the path there, which is taken as it is written: so does Hadoop.

        Raises
        ------
        ValueError
            If pyarrow has no such file system.
        """
        import pyarrow as pa
        from pyarrow import fs

        if self._known is None:
            scheme, _, rest = self.path.partition(":")
            scheme = scheme.lower()
            host, _, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
            try:
                system, root = fs.FileSystem.from_uri(f"{ALIASES.get(scheme, scheme)}://{host}/")
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                why = str(error)
                if "Unrecognized filesystem" in why:
                    why = f"the scheme {scheme!r} is unknown: use a path, file, s3a, gs, abfss or hdfs"
                raise ValueError(f"no file system for {self.path!r}: {why}") from None
            whole = "/".join(filter(None, [*root.split("/"), *path.split("/")]))
            self._known = system, "/" * root.startswith("/") + whole
        return self._known

    def read(self) -> bytes:
        """Return a file's content."""
        system, path = self._at()
        with system.open_input_stream(path) as file:
            return bytes(file.read())

    def open(self) -> pa.NativeFile:
        """Return a pyarrow file to read from."""
        system, path = self._at()
        return system.open_input_file(path)

    def exists(self) -> bool:
        """Whether there is a file or folder."""
        from pyarrow import fs

        system, path = self._at()
        return bool(system.get_file_info(path).type != fs.FileType.NotFound)

    def names(self) -> list[str]:
        """Return the sorted names in a folder; none where there is no folder."""
        from pyarrow import fs

        system, path = self._at()
        found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return sorted(info.base_name for info in found)

    def replace(self, content: bytes | pa.Buffer, mode: int = 0o666, *, lasting: bool = False) -> None:
        """Write a file, whose rights the store knows; object stores show it when it is closed."""
        system, path = self._at()
        system.create_dir(path.rpartition("/")[0], recursive=True)
        with system.open_output_stream(path) as file:
            file.write(content)

    def make(self) -> None:
        """Make a folder."""
        system, path = self._at()
        system.create_dir(path, recursive=True)

    def move(self, target: Place) -> None:
        """Rename a file on the same file system."""
        assert isinstance(target, RemotePlace)  # noqa: S101 - for the type checker
        system, path = self._at()
        there = target._at()[1]
        system.create_dir(there.rpartition("/")[0], recursive=True)
        system.move(path, there)

    def copy(self, target: Place) -> None:
        """Copy a folder with all that is in it, if there is one."""
        from pyarrow import fs

        assert isinstance(target, RemotePlace)  # noqa: S101 - for the type checker
        if self.exists():
            (system, path), (other, there) = self._at(), target._at()
            fs.copy_files(path, there, source_filesystem=system, destination_filesystem=other)

    def remove(self) -> None:
        """Remove a file or a folder with all that is in it; there may be none."""
        from pyarrow import fs

        system, path = self._at()
        kind = system.get_file_info(path).type
        if kind == fs.FileType.Directory:
            system.delete_dir(path)
        elif kind == fs.FileType.File:
            system.delete_file(path)
