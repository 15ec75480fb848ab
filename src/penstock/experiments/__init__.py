"""The papers' figures and tables, one file per paper."""
