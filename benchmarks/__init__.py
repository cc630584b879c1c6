"""Benchmarks: each compares the workbench with a named baseline and prints the ratio."""
