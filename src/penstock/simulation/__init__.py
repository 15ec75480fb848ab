"""ENGINE 1: discrete events in virtual time."""
