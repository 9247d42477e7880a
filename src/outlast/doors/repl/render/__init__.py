"""Rendering for the terminal: Markdown, tool calls, the status line, styles."""
