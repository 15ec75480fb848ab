"""DECIDE: how late results will be."""
