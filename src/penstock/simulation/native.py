"""The kernel's machine code: made once, kept in a file, loaded without numba.

Importing numba takes most of a second, longer than many runs, and compiling takes several. So the package holds what
numba makes of the kernel, as LLVM's bitcode (``python -m penstock.simulation.native`` writes it), and LLVM makes
machine code of it for the processor at hand in less than a second. That is kept in an object file, as numba itself
does, but so that LLVM alone can load it. If the bitcode is of another source or system, numba compiles the kernel.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import lzma
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from penstock.errors import InputError
from penstock.files import atomic
from penstock.simulation.state import Records

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p, ctypes.c_int64)
_SOURCES = ("kernel.py", "memory.py", "state.py")
_BITCODE = Path(__file__).with_name("kernel.bc.xz")
_SIZE = 12
"""Bytes of a digest."""


@functools.cache
def advance() -> Callable[[Records], int]:
    """Return the function ``advance(state.g)`` of the kernel, compiled now or read from the file."""
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    known = _file(llvm)
    code = _read(known)
    if code is None:
        code = _translate(llvm) or _compile()
        _write(known, code)
    symbol, _, machine = code.partition(b"\0")
    # MCJIT loads what it or numba's linker has made; nothing in it refers to Python or numba.
    target = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    engine.add_object_file(llvm.ObjectFileRef.from_data(machine))
    engine.finalize_object()
    entry = _ENTRY(engine.get_function_address(symbol.decode()))

    def call(g: Records, _engine: Any = engine) -> int:
        status = ctypes.c_int64()
        raised = ctypes.c_void_p()
        if entry(ctypes.byref(status), ctypes.byref(raised), g.ctypes.data) != 0:
            raise ArithmeticError("the kernel divided by zero")
        return status.value

    return call


def _source() -> bytes:
    """Return a digest of the kernel's source."""
    digest = hashlib.blake2b(digest_size=_SIZE)
    for name in _SOURCES:
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.digest()


def _file(llvm: Any) -> Path:
    digest = hashlib.blake2b(_source() + Path(__file__).read_bytes(), digest_size=_SIZE)
    features = llvm.get_host_cpu_features().flatten()
    for text in (version("numba"), version("llvmlite"), sys.version, llvm.get_host_cpu_name(), features):
        digest.update(text.encode())
    return _folder() / f"kernel-{digest.hexdigest()}.o"


def _folder() -> Path:
    """Return the folder beside the source if it can be written, else the user's cache."""
    beside = Path(__file__).with_name("__pycache__")
    if os.access(beside if beside.exists() else beside.parent, os.W_OK):
        return beside
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


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


def _translate(llvm: Any) -> bytes | None:
    """Return machine code made of the package's bitcode; None if it is of another source, system or LLVM."""
    try:
        given = _BITCODE.read_bytes()
        if given[:_SIZE] != _source():
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


def _compile() -> bytes:
    symbol, library = _compiled()
    machine: bytes = library._compiled_object
    return symbol + b"\0" + machine


def _compiled() -> tuple[bytes, Any]:
    """Return the name of the kernel's entry, and what numba has made."""
    from penstock.simulation import kernel

    overload = next(iter(kernel.advance.overloads.values()))
    return overload.fndesc.llvm_func_name.encode(), overload.library


def main() -> None:
    """Write the bitcode of the kernel into the package."""
    import llvmlite.binding as llvm

    symbol, library = _compiled()
    bitcode = llvm.parse_assembly(library.get_llvm_str()).as_bitcode()
    with atomic(_BITCODE, "wb") as file:
        file.write(_source() + lzma.compress(symbol + b"\0" + bitcode))


if __name__ == "__main__":
    main()
