"""Decides whether a tool call may run: modes, rules, paths, shell commands. Pure except for file-system lookups."""
