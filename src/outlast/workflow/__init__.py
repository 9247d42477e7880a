"""Guided workflow: routing, clarify and plan modes, definition of done, completion checks."""
