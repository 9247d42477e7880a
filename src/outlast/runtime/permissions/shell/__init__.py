"""Judges shell commands: two parsers that must agree, and tables of known programs and their arguments."""
