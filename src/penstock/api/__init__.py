"""The functions of ``import penstock``, for notebooks and programs: the same values as the commands, typed.

`inspect` reads the logs of existing jobs; `load_network`, `place`, `estimate`, `simulate` and `shed` plan a network.
"""

from penstock.api.logs import Advised, Inspected, inspect
from penstock.api.networks import Shed, estimate, load_network, place, shed, simulate

__all__ = ["Advised", "Inspected", "Shed", "estimate", "inspect", "load_network", "place", "shed", "simulate"]
