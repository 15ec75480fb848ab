"""DECIDE: what to drop when input exceeds capacity."""
