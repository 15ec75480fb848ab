"""The kernel's machine code: made by numba once, kept in a file, loaded without numba.

Importing numba takes most of a second, longer than many runs, and compiling takes a few. So the machine code is kept
in an object file, as numba itself does, but so that LLVM alone can load it. Any change of the kernel's source, of
numba or of the processor makes a new file.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
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
_SOURCES = ("kernel.py", "memory.py", "state.py", "native.py")


@functools.cache
def advance() -> Callable[[Records], int]:
    """Return the function ``advance(state.g)`` of the kernel, compiled now or read from the file."""
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    known = _file(llvm)
    code = _read(known)
    if code is None:
        code = _compile()
        _write(known, code)
    symbol, _, machine = code.partition(b"\0")
    # MCJIT loads what numba's own linker has made; nothing in it refers to Python or numba.
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


def _file(llvm: Any) -> Path:
    digest = hashlib.blake2b(digest_size=12)
    for name in _SOURCES:
        digest.update(Path(__file__).with_name(name).read_bytes())
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
    whole, found = code[:-12], code[-12:]
    return whole if hashlib.blake2b(whole, digest_size=12).digest() == found else None


def _write(path: Path, code: bytes) -> None:
    try:
        with atomic(path, "wb") as file:
            file.write(code + hashlib.blake2b(code, digest_size=12).digest())
    except InputError:
        return  # without a file the next run compiles again


def _compile() -> bytes:
    from penstock.simulation import kernel

    overload = next(iter(kernel.advance.overloads.values()))
    symbol: bytes = overload.fndesc.llvm_func_name.encode()
    machine: bytes = overload.library._compiled_object
    return symbol + b"\0" + machine
