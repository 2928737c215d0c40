"""Experiments: a TOML specification, the training of its runs, and the run folders on disk."""
