"""What these tests share: networks that are importable, and kernels compiled, since there are many small programs."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.native.jit import compiling

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    """Compile all kernels, whatever the size."""
    with compiling():
        yield
