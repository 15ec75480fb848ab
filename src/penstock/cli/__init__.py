"""The command line: a face without logic."""
