"""The kernels' machine code: from the package's bitcode, from numba, from the file."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.latency.batching import KERNEL as BATCHES
from penstock.latency.slices import KERNEL as SLICES
from penstock.native import Kernel
from penstock.placement.distribute import KERNEL as PLACER
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


def run(folder, how):
    """Return the results' bytes, and whether numba was imported, in a process that keeps machine code in a folder."""
    command = [sys.executable, "-c", RUN, str(folder), how]
    done = subprocess.run(command, capture_output=True, check=True)
    return done.stdout, done.stderr.decode().split()[-1] == "True"


@pytest.mark.parametrize("kernel", [BATCHES, PLACER, SHEDDER, SIMULATOR, SLICES], ids=lambda kernel: kernel.module)
def test_bitcode_is_of_the_source(kernel: Kernel) -> None:
    """The package's bitcode is of each kernel as it stands: python -m of the module that has KERNEL writes it anew."""
    assert kernel.bitcode.read_bytes().startswith(kernel.digest)


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
