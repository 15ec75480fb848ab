"""Makes the folders of runs importable that the tests of the room below share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "monitor"))
