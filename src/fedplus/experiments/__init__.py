"""Experiments: what to run, as TOML; the runs, as folders."""
