"""The kernels' machine code: from the package's bitcode, from numba, from the file."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from penstock.latency.batching import KERNEL as BATCHES
from penstock.latency.slices import KERNEL as SLICES
from penstock.native import Kernel
from penstock.native.shipped import code
from penstock.placement import distribute
from penstock.placement.climb import SMALL_BUDGET
from penstock.placement.exact import GOALS
from penstock.placement.kernels import KERNELS, LEAST
from penstock.shedding.walk import KERNEL as SHEDDER
from penstock.simulation.native import KERNEL as SIMULATOR

RUN = """
import sys
import attrs
from penstock.cluster import Cluster
from penstock.network import Network
from penstock.latency.slices import KERNEL as SLICES
from penstock.native import Kernel
from penstock.network.shapes import chains
from penstock.simulation import Options, Recording, simulate
from penstock.workload import Rates
if sys.argv[2] == "numba":
    Kernel._translate = lambda self, llvm: None
Kernel._folder = lambda self: __import__("pathlib").Path(sys.argv[1])
options = Options(policy="stimulus", seed=3)
network = chains([[1e-3] * 3] * 4)
drawn = [attrs.evolve(o, service="gamma:0.5") for o in network.operators.values()]
network = Network.of("drawn", network.sources.values(), drawn, network.sinks.values())
placement = {name: f"h{k % 2 + 1}" for k, name in enumerate(network.operators)}
rates = Rates.constant(dict.fromkeys(network.sources, 120.0), 20.0)
result = simulate(network, Cluster.uniform(2), placement, rates, options, record=Recording(trace=True))
sys.stdout.buffer.write(result.trace.tobytes())
print("numba" in sys.modules, file=sys.stderr)
"""

PLACE = """
import sys
import numpy as np
from penstock.native.jit import compiling
from penstock.placement import Arrays, algorithm
rng = np.random.default_rng(4)
arrays = Arrays.of(rng.choice([0.1, 0.8], (7, 12)), np.array([1.0, 1.0, 2.0]))
for name, few, many in {TRIED}:
    plain = algorithm(name, **few)(arrays, np.random.default_rng(1))
    with compiling():
        assert (algorithm(name, **many)(arrays, np.random.default_rng(1)) == plain).all(), name
assert "numba" not in sys.modules
"""
TRIED = [
    *(("exact", {"objective": goal}, {"objective": goal}) for goal in GOALS),
    ("mace-climb", {"restarts": 3}, {"restarts": 3, "budget": SMALL_BUDGET}),
]


def run(folder, how):
    """Return the results' bytes, and whether numba was imported, in a process that keeps machine code in a folder."""
    command = [sys.executable, "-c", RUN, str(folder), how]
    done = subprocess.run(command, capture_output=True, check=True)
    return done.stdout, done.stderr.decode().split()[-1] == "True"


@pytest.mark.parametrize(
    "kernel", [BATCHES, distribute.KERNEL, *KERNELS, SHEDDER, SIMULATOR, SLICES], ids=lambda kernel: kernel.module
)
def test_bitcode_is_of_the_source(kernel: Kernel) -> None:
    """The package's bitcode is of each kernel as it stands: python -m of the module that has it writes it anew."""
    assert kernel.bitcode.read_bytes().startswith(kernel.digest)


@pytest.mark.skipif(sys.platform != "linux", reason="the bitcode is of one system")
def test_placing_compiles_nothing():
    """Large placements take the package's machine code, and answer as the same code does interpreted."""
    subprocess.run([sys.executable, "-c", PLACE.replace("{TRIED}", repr(TRIED))], check=True)


@pytest.mark.parametrize("load", [np.zeros(2, np.float32), np.zeros(4)[::2], np.zeros((1, 2))])
def test_only_what_the_machine_code_reads_is_taken(load):
    """An array of another kind, layout or number of dimensions is refused before the machine code sees it."""
    kernel = code(LEAST, np.inf)
    mean, where, heap = np.ones(3), np.full(3, -1), np.arange(2)
    with pytest.raises(TypeError, match="expected float64"):
        kernel._from_heap(mean, where, load, heap, 1e-9)
    kernel._from_heap(mean, where, np.zeros(2), heap, 1e-9)
    assert where.tolist() == [0, 1, 0]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the bitcode is of one system")
def test_machine_code_is_the_same_from_everywhere(tmp_path):
    """Bitcode, numba and the kept file give the same results bit by bit, and only compiling imports numba."""
    shipped, imported = run(tmp_path / "a", "bitcode")
    assert shipped
    assert not imported
    assert run(tmp_path / "b", "numba") == (shipped, True)
    assert run(tmp_path / "b", "numba") == (shipped, False)
    # A file that was cut is made again.
    kept = next((tmp_path / "a").glob("*.o"))
    kept.write_bytes(kept.read_bytes()[:1000])
    assert run(tmp_path / "a", "bitcode") == (shipped, False)
