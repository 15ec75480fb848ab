"""Makes the networks that the tests of the latency models use importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "latency"))
