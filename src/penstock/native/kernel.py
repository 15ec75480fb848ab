"""A kernel's machine code: made once, kept in a file, loaded without numba.

Importing numba takes most of a second, longer than many runs, and compiling takes several. So the package holds what
numba makes of each kernel, as LLVM's bitcode, and LLVM makes machine code of it for the processor at hand in less than
a second. That is kept in an object file, as numba itself does, but so that LLVM alone can load it. If the bitcode is of
another source or system, numba compiles the kernel.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import lzma
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from penstock.arrays import Numbers
from penstock.errors import InputError
from penstock.files import atomic, user_cache

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p, ctypes.c_int64)
_SIZE = 12
"""Bytes of a digest."""


@attrs.frozen
class Kernel:
    """A compiled function of one record.

    Attributes
    ----------
    module, entry
        Where it is: a module's name, and a function ``(address of the record) -> status`` that numba has compiled; or
        the names of functions that are laid out by their annotations, see `penstock.native.shipped`.
    reads
        Files whose text is part of its source, by paths from the module's folder.
    """

    module: str
    entry: str | tuple[str, ...]
    reads: tuple[str, ...] = ()

    @functools.cache  # noqa: B019 - one for each kernel, as long as the process
    def load(self) -> Callable[[Numbers], int]:
        """Return the function of the record's array, compiled now or read from the file."""
        import llvmlite.binding as llvm  # type: ignore[import-untyped]

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        known = self._file(llvm)
        code = _read(known)
        if code is None:
            code = self._translate(llvm) or self._compile()
            _write(known, code)
        symbol, _, machine = code.partition(b"\0")
        # MCJIT loads what it or numba's linker has made; nothing in it refers to Python or numba.
        target = llvm.Target.from_default_triple().create_target_machine()
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
        engine.add_object_file(llvm.ObjectFileRef.from_data(machine))
        engine.finalize_object()
        entry = _ENTRY(engine.get_function_address(symbol.decode()))

        def call(g: Numbers, _engine: object = engine) -> int:
            status = ctypes.c_int64()
            raised = ctypes.c_void_p()
            if entry(ctypes.byref(status), ctypes.byref(raised), g.ctypes.data) != 0:
                raise ArithmeticError("the kernel divided by zero")
            return status.value

        return call

    def write(self) -> None:
        """Write the kernel's bitcode into the package."""
        import llvmlite.binding as llvm

        symbol, library = self._compiled()
        bitcode = llvm.parse_assembly(library.get_llvm_str()).as_bitcode()
        with atomic(self.bitcode, "wb") as file:
            file.write(self.digest + lzma.compress(symbol + b"\0" + bitcode))

    @property
    def bitcode(self) -> Path:
        """The file of the bitcode, which begins with `digest`."""
        return self._source.with_suffix(".bc.xz")

    @property
    def digest(self) -> bytes:
        """A digest of the kernel's source."""
        digest = hashlib.blake2b(digest_size=_SIZE)
        beside = [self._source.parent / name for name in self.reads]
        for path in (self._source, *beside, Path(__file__).with_name("memory.py")):
            digest.update(path.read_bytes())
        if not isinstance(self.entry, str):
            digest.update(" ".join(self.entry).encode())
        return digest.digest()

    @property
    def _source(self) -> Path:
        package, _, name = self.module.rpartition(".")
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None  # noqa: S101, PT018 - it is a part of this package
        return Path(spec.origin).with_name(f"{name}.py")

    def _file(self, llvm: ModuleType) -> Path:
        digest = hashlib.blake2b(self.digest + Path(__file__).read_bytes(), digest_size=_SIZE)
        features = llvm.get_host_cpu_features().flatten()
        for text in (version("numba"), version("llvmlite"), sys.version, llvm.get_host_cpu_name(), features):
            digest.update(text.encode())
        return self._folder() / f"{self._source.stem}-{digest.hexdigest()}.o"

    def _folder(self) -> Path:
        """Return the folder beside the source if it can be written, else the user's cache."""
        beside = self._source.with_name("__pycache__")
        if os.access(beside if beside.exists() else beside.parent, os.W_OK):
            return beside
        return user_cache()

    def _translate(self, llvm: ModuleType) -> bytes | None:
        """Return machine code made of the package's bitcode; None if it is of another source, system or LLVM."""
        try:
            given = self.bitcode.read_bytes()
            if given[:_SIZE] != self.digest:
                return None
            symbol, _, bitcode = lzma.decompress(given[_SIZE:]).partition(b"\0")
            module = llvm.parse_bitcode(bitcode)
        except (OSError, RuntimeError, lzma.LZMAError):
            return None
        if module.triple != llvm.get_process_triple():
            return None
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3,
            codemodel="jitdefault", jit=True,
        )  # fmt: skip
        made: bytes = machine.emit_object(module)
        return bytes(symbol) + b"\0" + made

    def _compile(self) -> bytes:
        symbol, library = self._compiled()
        machine: bytes = library._compiled_object
        return symbol + b"\0" + machine

    def _compiled(self) -> tuple[bytes, Any]:
        """Return the name of the kernel's entry, and what numba has made."""
        module = importlib.import_module(self.module)
        if isinstance(self.entry, str):
            entry = getattr(module, self.entry)
        else:
            from penstock.native.address import by_address

            entry = by_address([getattr(module, name) for name in self.entry])
        overload = next(iter(entry.overloads.values()))
        return overload.fndesc.llvm_func_name.encode(), overload.library


def _read(path: Path) -> bytes | None:
    try:
        code = path.read_bytes()
    except OSError:
        return None
    whole, found = code[:-_SIZE], code[-_SIZE:]
    return whole if hashlib.blake2b(whole, digest_size=_SIZE).digest() == found else None


def _write(path: Path, code: bytes) -> None:
    try:
        with atomic(path, "wb") as file:
            file.write(code + hashlib.blake2b(code, digest_size=_SIZE).digest())
    except InputError:
        return  # without a file the next run makes it again
