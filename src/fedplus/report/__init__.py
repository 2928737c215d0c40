"""Comparison tables and the HTML report of run folders."""
