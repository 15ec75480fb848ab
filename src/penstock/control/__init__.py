"""The loop and the chain: measure, predict, decide, act, compare."""
