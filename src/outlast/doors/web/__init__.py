"""The web page: static files that a browser gets as they are, and Markdown parsed where no browser can run it.

The page speaks only the HTTP API. Text from a log reaches the document as text nodes, never as markup.
"""
