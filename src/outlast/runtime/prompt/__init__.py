"""Inputs of the system prompt (personas, memory files), the prompt itself, and the identity of a project."""
