"""Paths inside the project, atomic writes, diffs, and the process that scans folders."""
