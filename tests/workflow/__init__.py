"""Prompts of one meaning in six languages, recorded runs, and probes: the model leads, and the runtime counts."""
