"""What every benchmark says of itself: where its results are kept, and of which revision they are."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from revision import ROOT, revision

__all__ = ["RESULTS", "ROOT", "revision"]

RESULTS = ROOT / "benchmarks" / "results"
