"""Sessions as files: lossless JSON lines in and out, Markdown and HTML for people."""
