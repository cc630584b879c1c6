"""Runs on a machine over SSH, with an interpreter of that machine: with its Python, or with Spark on a cluster."""
