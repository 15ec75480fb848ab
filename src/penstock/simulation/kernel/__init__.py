"""The simulator's events, as compiled functions of one record of tables."""
