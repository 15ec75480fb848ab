"""Makes the synthetic runs that these tests share importable, also those of single runs."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "running")]
