"""The dashboard: one page, the requests behind it, and the thread that watches. No logic: `penstock.monitor` has it."""
