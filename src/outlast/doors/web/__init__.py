"""The web page: its static files, sent to the browser unchanged, and a Markdown parser that runs on the server.

The page uses only the HTTP API. Text from a log enters the document as text nodes, never as markup.
"""
