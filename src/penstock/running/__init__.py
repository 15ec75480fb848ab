"""One run: calibrate, predict, run, compare with what was predicted, and learn from it."""
