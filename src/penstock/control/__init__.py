"""The loop: observe, decide, verify, act, on either engine."""
