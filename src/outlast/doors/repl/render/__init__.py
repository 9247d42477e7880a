"""What the terminal draws: Markdown, tool calls, the status line, escaped text."""
